"""What holds for all tests."""
from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:        # a script's `&` does that; who is interrupted in a test
    signal.signal(signal.SIGINT, signal.default_int_handler)  # would inherit it and never hear of it
