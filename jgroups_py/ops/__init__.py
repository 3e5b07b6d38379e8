"""Operators: reports and events of a running member, and orders to it, through a control socket.

Ring 5.
"""
