"""Real members with AUTH and keys of views: known ones form a group, others do not, and a revoked one is excluded."""
from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

import jgroups_py as jg
from jgroups_py.cli import main
from jgroups_py.ops.control import ControlSocket
from jgroups_py.sealing.identities import KnownMembers, OwnIdentity, RevokedKeys, new_identity
from jgroups_py.system.free_ports import free_range
from tests.runtime.helpers import eventually

pytestmark = pytest.mark.real


def write(path: Path, text: str, mode: int = 0o600) -> None:
    path.touch(mode)
    path.chmod(mode)
    path.write_text(text)


def identities(folder: Path, *names: str) -> dict[str, OwnIdentity]:
    made = {name: new_identity(os.urandom(32), name) for name in names}
    for name, own in made.items():
        write(folder / f"{name}.pem", own.as_text())
    write(folder / "revoked.json", RevokedKeys().as_text(), 0o644)
    return made


def stack(folder: Path, name: str, port: int) -> list[object]:
    return [("TCP", {"bind_port": port, "port_range": 9}), ("ENCRYPT", {"mode": "view", "sign": "pair"}),
            ("AUTH", {"identity": str(folder / f"{name}.pem"), "trust": str(folder / "known.json"),
                      "revoked": str(folder / "revoked.json"), "reread": "100ms"}),
            ("TCPPING", {"initial_hosts": f"127.0.0.1[{port}]", "port_range": 9}), "MERGE3", "FD_ALL",
            "VERIFY_SUSPECT", "NAKACK", "UNICAST", "STABLE",
            ("GMS", {"join_timeout": "300ms", "max_join_attempts": 1}), "MFC", "UFC", "FRAG"]


def test_known_members_form_a_group_and_a_revoked_one_is_excluded(tmp_path):
    made = identities(tmp_path, "A", "B", "Eve")
    known = KnownMembers().with_member(made["A"].identity).with_member(made["B"].identity)
    write(tmp_path / "known.json", known.as_text(), 0o644)
    port, got = free_range(10), []
    with ExitStack() as stacks:
        def start(name: str) -> jg.JChannel:
            member = stacks.enter_context(jg.JChannel(
                stack(tmp_path, name, port), name, {}, lambda message: got.append((name, message.payload))))
            member.connect("known")
            return member

        one, other = start("A"), start("B")
        eventually(lambda: len(one.view) == len(other.view) == 2)
        one.send(None, b"to all")
        other.send(one.address, b"to A")
        eventually(lambda: sorted(got) == [("A", b"to A"), ("A", b"to all"), ("B", b"to all")])
        eve = start("Eve")
        eventually(lambda: one.stats()["AUTH"].get("identities_refused", 0) > 0)
        assert [len(member.view) for member in (one, other, eve)] == [2, 2, 1]
        write(tmp_path / "revoked.json", RevokedKeys().with_key(made["B"].identity.key).as_text(), 0o644)
        eventually(lambda: len(one.view) == 1)
        one.send(None, b"without B")
        eventually(lambda: ("A", b"without B") in got)
        assert ("B", b"without B") not in got


def test_members_with_certificates_form_a_group_and_a_revoked_one_is_excluded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def keys(*words: str) -> None:
        assert main(["keys", *words]) == 0

    keys("generate", "--authority", "ca.key", "--certificate", "ca.pem", "--name", "CA")
    keys("generate", "--authority", "other.key", "--certificate", "other.pem", "--name", "CA")
    for name, authority in (("A", "ca"), ("B", "ca"), ("Eve", "other")):
        keys("request", f"{name}.pem", "--cluster", "known", "--name", name, "--out", f"{name}.csr")
        keys("sign", f"{authority}.key", f"{name}.csr", "--out", f"{name}.crt")
        with Path(f"{name}.pem").open("ab") as file:
            file.write(Path(f"{name}.crt").read_bytes())
    keys("revoke", "revoked.crl", "Eve.crt", "--authority", "other.key")
    Path("revoked.crl").write_text(RevokedKeys().as_text())
    port, got = free_range(10), []
    auth = {"authority": "x509", "trust": "ca.pem", "revoked": "revoked.crl", "reread": "100ms"}
    with ExitStack() as stacks:
        def start(name: str) -> jg.JChannel:
            layers = [layer if layer[0] != "AUTH" else ("AUTH", {"identity": f"{name}.pem", **auth,
                                                                 **({"trust": "other.pem"} if name == "Eve" else {})})
                      for layer in stack(tmp_path, name, port)]
            member = stacks.enter_context(jg.JChannel(layers, name, {}, lambda message: got.append(message.payload)))
            member.connect("known")
            return member

        one, other = start("A"), start("B")
        eventually(lambda: len(one.view) == len(other.view) == 2)
        other.send(None, b"to all")
        eventually(lambda: got == [b"to all"] * 2)
        eve = start("Eve")
        eventually(lambda: one.stats()["AUTH"].get("identities_refused", 0) > 0)
        assert [len(member.view) for member in (one, other, eve)] == [2, 2, 1]
        Path("revoked.crl").unlink()
        keys("revoke", "revoked.crl", "B.crt", "--authority", "ca.key")
        eventually(lambda: len(one.view) == 1)
    foreign = [layer if layer[0] != "AUTH" else ("AUTH", {"identity": "A.pem", **auth})
               for layer in stack(tmp_path, "A", port)]
    with jg.JChannel(foreign, "A") as member, \
            pytest.raises(jg.ChannelError, match=r"its certificate A\.pem is for 'known', not for 'elsewhere'"):
        member.connect("elsewhere")


def test_a_member_without_a_proper_identity_cannot_connect(tmp_path):
    made = identities(tmp_path, "A", "B")
    write(tmp_path / "known.json", KnownMembers().with_member(made["A"].identity).as_text(), 0o644)
    with jg.JChannel(stack(tmp_path, "B", free_range(10)), "A") as member, \
            pytest.raises(jg.ChannelError, match="called 'A', and its identity is that of 'B'"):
        member.connect("closed")
    for name, mode, error in (("A.pem", 0o644, "its mode must be 0600"), ("known.json", 0o666, "may write it")):
        (tmp_path / name).chmod(mode)
        with jg.JChannel(stack(tmp_path, "A", free_range(10)), "A") as member, \
                pytest.raises(jg.ChannelError, match=error):
            member.connect("closed")
        (tmp_path / name).chmod(0o600)


def test_an_operator_gives_a_running_group_a_new_key_and_others_do_not(tmp_path, capsys, caplog):
    """`jgroups keys rotate` without a file: a view of the same members, ordered at a member that is no coordinator."""
    made = {name: new_identity(os.urandom(32), name, "", roles)
            for name, roles in (("A", ("member",)), ("B", ("member", "operator")))}
    known = KnownMembers()
    for name, own in made.items():
        write(tmp_path / f"{name}.pem", own.as_text())
        known = known.with_member(own.identity)
    write(tmp_path / "known.json", known.as_text(), 0o644)
    write(tmp_path / "revoked.json", RevokedKeys().as_text(), 0o644)
    port, got = free_range(10), []
    with ExitStack() as stacks:
        def start(name: str) -> jg.JChannel:
            member = stacks.enter_context(jg.JChannel(
                stack(tmp_path, name, port), name, {}, lambda message: got.append((name, message.payload))))
            stacks.enter_context(ControlSocket(member, tmp_path / f"{name}.sock"))
            member.connect("known")
            return member

        one, other = start("A"), start("B")
        eventually(lambda: len(one.view) == len(other.view) == 2)
        before = one.view
        assert main(["keys", "rotate", "--control", str(tmp_path / "B.sock")]) == 0
        eventually(lambda: one.view.id == other.view.id and one.view.id.counter > before.id.counter)
        assert one.view.members == before.members
        one.send(None, b"under the new key")
        eventually(lambda: sorted(got) == [("A", b"under the new key"), ("B", b"under the new key")])
        assert "order obeyed: a new key of the view, of B" in caplog.text
        assert "B@known: operator's order: a new key of the view" in caplog.text
        after = one.view
        assert main(["keys", "rotate", "--control", str(tmp_path / "A.sock")]) == 1
        assert "refused: A has not the role 'operator'" in capsys.readouterr().err
        assert one.view == after
    assert main(["keys", "rotate"]) == 2
    assert "give the file of a keyring" in capsys.readouterr().err
