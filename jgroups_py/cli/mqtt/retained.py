"""`jgroups mqtt retained [FILTER]`: the retained messages of a broker."""
from __future__ import annotations

import base64
from argparse import Namespace

from jgroups_py.cli.mqtt.api import as_table, ask, finish

SHOWN = 60
MOST = 1_000
"""That a broker shows at once."""


def run(args: Namespace) -> int:
    """Print them. Raises ConfigError."""
    answer = ask(args.api, "/v1/retained", "retained", filter=args.filter)
    found = answer["retained"]
    rows = []
    for each in found:
        payload = base64.b64decode(each["payload_base64"])
        rows.append((each["topic_name"], each["qos"], len(payload), shown(payload)))
    lines = as_table(("topic", "QoS", "bytes", "payload"), rows, ("bytes",))
    number = "1 message" if len(found) == 1 else f"{len(found)} messages"
    lines.append(number + ("; more may match: narrow the filter" if len(found) >= MOST else ""))
    return finish(args, answer, lines)


def shown(payload: bytes) -> str:
    """The beginning of a payload: as text if it is some, else in hexadecimal.

    >>> shown(b"21.5"), shown(bytes([255, 0])), shown(b"x" * 70) == "x" * 57 + "..."
    ('21.5', '0xff00', True)
    """
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        text = f"0x{payload[:SHOWN].hex()}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN - 3]}..."
