"""Mutants of the production core, as a measure of what unit tests and simulator profiles notice (design/mutants.md).

cosmic-ray makes the mutants; the judges are ours: the unit tests of the room, and, apart from them, the profiles of the
simulator. `python -m tests.mutants` is the command.
"""
