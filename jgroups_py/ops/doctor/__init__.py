"""What keeps members of a stack from finding each other, or slows them: searched on this host (host.py), and between
two hosts (pair.py). finding.py is what is said about it."""
