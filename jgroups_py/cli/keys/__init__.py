"""`jgroups keys`: makes the keys of ENCRYPT and AUTH, and changes them; no secret is ever printed.

    jgroups keys generate --keyring group.keys              a keyring with one active key
    jgroups keys generate --identity a.pem --name A         a member's own key (AUTH authority="keys")
    jgroups keys generate --authority ca.key --certificate ca.pem --name CA
                                                            an authority of your own (AUTH authority="x509")
    jgroups keys request a.pem --cluster chat --name A --out a.csr     a member's own key, a request for a certificate
    jgroups keys sign ca.key a.csr --out a.crt --roles member,relay    the certificate; then: cat a.crt >> a.pem
    jgroups keys show FILE                                  what is in any of these files
    jgroups keys fingerprint FILE                           its public keys, or ids of keys, alone
    jgroups keys trust known.json KEY --name A              one more known member
    jgroups keys trust sites.trust SFO --receives orders    one more site, for RELAY
    jgroups keys revoke revoked.json KEY                    a key that counts no more (or the file of a certificate)
    jgroups keys revoke revoked.crl a.crt --authority ca.key           the same as a list that the authority signs
    jgroups keys revoke sites.trust SFO                     a site that counts no more
    jgroups keys rotate group.keys [--control PATH]         the next of three phases: add, activate, retire
    jgroups keys rotate --control PATH                      a new key of the view (ENCRYPT mode="view"), at once
    jgroups keys status --control PATH                      which members of a running group have which keys

Files with secrets are for this user alone (mode 0600). What is new is never written over a file that is there. Running
members read a changed file within about a second (`reread`).
"""
from __future__ import annotations

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jgroups_py.cli.control_client import add_control_argument, wrong
from jgroups_py.cli.keys.make import generate, request, sign
from jgroups_py.cli.keys.rotation import PHASES, rotate, status
from jgroups_py.cli.keys.trust import fingerprint, revoke, show_file, trust
from jgroups_py.model.errors import ChannelError, ConfigError
from jgroups_py.sealing.identities import MEMBER
from jgroups_py.sealing.primitives import require_library


def add_parser(subparsers: Any) -> None:
    """Add `keys` to the command line."""
    parser: ArgumentParser = subparsers.add_parser(
        "keys", help="make, show, trust, revoke and rotate keys", description=__doc__,
        formatter_class=RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    _add_making(actions)
    _add_trusting(actions)
    turned = actions.add_parser("rotate", help="begin the next phase of a change of the group's key",
                                description="begin the next of three phases: add a key, activate it, retire the old "
                                "one; the state of the file says which. Copy the file to all members after each")
    turned.add_argument("file", type=Path, nargs="?", help="the keyring; none: order a new key of the view of a "
                        "running group (ENCRYPT mode=\"view\"), which needs the role operator")
    turned.add_argument("--bridge", action="store_true", help="of the view of RELAY's bridge, at a relay")
    turned.add_argument("--phase", choices=PHASES, help="an error if another one is next")
    turned.add_argument("--wait", type=float, default=0, metavar="S",
                        help="how long to wait for members that are behind (default: 0)")
    turned.add_argument("--unchecked", action="store_true", help="activate or retire without asking the group whether "
                        "all members are ready")
    add_control_argument(turned)
    shown = actions.add_parser("status", help="show which members of a running group have which keys",
                               description="show which members of a running group have which keys, what was refused")
    add_control_argument(shown)
    shown.add_argument("--json", action="store_true", help="the answer of the member as JSON")
    parser.set_defaults(run=run)


def _add_making(actions: Any) -> None:
    made = actions.add_parser("generate", help="make a keyring, a member's key, or an authority",
                              description="make a keyring, a member's key, or an authority")
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument("--keyring", type=Path, metavar="FILE", help="a keyring for ENCRYPT, or for AUTH with psk")
    what.add_argument("--identity", type=Path, metavar="FILE", help="a member's own key, for AUTH with keys")
    what.add_argument("--authority", type=Path, metavar="FILE", help="an authority, for AUTH with x509")
    made.add_argument("--certificate", type=Path, metavar="FILE", help="with --authority: its certificate, for `trust`")
    made.add_argument("--days", type=int, default=3650, help="with --authority: how long it counts (default: 3650)")
    _add_name(made, "of the member, or of the authority", required=False)
    asked = actions.add_parser("request", help="make a member's own key, and a request for a certificate",
                               description="make a member's own key, and a request for a certificate (PKCS #10)")
    asked.add_argument("file", type=Path, help="where the private key is written; append the certificate to it later")
    asked.add_argument("--out", type=Path, required=True, metavar="FILE", help="where the request is written")
    asked.add_argument("--cluster", action="append", required=True, help="a cluster that the member joins; may be "
                       "given several times: a relay also joins the bridge (bridge_name)")
    _add_name(asked, "of the member", required=True)
    signed = actions.add_parser("sign", help="give a certificate for a request",
                                description="give a certificate for a request; look at the members that it names")
    signed.add_argument("authority", type=Path, help="the authority's own file")
    signed.add_argument("request", type=Path, help="the request")
    signed.add_argument("--out", type=Path, required=True, metavar="FILE", help="where the certificate is written")
    signed.add_argument("--days", type=int, default=90, help="how long it counts (default: 90)")
    signed.add_argument("--roles", default=MEMBER, help="what its member may do: some of member,relay,operator "
                        "(default: member)")


def _add_trusting(actions: Any) -> None:
    for name, text in (("show", "list what is in a file; secrets are not printed"),
                       ("fingerprint", "print public keys, or ids of keys, alone")):
        shown = actions.add_parser(name, help=text, description=text)
        shown.add_argument("file", type=Path, help="a keyring, an identity, certificates, a request, or a list")
    trusted = actions.add_parser("trust", help="add a known member, or a site",
                                 description="add a known member (a key), or a site (its name); makes the file")
    trusted.add_argument("file", type=Path, help="the file of known members, or RELAY's file of sites")
    trusted.add_argument("subject", help="the member's public key (jgroups keys fingerprint), or the name of the site")
    _add_name(trusted, "of the member", required=False)
    trusted.add_argument("--receives", action="append", metavar="TOPIC", help="all (default), none, or topics: what "
                         "the site is sent")
    trusted.add_argument("--sends", choices=("all", "none"), help="whether messages of the site are taken")
    revoked = actions.add_parser("revoke", help="add a key that counts no more, or a site",
                                 description="add a key or certificate that counts no more, or a site; makes the file")
    revoked.add_argument("file", type=Path, help="the file of revoked keys, the list (CRL), or RELAY's file of sites")
    revoked.add_argument("subject", help="a public key, the file of a certificate, or the name of the site")
    revoked.add_argument("--authority", type=Path, metavar="FILE", help="make a list (CRL) that this authority signs")
    revoked.add_argument("--days", type=int, default=30, help="when the list is to be replaced (default: 30)")


def _add_name(parser: ArgumentParser, whose: str, *, required: bool) -> None:
    parser.add_argument("--name", required=required, help=f"the name {whose}")
    parser.add_argument("--site", default="", help="its site; empty: it does not count")
    if not required:
        parser.add_argument("--roles", default=MEMBER,
                            help="what it may do: some of member,relay,operator (default: member)")


def run(args: Namespace) -> int:
    """Do the action; 1 if members are behind, 2 if it cannot be done."""
    try:
        require_library("jgroups keys")
        return ACTIONS[args.action](args)
    except (ConfigError, ChannelError) as error:
        return wrong("keys", str(error))


ACTIONS: dict[str, Callable[[Namespace], int]] = {
    "generate": generate, "request": request, "sign": sign, "show": show_file, "fingerprint": fingerprint,
    "trust": trust, "revoke": revoke, "rotate": rotate, "status": status}
