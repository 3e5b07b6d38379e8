"""Where FLOW and NAMES may stand in a stack, and beside which layers."""
from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.config.load import load
from jgroups_py.model.errors import ConfigError


def flow_stack(**changes: Any) -> list[Any]:
    """The layers of stacks/flow.xml; `changes`: a layer's name -> what takes its place."""
    return [item for layer in load("flow").layers for item in changes.get(layer.name, [layer])]


def names_below(name: str) -> list[Any]:
    layers = [layer for layer in load("names").layers if layer.name != "NAMES"]
    at = next(index for index, layer in enumerate(layers) if layer.name == name)
    return [*layers[:at], "NAMES", *layers[at:]]


@pytest.mark.parametrize(("stack", "why"), [
    (flow_stack(FLOW=["MFC", "FLOW"]), "FLOW stands in the stack beside MFC (python); only one multicast flow control"),
    (flow_stack(FLOW=["FLOW", "FLOW"]), "FLOW is in the stack twice"),
    (flow_stack(FLOW=[], GMS=["FLOW", "GMS"]), "FLOW must stand above GMS"),
    (flow_stack(FLOW=[], FRAG=["FRAG", "FLOW"]), "FRAG must stand above FLOW"),
    (names_below("MERGE3"), "TCPPING must stand above NAMES"),
])
def test_a_place_where_it_could_not_work_is_refused(stack: list[Any], why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(stack)
    assert why in str(caught.value)


def test_what_may_surprise_is_warned_of() -> None:
    small = load(flow_stack(FLOW=[("FLOW", {"window": "64K"})]))
    assert any("all receivers answer every fragment" in warning for warning in small.warnings)
    recorded = load([*flow_stack(), ("ARCHIVE", {"directory": "/nowhere"})])
    assert any("ARCHIVE beside FLOW records messages as delivered" in warning for warning in recorded.warnings)
    assert load(names_below("TCPPING")).warnings == ()
