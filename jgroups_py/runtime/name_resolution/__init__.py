"""Names of hosts, resolved off the loop."""
