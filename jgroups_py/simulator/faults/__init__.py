"""Faults and traffic as data: timed actions, drawn from a seed."""
