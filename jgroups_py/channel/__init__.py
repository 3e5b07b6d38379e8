"""Channels: an application's connections to groups, blocking (sync.py) and for asyncio (aio.py).

Ring 5.
"""
