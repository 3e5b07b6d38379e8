"""Safeguards of AUTH, shown by profile auth."""
from __future__ import annotations

from jgroups_py.protocols.auth.authorities import KeysAuthority
from jgroups_py.protocols.auth.protocol import Auth
from jgroups_py.sealing.identities import Identity
from jgroups_py.sealing.primitives import PUBLIC_BYTES
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard


def any_proof(self: KeysAuthority, credential: bytes, proof: bytes, transcript: bytes) -> Identity | str:
    """The key that is shown is looked up, and no proof is asked for."""
    identity = self.known.find(credential)
    return "unknown" if identity is None else self.revoked(identity) or identity


def any_key(self: KeysAuthority, credential: bytes, proof: bytes, transcript: bytes) -> Identity | str:
    """A key that is not known is let in under the name that it may have."""
    return self.known.find(credential) or Identity("Eve0" if len(credential) == PUBLIC_BYTES else "")


def none_revoked(self: KeysAuthority, identity: Identity) -> str:
    return ""


def any_name(self: Auth, member: object) -> str:
    return ""


AUTH_SAFEGUARDS = (
    Safeguard("a credential is proven", "AUTH", "a known key is enough, without its private key",
              (Patch(KeysAuthority, "verify", any_proof),), "auth", "K4"),
    Safeguard("keys are known", "AUTH", "any key is let in", (Patch(KeysAuthority, "verify", any_key),), "auth", "K4"),
    Safeguard("revoked keys are refused", "AUTH", "revocations are not looked at",
              (Patch(KeysAuthority, "revoked", none_revoked),), "auth", "K4"),
    Safeguard("a name is the certified one", "AUTH", "any name goes with any key",
              (Patch(Auth, "contradiction", any_name),), "auth", "K4"),
)
