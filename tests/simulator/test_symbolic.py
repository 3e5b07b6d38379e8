"""Symbolic signatures decide as the real ones do, in the thread of a run alone."""
from __future__ import annotations

import threading
from pathlib import Path

import pytest

import jgroups_py
from jgroups_py.model.errors import WireError
from jgroups_py.sealing.primitives import SigningKey, verify
from jgroups_py.simulator.profiles import PROFILES
from jgroups_py.simulator.runner import run_seed
from jgroups_py.simulator.symbolic import symbolic_signatures

KEY, OTHER = SigningKey(bytes(32)), SigningKey(bytes(31) + b"\1")
TEXT = b"a transcript"


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_has_one_history_with_symbolic_and_with_real_signatures(seed):
    symbolic, real = (run_seed("view-keys", seed, real_signatures=chosen) for chosen in (False, True))
    assert PROFILES["view-keys"].symbolic
    assert (symbolic.digest, symbolic.violations) == (real.digest, ())


def refused(public: bytes, signature: bytes, text: bytes) -> bool:
    try:
        verify(public, signature, text)
    except WireError:
        return True
    return False


def test_a_symbolic_signature_is_of_one_key_and_one_text():
    with symbolic_signatures():
        made = KEY.sign(TEXT)
        assert not refused(KEY.public, made, TEXT)
        assert refused(OTHER.public, made, TEXT)
        assert refused(KEY.public, made, TEXT + b".")
        assert refused(KEY.public, bytes([made[0] ^ 1]) + made[1:], TEXT)
        assert refused(KEY.public, made[:-1], TEXT)
        assert refused(bytes(32), made, TEXT)


def test_real_and_symbolic_signatures_do_not_count_for_each_other():
    real = KEY.sign(TEXT)
    with symbolic_signatures():
        made = KEY.sign(TEXT)
        assert refused(KEY.public, real, TEXT)
    assert refused(KEY.public, made, TEXT)
    assert not refused(KEY.public, real, TEXT)


def test_other_threads_sign_and_verify_for_real():
    real, found = KEY.sign(TEXT), []

    def elsewhere() -> None:
        found.append((KEY.sign(TEXT) == real, refused(KEY.public, real, TEXT)))

    with symbolic_signatures():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert found == [(True, False)]


def test_after_an_error_signatures_are_real_again():
    real = KEY.sign(TEXT)
    with pytest.raises(RuntimeError), symbolic_signatures():
        raise RuntimeError
    assert KEY.sign(TEXT) == real


def test_nothing_but_the_runner_of_seeds_can_choose_symbolic_signatures():
    root = Path(jgroups_py.__file__).parent
    users = [path.relative_to(root).as_posix() for path in root.rglob("*.py")
             if "symbolic_signatures" in path.read_text(encoding="utf-8")]
    assert sorted(users) == ["simulator/runner.py", "simulator/symbolic.py"]
    assert "import os" not in (root / "simulator" / "symbolic.py").read_text(encoding="utf-8")
