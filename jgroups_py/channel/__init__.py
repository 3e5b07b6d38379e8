"""Channels: what an application holds of a group, blocking (sync.py) and for asyncio (aio.py).

Ring 5.
"""
