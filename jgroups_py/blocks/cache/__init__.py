"""A cache at each member over a source of the application's, with invalidation at all members of all sites."""
from __future__ import annotations
