"""A dict whose copies cannot diverge, on one order of all multicasts (TOTAL).

core.py is the copy of one member, pure; messages.py what copies send each other; replicated.py puts it on a channel.
"""
