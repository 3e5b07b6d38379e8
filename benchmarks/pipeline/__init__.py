"""The pipeline measured: rows per second, memory, streaming delay, the simulator farm. Commands: __main__."""
