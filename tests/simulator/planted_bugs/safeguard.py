"""A safeguard, and how it is removed for a while."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import attrs

from jgroups_py.simulator.runner import Outcome, run_seed


@attrs.frozen
class Patch:
    """A method, or a function of a module, that is replaced."""

    owner: type | ModuleType
    method: str
    without: Callable[..., Any]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replaced inside the block. The marks that tie a handler to headers and events stay."""
        original = self.owner.__dict__[self.method]
        if not isinstance(original, property):
            self.without.__dict__.update(original.__dict__)
        setattr(self.owner, self.method, property(self.without) if isinstance(original, property) else self.without)
        try:
            yield
        finally:
            setattr(self.owner, self.method, original)


@attrs.frozen
class Safeguard:
    """What is taken away, the profile whose seeds show it, the guarantee that then breaks.

    rule: of RELAY, or the protocol it belongs to; left: what the core does without it.
    """

    name: str
    rule: str
    left: str
    patches: tuple[Patch, ...]
    profile: str
    breaks: str

    @contextmanager
    def removed(self) -> Iterator[None]:
        """The core without this safeguard inside the block."""
        with ExitStack() as stack:
            for patch in self.patches:
                stack.enter_context(patch.applied())
            yield

    def first_found(self, seeds: Iterable[int]) -> Outcome | None:
        """The first seed on which a checker finds the guarantee broken."""
        with self.removed():
            for seed in seeds:
                outcome = run_seed(self.profile, seed)
                assert not any("TypeError" in text for text in outcome.violations), \
                    f"what replaces {self.name} does not fit the core: {outcome.violations[0]}"
                if self.breaks in outcome.guarantees:
                    return outcome
        return None
