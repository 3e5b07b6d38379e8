"""Building blocks above a channel: requests, replicated tables and partitions, placement, names.

Ring 6.
"""
