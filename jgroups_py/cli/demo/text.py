"""A text of many lines to replicate, made from a seed: the demo ships no book."""
from __future__ import annotations

from random import Random

LINES = 20_000
SUBJECTS = ("the relay", "a member", "the coordinator", "site NYC", "site SFO", "the second-in-line", "the bridge",
            "a proxy", "the group", "the newcomer", "a slow receiver", "the origin")
VERBS = ("forwards", "holds", "acknowledges", "numbers", "replays", "hands over", "asks for", "drops a copy of",
         "counts", "sends", "delivers", "keeps")
OBJECTS = ("every run", "the last view", "what was missing", "a message", "the higher numbers", "an old epoch",
           "the whole buffer", "one more line", "its vector", "the state")
ENDINGS = ("before the view changes", "in order", "exactly once", "while the link is down", "after the merge",
           "and nobody notices", "without waiting for the other site", "until everybody has it")


def made_text(seed: int, lines: int = LINES) -> bytes:
    """`lines` numbered sentences, the same for the same seed."""
    rng = Random(f"text/{seed}")
    return b"".join(
        f"{number:06d} {rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)} {rng.choice(ENDINGS)}.\n"
        .encode() for number in range(1, lines + 1))
