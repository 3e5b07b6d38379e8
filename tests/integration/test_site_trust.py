"""Real members of two sites with trust files: a site that is revoked is out within two seconds, without a restart."""
from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import pytest

import jgroups_py as jg
from jgroups_py.protocols.relay.sites.trust import FORMAT
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.system.free_ports import free_range
from jgroups_py.system.secrets import SECRETS, write_keyring
from tests.runtime.helpers import eventually

pytestmark = pytest.mark.real


def write_trust(path: Path, *revoked: str) -> None:
    path.write_text(json.dumps({"format": FORMAT, "sites": {"NYC": {}, "SFO": {}}, "revoked": revoked}))
    path.chmod(0o600)


def test_a_revoked_site_is_out_within_two_seconds(tmp_path: Path) -> None:
    trust, first = tmp_path / "sites.trust", free_range(10)
    write_trust(trust)
    bridge = {"bridge_props": "bridge.xml", "bridge_port": first, "bridge_hosts": f"127.0.0.1[{first}]", "bridge_name":
              f"bridge-{first}"}
    got: dict[str, list[bytes]] = {"NYC": [], "SFO": []}
    with ExitStack() as stacks:
        channels = {}
        for site, own in (("NYC", {"trust": trust, "trusted_relays": True}), ("SFO", {})):
            write_keyring(tmp_path / f"{site}.keys", new_keyring(SECRETS.draw(32)), new=True)
            channel = stacks.enter_context(jg.JChannel("sealed-site", site[0], {
                **bridge, **own, "keyring": tmp_path / f"{site}.keys", "site": site, "mcast_port": free_range()},
                lambda message, site=site: got[site].append(message.payload)))
            channel.connect(f"group-{site}")
            channels[site] = channel
        nyc, sfo = channels["NYC"], channels["SFO"]
        eventually(lambda: "status_SFO" in nyc.stats()["RELAY"] and "status_NYC" in sfo.stats()["RELAY"])
        sfo.send(None, b"before")
        eventually(lambda: b"before" in got["NYC"])

        write_trust(trust, "SFO")
        began = monotonic()
        eventually(lambda: nyc.stats()["RELAY"]["status_SFO"] == 2)
        assert monotonic() - began < 2.0
        sfo.send(None, b"after")
        nyc.send(None, b"to nobody else")
        eventually(lambda: nyc.stats()["RELAY"].get("unknown_site_dropped", 0) > 0)
        assert (b"after" in got["NYC"], b"to nobody else" in got["SFO"]) == (False, False)
        eventually(lambda: nyc.stats()["RELAY"]["held_SFO"] == 0)
