"""Faults and traffic of simulated runs as data: timed actions, drawn from a seed."""
