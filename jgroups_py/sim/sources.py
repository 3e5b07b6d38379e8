"""Which sources a result of the simulator belongs to: results of other sources say nothing about these."""
from __future__ import annotations

import hashlib
from pathlib import Path

from jgroups_py.sim.profiles import PROFILES

NEVER_SIMULATED = frozenset({"__main__", "cli", "control", "pipeline", "pytest_plugin", "reports", "watching"})
"""Modules and rooms of the package that no seed imports."""
OF_APPLICATIONS = frozenset({
    "aio", "aioduty", "arguments", "block", "blocks", "channel", "delivery", "duty", "filesystem", "message", "news",
    "receipts", "receiver", "runtime", "session", "simulation", "subscriber"})
"""Those that only the seeds of profiles with an application import: channels, and what stands on them."""


def digest_of_sources(profile: str) -> str:
    """Changes with every change of a source file of the package that a seed of the profile may run."""
    apart = NEVER_SIMULATED | (frozenset() if PROFILES[profile].application else OF_APPLICATIONS)
    found = hashlib.blake2b(digest_size=8)
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if inside.parts[0].removesuffix(".py") not in apart:
            found.update(str(inside).encode() + path.read_bytes())
    return found.hexdigest()
