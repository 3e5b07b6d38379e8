"""Safeguards of ENCRYPT mode="view", shown by profile view-keys."""
from __future__ import annotations

from jgroups_py.model.view import ViewId
from jgroups_py.protocols.encrypt import protocol
from jgroups_py.protocols.encrypt.protocol import Encrypt
from jgroups_py.protocols.encrypt.senders import SealedSender
from jgroups_py.protocols.gms.protocol import Gms
from jgroups_py.sealing.primitives import SIGNATURE_BYTES, TAG_BYTES
from jgroups_py.wire.sealed_head import MULTICAST_STREAM
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

authentic = Encrypt.authentic


def one_key(self: Gms, view_id: ViewId) -> None:
    """The next view keeps the key of the one before."""
    if self.view_keys is not None:
        self.secrets[view_id] = next(iter(self.secrets.values()), None) or self.view_keys.new_view_key()


def unsigned(
    self: Encrypt, sender: SealedSender, head: bytes, stream: int, name: bytes, count: int, text: bytes,
) -> int:
    """A multicast without signature is believed, whatever it is."""
    return len(text) if stream == MULTICAST_STREAM else authentic(self, sender, head, stream, name, count, text)


def any_tag(cipher: object, stream: int, counter: int, head: bytes, text: bytes, number: int, mine: int) -> int:
    return len(text) - number * TAG_BYTES


def any_signature(sender: SealedSender, head: bytes, text: bytes) -> int:
    return len(text) - SIGNATURE_BYTES


VIEW_KEY_SAFEGUARDS = (
    Safeguard("a new key for each view", "GMS", "the key stays the same", (Patch(Gms, "choose_key", one_key),),
              "view-keys", "K5"),
    Safeguard("multicasts of protocols are signed", "ENCRYPT", "one without signature is believed",
              (Patch(Encrypt, "authentic", unsigned),), "view-keys", "K7"),
    Safeguard("tags are verified", "ENCRYPT", "any tag is believed", (Patch(protocol, "end_before_tags", any_tag),),
              "view-keys", "K7"),
    Safeguard("signatures are verified", "ENCRYPT", "any signature is believed",
              (Patch(protocol, "end_before_signature", any_signature),), "view-keys", "K7"),
)
