"""`jgroups keys show`, `fingerprint`, `trust` and `revoke`: what is in files of keys, and who counts."""
from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jgroups_py.cli.keys.make import checked_days, read_public, roles_of
from jgroups_py.cli.showing import show
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.secrets import MAX_TRUST_BYTES
from jgroups_py.protocols.relay.sites import trust as sites
from jgroups_py.sealing.certificate_authority import parse_list, parse_request, sign_list
from jgroups_py.sealing.certificates import (
    CertificateFacts,
    certificate_key_of,
    facts_of,
    key_text_of,
    names_of,
    parse_certificates,
    shown,
)
from jgroups_py.sealing.identities import (
    IDENTITY_FORMAT,
    KEY_KINDS,
    KNOWN_FORMAT,
    REVOKED_FORMAT,
    KnownMembers,
    RevokedKeys,
    checked_identity,
    checked_key,
    parse_identity,
    parse_known_members,
    parse_revoked_keys,
)
from jgroups_py.sealing.keyring import FORMAT, parse_keyring
from jgroups_py.system.secrets import PUBLIC_MODE, read_checked, write_checked

CRL = b"-----BEGIN X509 CRL-----"
REQUEST = b"CERTIFICATE REQUEST-----"
CERTIFICATE = b"-----BEGIN CERTIFICATE-----"


def show_file(args: Namespace) -> int:
    """What is in a file, a line each: a key or its id, and what is said of it."""
    for key, text in entries(args.file):
        show(f"{key}  {text}")
    return 0


def fingerprint(args: Namespace) -> int:
    """The keys alone."""
    for key, _ in entries(args.file):
        show(key)
    return 0


def entries(path: Path) -> Iterator[tuple[str, str]]:
    """Key, or its id, and what a file of any kind says of it.

    Raises:
        ConfigError: it cannot be read, is malformed, or of no known kind.
    """
    data = read_public(path, "file")
    try:
        yield from _entries(data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _entries(data: bytes) -> Iterator[tuple[str, str]]:
    if data.startswith(IDENTITY_FORMAT.encode()):
        own = parse_identity(data).identity
        yield own.key, f"{own}, as {', '.join(own.roles)}"
    elif CRL in data:
        for serial, at_ns in parse_list(data[data.index(CRL):]).items():
            yield f"{serial:x}", f"revoked at {shown(at_ns)}"
    elif REQUEST in data:
        for each in names_of(parse_request(data)):
            yield each.key, f"{each} in cluster {each.cluster}, asked for"
    elif CERTIFICATE in data:
        for facts in map(facts_of, parse_certificates(data)):
            times = f"from {shown(facts.not_before_ns)} until {shown(facts.not_after_ns)}, serial {facts.serial:x}"
            if facts.authority:
                yield facts.key, f"authority {facts.authority}, {times}"
            for each in facts.names:
                yield facts.key, f"{each} in cluster {each.cluster}, as {', '.join(each.roles)}, {times}"
    elif b"PRIVATE KEY-----" in data:
        yield key_text_of(certificate_key_of(data).public), "a private key without a certificate"
    else:
        yield from _of_json(data)


def _of_json(data: bytes) -> Iterator[tuple[str, str]]:
    form = format_of(data)
    if form == FORMAT:
        for key in parse_keyring(data).keys:
            yield key.name, key.state
    elif form == KNOWN_FORMAT:
        for identity in parse_known_members(data).members.values():
            yield identity.key, f"{identity}, as {', '.join(identity.roles)}"
    elif form == REVOKED_FORMAT:
        for text in sorted(parse_revoked_keys(data).keys):
            yield text, "revoked"
    elif form == sites.FORMAT:
        found = sites.parse_trust(data)
        for site in json.loads(data)["sites"]:
            yield site, "revoked" if site in found.revoked else "counts"
        for site in found.revoked:
            if site not in found.sites:
                yield site, "revoked"
    else:
        raise ConfigError("it is no keyring, identity, certificate, request, list of revoked ones, file of known "
                          "members, or file of sites")


def format_of(data: bytes) -> str:
    """The `format` of a file that is JSON; "": it is none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    found = value.get("format", "") if isinstance(value, dict) else ""
    return found if isinstance(found, str) else ""


# --- who counts -------------------------------------------------------------------------------------------------------

def trust(args: Namespace) -> int:
    """One more known member, or site."""
    is_key = args.subject.partition(":")[0] in KEY_KINDS
    data = _existing(args.file)
    if not is_key and (data is None or format_of(data) == sites.FORMAT):
        return _trust_site(args, data)
    if not args.name:
        raise ConfigError("--name is needed: the logical name of the member that has this key")
    key = checked_key(args.subject, "key", KEY_KINDS[:1])
    identity = checked_identity(args.name, args.site, roles_of(args.roles), key, "known member")
    known = _named_error(args.file, parse_known_members, data) if data is not None else KnownMembers()
    write_checked(args.file, known.with_member(identity).as_text(), "known members", mode=PUBLIC_MODE)
    show(f"{args.file}: {identity} is known, as {', '.join(identity.roles)}; {len(known.members) + 1} members")
    return 0


def _trust_site(args: Namespace, data: bytes | None) -> int:
    value: dict[str, Any] = {"format": sites.FORMAT, "sites": {}}
    if data is not None:
        _named_error(args.file, sites.parse_trust, data)
        value = json.loads(data)
    receives = args.receives or ["all"]
    rights = {**({} if receives == ["all"] else {"receives": "none" if receives == ["none"] else receives}),
              **({"sends": "none"} if args.sends == "none" else {})}
    value["sites"][args.subject] = rights
    value["revoked"] = [site for site in value.get("revoked", []) if site != args.subject]
    text = json.dumps(value, indent=1) + "\n"
    sites.parse_trust(text.encode())
    write_checked(args.file, text, "file of sites", mode=PUBLIC_MODE)
    show(f"{args.file}: site {args.subject} counts; {len(value['sites'])} sites")
    return 0


def revoke(args: Namespace) -> int:
    """One more key, certificate or site that counts no more."""
    data = _existing(args.file)
    if args.authority is not None:
        return _revoke_certificate(args, data)
    if data is not None and format_of(data) == sites.FORMAT:
        value = json.loads(data)
        value["revoked"] = [*dict.fromkeys([*value.get("revoked", []), args.subject])]
        text = json.dumps(value, indent=1) + "\n"
        _named_error(args.file, sites.parse_trust, text.encode())
        write_checked(args.file, text, "file of sites", mode=PUBLIC_MODE)
        show(f"{args.file}: site {args.subject} is revoked")
        return 0
    key = args.subject if args.subject.partition(":")[0] in KEY_KINDS else _certificate(Path(args.subject)).key
    before = _named_error(args.file, parse_revoked_keys, data) if data is not None else RevokedKeys()
    write_checked(args.file, before.with_key(key).as_text(), "revoked keys", mode=PUBLIC_MODE)
    show(f"{args.file}: {key} is revoked")
    return 0


def _revoke_certificate(args: Namespace, data: bytes | None) -> int:
    own = read_checked(args.authority, "authority", MAX_TRUST_BYTES, private=True)[0]
    authority, certificate = certificate_key_of(own), parse_certificates(own)[0]
    before = {} if data is None else _named_error(args.file, parse_list, data)
    gone = _certificate(Path(args.subject))
    if gone.issued_by != facts_of(certificate).authority:
        raise ConfigError(f"{args.subject}: {args.authority} has not given this certificate")
    text = sign_list(authority, certificate, [*before, gone.serial], time.time_ns(), checked_days(args.days))
    write_checked(args.file, text, "list of revoked certificates", mode=PUBLIC_MODE)
    show(f"{args.file}: {gone.serial:x} is revoked; {len({*before, gone.serial})} certificates, to "
         f"be replaced within {args.days} days")
    return 0


def _certificate(path: Path) -> CertificateFacts:
    data = read_public(path, "key or certificate")
    return facts_of(_named_error(path, parse_certificates, data)[0])


def _existing(path: Path) -> bytes | None:
    return read_public(path, "file") if path.exists() else None


def _named_error(path: Path, parse: Any, data: bytes) -> Any:
    try:
        return parse(data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
