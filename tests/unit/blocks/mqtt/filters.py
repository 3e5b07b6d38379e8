"""Filters and topics of case 3, and whether one matches the other (4.7 of the standard)."""
from __future__ import annotations

FILTERS = (
    ("a/b", "a/b", True), ("a/b", "a/c", False), ("a/+", "a/b", True), ("a/+", "a/b/c", False),
    ("a/+/c", "a/b/c", True), ("a/+/c", "a/b/d", False),
    ("+", "a", True), ("+", "a/b", False), ("+/+", "/a", True), ("/+", "/a", True),
    ("+", "/a", False), ("a/#", "a", True), ("a/#", "a/b/c", True), ("a/#", "b", False), ("#", "a/b", True),
    ("#", "$own/x", False), ("+/x", "$own/x", False), ("$own/x", "$own/x", True), ("$own/#", "$own/x", True),
    ("a//b", "a//b", True),
)
