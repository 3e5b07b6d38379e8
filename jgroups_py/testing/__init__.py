"""Test benches for applications and protocols: a stack on a bench, applications on the simulator.

Ring 6.
"""
