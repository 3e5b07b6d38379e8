"""`jgroups keys generate`, `request` and `sign`: new keys and certificates. Nothing that is there is written over."""
from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path
from shlex import quote

from jgroups_py.cli.showing import show
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.secrets import MAX_TRUST_BYTES
from jgroups_py.sealing.certificate_authority import DAY_NS, SERIAL_BYTES, new_authority, parse_request, sign_request
from jgroups_py.sealing.certificates import (
    certificate_key_of,
    identity_uri,
    names_of,
    new_certificate_key,
    parse_certificates,
    shown,
    time_of,
)
from jgroups_py.sealing.identities import new_identity
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.sealing.primitives import KEY_BYTES
from jgroups_py.system.secrets import PUBLIC_MODE, SECRETS, read_checked, write_checked, write_keyring

MOST_DAYS = 36500


def roles_of(text: str) -> list[str]:
    """The roles in an argument; they are checked where they are used."""
    return [role.strip() for role in text.split(",")]


def checked_days(days: int) -> int:
    """The argument --days.

    Raises:
        ConfigError: it is not from 1 to MOST_DAYS.
    """
    if not 1 <= days <= MOST_DAYS:
        raise ConfigError(f"--days is from 1 to {MOST_DAYS}, not {days}")
    return days


def generate(args: Namespace) -> int:
    """A keyring, an identity, or an authority."""
    if args.keyring is not None:
        keyring = new_keyring(SECRETS.draw(KEY_BYTES))
        write_keyring(args.keyring, keyring, new=True)
        show(f"{args.keyring}: key {keyring.active.name} is active; give the same file, mode 0600, to all members")
        return 0
    if not args.name:
        raise ConfigError("--name is needed: the logical name of the member, or the name of the authority")
    if args.identity is not None:
        own = new_identity(SECRETS.draw(KEY_BYTES), args.name, args.site, roles_of(args.roles))
        write_checked(args.identity, own.as_text(), "identity", new=True)
        site = f" --site {quote(own.identity.site)}" if own.identity.site else ""
        show(f"{args.identity}: the key of {own.identity}, for that member alone; to let it in:",
             f"jgroups keys trust known.json {own.identity.key} --name {quote(own.identity.name)}{site} "
             f"--roles {','.join(own.identity.roles)}")
        return 0
    if args.certificate is None:
        raise ConfigError("--certificate is needed: where the certificate of the authority is written, for all members")
    if args.certificate.exists():
        raise ConfigError(f"{args.certificate} is there; it is not overwritten")
    key, certificate = new_authority(SECRETS.draw(KEY_BYTES), args.name, time.time_ns(), checked_days(args.days))
    write_checked(args.authority, key.pem() + certificate, "authority", new=True)
    write_checked(args.certificate, certificate, "certificate", new=True, mode=PUBLIC_MODE)
    show(f"{args.authority}: the private key of the authority {args.name}; keep it off the members' hosts",
         f"{args.certificate}: its certificate, for `trust` of AUTH at all members")
    return 0


def request(args: Namespace) -> int:
    """A private key, and a request for a certificate of it."""
    uris = [identity_uri(cluster, args.name, args.site) for cluster in args.cluster]
    if args.out.exists():
        raise ConfigError(f"{args.out} is there; it is not overwritten")
    key = new_certificate_key(SECRETS.draw(KEY_BYTES))
    pem = key.request(uris)
    write_checked(args.file, key.pem(), "identity", new=True)
    write_checked(args.out, pem, "request", new=True, mode=PUBLIC_MODE)
    show(f"{args.file}: the private key of {args.name}, for that member alone",
         f"{args.out}: give it to the authority (jgroups keys sign); append the certificate to {args.file}")
    return 0


def sign(args: Namespace) -> int:
    """The certificate for a request; prints whom it names."""
    data = read_checked(args.authority, "authority", MAX_TRUST_BYTES, private=True, makes="jgroups keys generate")[0]
    authority, certificate = certificate_key_of(data), parse_certificates(data)[0]
    asked = parse_request(read_public(args.request, "request"))
    now_ns = time.time_ns()
    if time_of(now_ns) > certificate.not_valid_after_utc:
        raise ConfigError(f"{args.authority}: the authority itself has expired, at {certificate.not_valid_after_utc}")
    until_ns = now_ns + checked_days(args.days) * DAY_NS
    made = sign_request(authority, certificate, asked, roles_of(args.roles), SECRETS.draw(SERIAL_BYTES), now_ns,
                        until_ns)
    write_checked(args.out, made, "certificate", new=True, mode=PUBLIC_MODE)
    for each in names_of(parse_certificates(made.encode())[0]):
        show(f"{args.out}: {each} in cluster {each.cluster}, as {', '.join(each.roles)}, until "
             f"{shown(until_ns)}")
    return 0


def read_public(path: Path, what: str) -> bytes:
    """The contents of a file that holds nothing secret, of whoever it is.

    Raises:
        ConfigError: it cannot be read, or is too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TRUST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{what} {path}: {error.strerror}") from None
    if len(data) > MAX_TRUST_BYTES:
        raise ConfigError(f"{what} {path}: larger than {MAX_TRUST_BYTES} bytes")
    return data
