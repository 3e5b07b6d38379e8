"""What the operating system gives: files for this user alone, child processes, the log.

Ring 4.
"""
