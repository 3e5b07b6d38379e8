"""Connections that break at the worst moment."""
from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.real


def test_a_peer_that_is_gone_while_its_frames_wait_to_be_read_does_not_end_the_process():
    done = subprocess.run([sys.executable, "-m", "tests.integration.overrun"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
