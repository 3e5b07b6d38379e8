"""Pure values that all rooms use: addresses, batches, views, events, outputs, ports, errors, units.

Pure. Ring 0.
"""
