"""Failover of the relay, beside Java JGroups. `python -m benchmarks.duel`; README.md has the rules."""
