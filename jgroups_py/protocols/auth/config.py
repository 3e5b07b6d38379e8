"""Properties of AUTH."""
from __future__ import annotations

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import choice, duration, text

NEEDED: dict[str, tuple[str, ...]] = {"psk": ("secret",), "keys": ("identity", "trust"), "x509": ("identity", "trust"),
                                     "token": ("identity", "token", "check")}
"""Authority -> the properties that it needs."""
OPTIONAL: dict[str, tuple[str, ...]] = {"psk": (), "keys": ("revoked",), "x509": ("revoked",), "token": ("revoked",)}


@attrs.frozen
class AuthConfig:
    """How members prove their identity, and which identities this member accepts."""

    authority: str = choice("keys", allowed=tuple(NEEDED), doc="psk: all members share a secret, and each names "
                            "itself. keys: each has a key of Ed25519, and all have the list of known members, which "
                            "has names, sites and roles. x509: each has a certificate, which has its name, site and "
                            "roles in each of its clusters, and all have those of the authorities. token: each has "
                            "a token, and a class of the application says whose it is.")
    identity: str = text("", doc="File with this member's own private key, and with x509 its certificate; mode 0600.")
    trust: str = text("", doc="File of the known members, with x509 of the certificates of authorities; no other user "
                      "may write it.")
    revoked: str = text("", doc="File of revoked keys, which count whatever trust has, or with x509 of lists (CRL) "
                        "that an authority has signed; empty: none is revoked.")
    secret: str = text("", doc="For psk: keyring file with the shared secret, mode 0600 (`jgroups keys generate "
                       "--keyring FILE` makes one). The active key is used, accepted ones are believed.")
    token: str = text("", doc="For token: file with this member's own token, mode 0600; it names the key of identity.")
    check: str = text("", doc="For token: the class, a TokenCheck, that says whose a token is: package.module:Class.")
    check_timeout_ns: int = duration("2s", least="10ms", most="1m", doc="For token: how long the class may take; then "
                                     "the token is refused. Longer lets non-members occupy its threads longer.")
    reread_ns: int = duration("1s", least="100ms", doc="How often to look whether these files have changed.")

    def __attrs_post_init__(self) -> None:
        allowed = (*NEEDED[self.authority], *OPTIONAL[self.authority])
        for name in ("identity", "trust", "revoked", "secret", "token", "check"):
            value = getattr(self, name)
            if name in NEEDED[self.authority] and not value:
                form = "package.module:Class" if name == "check" else "the path of a file"
                raise ConfigError(f"{name} is empty, and authority={self.authority!r} needs it: {form}")
            if name not in allowed and value:
                raise ConfigError(f"{name} is of no use with authority={self.authority!r}, which takes "
                                  f"{', '.join(allowed)}")
