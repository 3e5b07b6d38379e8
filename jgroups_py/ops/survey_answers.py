"""Answers to a survey as they come from the network, and the digest by which members compare their configurations."""
from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from jgroups_py.config.spec import StackSpec
from jgroups_py.model.batch import Batch
from jgroups_py.ops.reports import Facts, config_facts

ANSWER_BYTES = 4096
LARGEST = 1e18                              # of a number in an answer
OF_THIS_HOST = ("addr", "port", "hosts", "dir", "file", "name", "location", "keyring", "interface", "key", "site")
"""A property with one of these words in its name may differ from member to member."""


def stack_digest(spec: StackSpec) -> str:
    """A digest of protocols and properties without those of a host; equal at members with equal configurations."""
    facts = [(each["protocol"], {name: value for name, value in each["properties"].items()
                                 if not any(word in name for word in OF_THIS_HOST)}) for each in config_facts(spec)]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


KINDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("clock", "uptime_seconds", "stuck_seconds"), lambda value: _is_number(value)),
    **dict.fromkeys(("wire", "delivered", "backlog_bytes", "kept_back_bytes"),
                    lambda value: _is_number(value) and isinstance(value, int)),
    **dict.fromkeys(("version", "stack"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("coordinator", "relay"), lambda value: isinstance(value, bool)),
    "view": lambda value: value is None or isinstance(value, str),
    "sites": lambda value: isinstance(value, dict) and all(isinstance(each, dict) for each in value.values()),
}
"""Field of an answer -> the check of its value. Further fields of later versions are ignored."""

LATER: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("sent", "sent_bytes", "delivered_bytes"),
                    lambda value: _is_number(value) and isinstance(value, int)),
    "suspects": lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
}
"""Likewise, of fields that members of earlier versions leave out."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST   # nor nan


def parsed_answer(batch: Batch) -> Facts | None:
    """The answer in a batch from the network; None: it is malformed."""
    if len(batch.payloads) != 1 or len(batch.payloads[0]) > ANSWER_BYTES:
        return None
    try:
        found = json.loads(batch.payloads[0])
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(name in found and holds(found[name]) for name, holds in KINDS.items()):
        return None
    if not all(holds(found[name]) for name, holds in LATER.items() if name in found):
        return None
    return {name: found[name] for name in (*KINDS, *LATER) if name in found}
