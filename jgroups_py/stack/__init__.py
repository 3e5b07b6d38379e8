"""The base of protocols and components, the stack that moves batches between them, and its routes.

Pure. Ring 1.
"""
