"""Configuration: stack files (XML, YAML) and Python lists, all read into one StackSpec.

Pure. Ring 3.
"""
