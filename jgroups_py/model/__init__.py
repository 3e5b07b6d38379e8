"""Pure values that everything speaks: addresses, batches, views, events, outputs, ports, errors, units.

Pure. Ring 0.
"""
