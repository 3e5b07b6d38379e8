"""`jgroups keys`: what each action makes, prints and refuses; no secret is shown, nothing is written over."""
from __future__ import annotations

import stat
from pathlib import Path

import pytest

from jgroups_py.cli import main
from jgroups_py.sealing.certificates import parse_own_certificate
from jgroups_py.sealing.identities import parse_identity, parse_known_members, parse_revoked_keys
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.system.secrets import read_keyring, write_keyring


class Command:
    """Runs `jgroups keys` in a folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys

    def __call__(self, *words: str) -> str:
        """What it prints; the exit code must be 0."""
        assert main(["keys", *words]) == 0
        return self.capsys.readouterr().out

    def error(self, *words: str, code: int = 2) -> str:
        assert main(["keys", *words]) == code
        return self.capsys.readouterr().err

    def mode(self, name: str) -> int:
        return stat.S_IMODE((self.folder / name).stat().st_mode)


@pytest.fixture
def keys(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JGROUPS_CONTROL", raising=False)
    return Command(tmp_path, capsys)


def test_a_keyring_goes_through_three_phases_and_the_file_says_which_is_next(keys):
    shown = keys("generate", "--keyring", "g.keys")
    old = read_keyring(Path("g.keys"))[0].active
    assert old.name in shown
    assert keys.mode("g.keys") == 0o600
    assert "phase 1 of 3" in keys("rotate", "g.keys")
    new = read_keyring(Path("g.keys"))[0].keys[-1]
    assert f"to activate key {new.name} all members must be ready: no member is named" in keys.error("rotate", "g.keys")
    assert "the next phase is activate, not add" in keys.error("rotate", "g.keys", "--phase", "add")
    assert "phase 2 of 3" in keys("rotate", "g.keys", "--unchecked")
    assert "phase 3 of 3" in keys("rotate", "g.keys", "--unchecked", "--phase", "retire")
    assert keys("show", "g.keys") == f"{old.name}  retired\n{new.name}  active\n"
    assert keys("fingerprint", "g.keys") == f"{old.name}\n{new.name}\n"
    everything = Path("g.keys").read_text()
    assert old.secret.hex() not in everything
    assert "phase 1 of 3" in keys("rotate", "g.keys")


def test_nothing_is_written_over(keys):
    for words in (("generate", "--keyring", "f"), ("generate", "--identity", "f", "--name", "A"),
                  ("generate", "--authority", "f", "--certificate", "x", "--name", "A"),
                  ("generate", "--authority", "x", "--certificate", "f", "--name", "A"),
                  ("request", "f", "--cluster", "c", "--name", "A", "--out", "x"),
                  ("request", "y", "--cluster", "c", "--name", "A", "--out", "f")):
        Path("f").write_text("precious")
        assert "f is there; it is not overwritten" in keys.error(*words)
        assert Path("f").read_text() == "precious"
        Path("x").unlink(missing_ok=True)


def test_a_known_member_is_made_trusted_and_revoked(keys):
    shown = keys("generate", "--identity", "a.pem", "--name", "A b", "--site", "NYC", "--roles", "member,relay")
    key = parse_identity(Path("a.pem").read_bytes()).identity.key
    assert f"jgroups keys trust known.json {key} --name 'A b' --site NYC --roles member,relay" in shown
    assert keys.mode("a.pem") == 0o600
    keys("trust", "known.json", key, "--name", "A b", "--site", "NYC", "--roles", "member,relay")
    found = parse_known_members(Path("known.json").read_bytes()).members[key]
    assert (found.name, found.site, found.roles) == ("A b", "NYC", ("member", "relay"))
    assert keys("show", "known.json") == f"{key}  A b@NYC, as member, relay\n"
    assert "is that of A b@NYC already" in keys.error("trust", "known.json", key, "--name", "B")
    keys("revoke", "revoked.json", key)
    assert key in parse_revoked_keys(Path("revoked.json").read_bytes())
    assert keys("show", "revoked.json") == f"{key}  revoked\n"


def test_an_authority_gives_certificates_with_the_roles_that_it_decides(keys):
    keys("generate", "--authority", "ca.key", "--certificate", "ca.pem", "--name", "CA")
    assert (keys.mode("ca.key"), keys.mode("ca.pem")) == (0o600, 0o644)
    assert b"PRIVATE" not in Path("ca.pem").read_bytes()
    keys("request", "a.pem", "--cluster", "chat", "--cluster", "bridge", "--name", "A", "--site", "NYC", "--out",
         "a.csr")
    assert keys.mode("a.pem") == 0o600
    shown = keys("sign", "ca.key", "a.csr", "--out", "a.crt", "--roles", "member,relay")
    assert "a.crt: A@NYC in cluster bridge, as member, relay, until " in shown
    with Path("a.pem").open("ab") as file:
        file.write(Path("a.crt").read_bytes())
    own = parse_own_certificate(Path("a.pem").read_bytes())
    assert [(each.cluster, each.roles) for each in own.names] == [("chat", ("member", "relay")),
                                                                  ("bridge", ("member", "relay"))]
    assert keys("fingerprint", "a.crt").splitlines() == [own.names[0].key] * 2
    assert "authority CN=CA, from " in keys("show", "ca.pem")
    keys("revoke", "gone.crl", "a.crt", "--authority", "ca.key")
    keys("revoke", "gone.crl", "a.crt", "--authority", "ca.key")
    assert len(keys("show", "gone.crl").splitlines()) == 1
    keys("revoke", "gone.json", "a.crt")
    assert own.names[0].key in parse_revoked_keys(Path("gone.json").read_bytes())


def test_sites_are_trusted_and_revoked(keys):
    keys("trust", "sites.trust", "SFO")
    keys("trust", "sites.trust", "LON", "--receives", "orders", "--sends", "none")
    keys("revoke", "sites.trust", "LON")
    assert keys("show", "sites.trust") == "SFO  counts\nLON  revoked\n"
    keys("trust", "sites.trust", "LON")
    assert keys("show", "sites.trust") == "SFO  counts\nLON  counts\n"
    assert '"receives" is' in keys.error("trust", "sites.trust", "X", "--receives", "*")


@pytest.mark.parametrize(("words", "error"), [
    (("show", "none"), "file none: No such file or directory"),
    (("show", "junk"), "junk: it is no keyring, identity, certificate, request"),
    (("fingerprint", "folder"), "folder: Is a directory"),
    (("rotate", "junk"), "its mode must be 0600"),
    (("generate", "--identity", "a.pem"), "--name is needed"),
    (("generate", "--identity", "a.pem", "--name", "A", "--roles", "king"), "roles must be some of member, relay"),
    (("generate", "--authority", "ca", "--name", "CA"), "--certificate is needed"),
    (("generate", "--authority", "ca", "--certificate", "c", "--name", "CA", "--days", "0"), "--days is from 1 to"),
    (("request", "a", "--cluster", "\0", "--name", "A", "--out", "x"), "without control characters"),
    (("sign", "junk", "junk", "--out", "x"), "its mode must be 0600"),
    (("trust", "known.json", "ed25519:12", "--name", "A"), "64 hex digits"),
    (("trust", "known.json", "ed25519:" + "0" * 64), "--name is needed"),
    (("trust", "junk", "ed25519:" + "0" * 64, "--name", "A"), "junk: not a file of known members"),
    (("revoke", "revoked.json", "nobody"), "key or certificate nobody: No such file"),
    (("revoke", "revoked.json", "junk"), "junk: it has no certificate in PEM"),
    (("status",), "no member is named"),
    (("status", "--control", "none"), "none"),
])
def test_a_wrong_argument_is_an_error_that_says_what_to_do(keys, words, error):
    Path("junk").write_text("junk")
    Path("junk").chmod(0o644)
    Path("folder").mkdir()
    assert error in keys.error(*words)
    assert sorted(each.name for each in keys.folder.iterdir()) == ["folder", "junk"]


def test_no_secret_is_printed(keys, capsys):
    printed = keys("generate", "--keyring", "g.keys") + keys("rotate", "g.keys")
    printed += keys("generate", "--identity", "a.pem", "--name", "A")
    printed += keys("generate", "--authority", "ca.key", "--certificate", "ca.pem", "--name", "CA")
    printed += keys("request", "b.pem", "--cluster", "c", "--name", "B", "--out", "b.csr")
    printed += keys("sign", "ca.key", "b.csr", "--out", "b.crt")
    for name in ("g.keys", "a.pem", "ca.key", "b.pem"):
        printed += keys("show", name) + keys("fingerprint", name)
    secrets = [key.secret.hex() for key in read_keyring(Path("g.keys"))[0].keys]
    for name in ("a.pem", "ca.key", "b.pem"):
        lines = Path(name).read_text().splitlines()
        secrets.append(lines[lines.index("-----BEGIN PRIVATE KEY-----") + 1])
    assert not [secret for secret in secrets if secret in printed]


def test_the_former_name_says_the_new_one(capsys):
    assert main(["key", "new", "group.keys"]) == 2
    assert capsys.readouterr().err == "jgroups key: is now jgroups keys generate --keyring FILE\n"


def test_a_file_that_others_write_is_refused(keys):
    write_keyring(Path("g.keys"), new_keyring(b"k" * 32), new=True)
    Path("g.keys").chmod(0o644)
    assert "its mode must be 0600" in keys.error("rotate", "g.keys")
