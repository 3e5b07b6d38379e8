"""Pure data structures that rooms share: sets of ranges, stores of runs, windows for sending and receiving.

All of them cost by the run or the range, never by the message: a run of a thousand messages is one entry.
"""
