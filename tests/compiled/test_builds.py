"""Compiled or not, the classes behave the same; `tox -e compiled` runs this file with both."""
from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from importlib import import_module

import pytest

import jgroups_py
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.system.builds import MODULES

A = Address(b"A" * 16, "A")


def test_compiled_says_what_is_loaded() -> None:
    loaded = {str(import_module(name).__file__).endswith(".py") for name in MODULES}
    assert loaded == {not jgroups_py.__compiled__}, "all of them are compiled, or none"


def python(pure: str) -> subprocess.CompletedProcess[str]:
    program = f"import jgroups_py; import {MODULES[0]} as module; print(jgroups_py.__compiled__, module.__file__)"
    return subprocess.run([sys.executable, "-c", program], env={**os.environ, "JGROUPS_PURE": pure},
                          capture_output=True, text=True, check=False)


def test_the_source_can_be_chosen() -> None:
    compiled, path = python("1").stdout.split()
    assert compiled == "False"
    assert path.endswith("model/batch.py")


def test_a_choice_that_is_none_is_refused() -> None:
    assert "JGROUPS_PURE is 'yes'; 1 chooses the source" in python("yes").stderr


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))])
def test_a_batch_can_be_copied_and_pickled(copied: object) -> None:
    batch = Batch(A, None, (b"a", b"bc"), (), 1, place=7)
    again = copied(batch)                                    # type: ignore[operator]
    assert (again.src, again.dest, again.payloads, again.flags, again.nbytes, again.length, again.place) == (
        A, None, (b"a", b"bc"), 1, 3, -1, 7)


def test_a_batch_takes_no_other_attributes() -> None:
    with pytest.raises(AttributeError, match="color"):
        Batch(A, None).color = 1                             # type: ignore[attr-defined]


def test_batch_has_no_subclasses() -> None:
    with pytest.raises(TypeError, match=r"Batch has no subclasses|interpreted classes cannot inherit from compiled"):
        type("Mine", (Batch,), {})


def test_flags_that_are_none_are_refused_in_the_same_words() -> None:
    with pytest.raises(TypeError, match=r"flags are Flag\.OOB, .*, not str"):
        jgroups_py.Message(None, b"x", flags="OOB")          # type: ignore[arg-type]
    with pytest.raises(ValueError, match="flags 0x8: known are"):
        jgroups_py.Message(None, b"x", flags=8)
