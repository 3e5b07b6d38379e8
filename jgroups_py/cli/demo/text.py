"""A text of many lines to replicate, generated from a seed: the package contains no text for the demo."""
from __future__ import annotations

from random import Random

LINES = 20_000
SUBJECTS = ("the relay", "a member", "the coordinator", "site NYC", "site SFO", "the second-in-line", "the bridge",
            "a proxy", "the group", "the joiner", "a slow receiver", "the origin")
VERBS = ("forwards", "holds", "acknowledges", "numbers", "replays", "hands over", "asks for", "drops a copy of",
         "counts", "sends", "delivers", "keeps")
OBJECTS = ("every batch", "the last view", "what was missing", "a message", "the higher numbers", "an old epoch",
           "the whole buffer", "one more line", "its vector", "the state")
ENDINGS = ("before the view changes", "in order", "exactly once", "while the link is down", "after the merge",
           "without a pause", "without waiting for the other site", "until all members have it")


def made_text(seed: int, lines: int = LINES) -> bytes:
    """`lines` numbered sentences, equal for equal seeds."""
    rng = Random(f"text/{seed}")
    return b"".join(
        f"{number:06d} {rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)} {rng.choice(ENDINGS)}.\n"
        .encode() for number in range(1, lines + 1))
