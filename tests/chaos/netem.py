"""netem: bad weather made by the kernel itself, where it has the module; the command for tc(8), and its outcome."""
from __future__ import annotations

import subprocess

from tests.chaos.forwarder import Weather

TIMEOUT_S = 20.0
REFUSED = 2                          # tc understood, but the kernel did not take it; 1: tc did not understand
UNKNOWN = ("qdisc kind is unknown", "No such file")      # the kernel's words for having no netem, new and old


def command(namespace: str, device: str, weather: Weather) -> list[str]:
    """The words that give a device this weather, for what it sends."""
    words = ["tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "netem",
             "delay", f"{weather.delay_ms:g}ms", f"{weather.jitter_ms:g}ms", "loss", f"{weather.loss:.1%}",
             "duplicate", f"{weather.duplicate:.1%}", "corrupt", f"{weather.corrupt:.1%}"]
    if weather.reorder and weather.delay_ms:             # an overtaking frame is one without delay
        words += ["reorder", f"{weather.reorder:.1%}"]
    return words


def set_weather(namespace: str, device: str, weather: Weather) -> bool:
    """Give a device this weather; False if the kernel has no netem.

    Raises:
        RuntimeError: tc does not understand, or there is no such device.
    """
    words = command(namespace, device, weather)
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S)
    unknown = done.returncode == REFUSED and any(text in done.stderr for text in UNKNOWN)
    if done.returncode and not unknown:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return not unknown
