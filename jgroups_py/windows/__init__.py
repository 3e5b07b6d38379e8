"""Pure data structures that protocols share: sets of ranges, stores of batches, windows for sending and receiving.

All of them cost by the batch or the range, never by the message: a batch of a thousand messages is one entry.

Pure. Ring 0.
"""
