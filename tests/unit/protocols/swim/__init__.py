"""SWIM, layer by layer of its room."""
