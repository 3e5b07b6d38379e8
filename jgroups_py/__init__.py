"""Group communication for Python, in the style of JGroups."""
