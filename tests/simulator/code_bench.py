"""Applications of coroutines or threads on a stage without faults, for directed tests."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jgroups_py.config.load import load
from jgroups_py.model.units import seconds
from jgroups_py.testing.simulation import Trial
from jgroups_py.testing.simulation.code_member import CodeMember
from jgroups_py.testing.simulation.trial import Stage

App = Callable[[Any], Any]


class Bench:
    """A stage without faults; `names` start at once."""

    def __init__(self, app: App, names: str = "AB", stack: str = "udp", **options: Any) -> None:
        self.stage = Stage(Trial("group", app, **options), 1)
        self.stack = stack
        for name in names:
            self.start(name)

    def start(self, name: str) -> None:
        self.stage.start(name, load(self.stack, {}))

    def member(self, name: str) -> CodeMember:
        app = self.stage.processes[name].app
        assert isinstance(app, CodeMember)
        return app

    def until(self, holds: Callable[[], object], within_s: float = 20) -> None:
        assert self.stage.run_while(lambda: not holds() and not self.stage.stopped, seconds(within_s))
        assert not self.stage.failures, "\n".join(map(str, self.stage.failures))
        assert self.stage.refusal is None, str(self.stage.refusal)
