"""No key is shown: not in logs and traces at their most verbose, not in `hold_dir`, not in reports.

Two sites run with keys of views and AUTH inside and on the bridge. One of them dies, so that messages for it are
written to `hold_dir`; all messages are traced, all drops logged. Then everything is searched for each key of the run:
of the keyrings, the views, the pairs and the exchanges.
"""
from __future__ import annotations

import base64
import json
import logging
from contextlib import ExitStack
from pathlib import Path

import pytest

import jgroups_py as jg
from jgroups_py.protocols.encrypt.protocol import Encrypt
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.stack.stack import Stack
from jgroups_py.system.free_ports import free_range
from jgroups_py.system.secrets import SECRETS, write_keyring
from tests.runtime.helpers import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]
STACKS = Path(jg.__file__).parent.parent / "stacks"
HELD = b"a message that is held for the other site"


def forms(secret: bytes) -> tuple[bytes, ...]:
    """How a key could stand somewhere."""
    return (secret, secret.hex().encode(), secret.hex().upper().encode(), base64.b64encode(secret)[:40],
            repr(secret).encode(), base64.urlsafe_b64encode(secret)[:40])


def keys_of(member: jg.JChannel) -> set[bytes]:
    """All keys that the layers of a member have now."""
    session = member._session
    assert session is not None
    node = session.host.node
    assert node is not None
    found: set[bytes] = set()
    for stack in (node.local, node.bridge):
        if isinstance(stack, Stack):
            encrypt: Encrypt = stack.find(Encrypt)
            found |= {key.secret for key in encrypt.usable.values()}
            found |= {pair.pair.secret for pair in encrypt.pairs.values() if pair.pair is not None}
            found |= {encrypt.view_key.secret} if encrypt.view_key is not None else set()
            assert encrypt.writer is not None
            found |= {encrypt.writer.agreement._key.private_bytes_raw()} if encrypt.writer.agreement else set()
            found |= {encrypt.writer.signer._key.private_bytes_raw()} if encrypt.writer.signer else set()
    return found


def test_no_key_is_in_logs_traces_journals_and_reports(tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG, "jgroups_py")
    for name in ("jgroups_py.drops", "jgroups_py.trace"):
        caplog.set_level(logging.DEBUG, name)
    secrets = {}
    (tmp_path / "keys").mkdir()
    for name in ("site", "bridge", "psk", "hold"):
        secrets[name] = SECRETS.draw(32)
        write_keyring(tmp_path / "keys" / f"{name}.keys", new_keyring(secrets[name]), new=True)
    for name, ring in (("sealed-site", "site"), ("sealed-bridge", "bridge")):
        text = (STACKS / f"{name}.xml").read_text()
        start, end = text.index("<ENCRYPT"), text.index("/>", text.index("<ENCRYPT")) + 2
        auth = f'<AUTH authority="psk" secret="{tmp_path}/keys/psk.keys"/>'
        (tmp_path / f"{name}.xml").write_text(
            f'{text[:start]}<ENCRYPT mode="view" sign="pair" keyring="{tmp_path}/keys/{ring}.keys"/>{auth}{text[end:]}')
    port, got, reports = free_range(10), [], []
    found = set(secrets.values())
    with ExitStack() as stacks:
        members = {}
        for site, hold in (("NYC", ""), ("SFO", f"{tmp_path}/keys/hold.keys")):
            monkeypatch.setenv("JGROUPS_TRACE", f"{site}-A")
            members[site] = stacks.enter_context(jg.JChannel(str(tmp_path / "sealed-site.xml"), f"{site}-A", {
                "site": site, "mcast_port": free_range(), "bridge_port": port, "bridge_name": f"bridge-{port}",
                "bridge_hosts": f"127.0.0.1[{port}]", "hold_dir": tmp_path / "hold" / site, "hold_keyring": hold,
                "bridge_props": tmp_path / "sealed-bridge.xml"}, lambda message: got.append(message.payload)))
            members[site].connect("everywhere")
        eventually(lambda: all(member.global_view is not None and len(member.global_view.members) == 2
                               for member in members.values()))
        for member in members.values():
            found |= keys_of(member)
            member.send(None, HELD)
        eventually(lambda: got.count(HELD) == 4)
        session = members["SFO"]._session
        assert session is not None
        session.host.kill("died")
        eventually(lambda: len(members["NYC"].global_view.members) == 1)
        for _ in range(50):
            members["NYC"].send(None, HELD)
        journals = tmp_path / "hold"
        eventually(lambda: any(HELD in path.read_bytes() for path in journals.rglob("*") if path.is_file()))
        member = members["NYC"]
        found |= keys_of(member)
        reports = [json.dumps(member.stats(), default=str), str(member.spec), repr(member.spec), repr(member),
                   repr(member._session.host.node.local.find(Encrypt).__dict__),
                   json.dumps(member._session.host.node.local.find(Encrypt).key_report())]
    assert len(found) > 12, "keyrings, views, pairs and exchanges, inside and on the bridge"
    files = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
             and path.parent.name != "keys"}
    logged = "\n".join(record.getMessage() for record in caplog.records)
    assert any(record.name == "jgroups_py.trace" for record in caplog.records), "messages were traced"
    assert any("journal" in name or HELD in data for name, data in files.items())
    everything = {**files, "logs": logged.encode()}
    everything |= {f"report {at}": text.encode() for at, text in enumerate(reports)}
    shown = [(where, form[:8]) for secret in found for form in forms(secret) for where, data in everything.items()
             if form in data]
    assert not shown
    kept = (tmp_path / "keys" / "site.keys").read_bytes()
    assert any(form in kept for form in forms(secrets["site"])), "the search finds a key where one is"
