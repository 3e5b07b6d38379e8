"""Finds the causes for which members of a stack do not find each other, or are slow: on this host (host.py), and
between two hosts (pair.py). finding.py is the form of a result."""
