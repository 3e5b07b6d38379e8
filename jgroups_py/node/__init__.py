"""One incarnation of a member: its local stack and, while it is the relay, the bridge stack.

Pure. Ring 3.
"""
