"""Attacks on real members, by number: design/threat-model.md."""
