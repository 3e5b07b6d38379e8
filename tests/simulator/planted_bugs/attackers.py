"""Safeguards against non-members, insiders and former members, shown by the profiles named after these."""
from __future__ import annotations

from typing import Any

from jgroups_py import wire
from jgroups_py.model.address import ADDRESS_BYTES, Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.events import KeyringRead, ViewKeyChosen
from jgroups_py.model.outputs import LogEntry
from jgroups_py.protocols.auth import Auth
from jgroups_py.protocols.encrypt import ciphers, protocol
from jgroups_py.protocols.encrypt.ciphers import FrameWriter
from jgroups_py.protocols.encrypt.headers import Handshake
from jgroups_py.protocols.encrypt.protocol import Encrypt
from jgroups_py.protocols.encrypt.senders import SealedSender, Senders, Unproven
from jgroups_py.protocols.fd_sock.protocol import FdSock
from jgroups_py.protocols.gms.headers import InstallHeader, ViewKey
from jgroups_py.protocols.gms.protocol import Gms
from jgroups_py.protocols.transport.protocol import Transport
from jgroups_py.sealing.identities import Identity
from jgroups_py.sealing.keyring import GroupKey
from jgroups_py.sealing.primitives import Cipher, derive
from jgroups_py.stack.protocol import CONTROL
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

key_of, view_key_chosen, use_keyring = Encrypt.key_of, Encrypt.view_key_chosen, Encrypt.use_keyring
open_frame, decoded, keyring_read = Encrypt.open, Transport.decoded, Encrypt.keyring_read
opened, made, start = Cipher.open, Cipher.__init__, FdSock.start


def nobody_owns(self: Auth, address: Address, identity: Identity) -> str:
    """Any identity may be shown under any address."""
    return ""


def displaces_nobody(self: Encrypt, address: bytes, handshake: Handshake) -> bool:
    """The keys of an exchange may be others each time."""
    return False


def sealed_for_leavers(
    self: Gms, header: Header, dest: Address | None, payloads: tuple[bytes, ...] = (), flags: int = CONTROL,
) -> None:
    """Each Install has the key with it."""
    headers = (ViewKey(self.secrets[header.view.id]), header) if isinstance(header, InstallHeader) and \
        header.view.id in self.secrets else (header,)
    self.pass_down(Batch(self.me, dest, payloads, headers, flags))


def former_view_keys(self: Encrypt, event: ViewKeyChosen) -> None:
    """The key of a view opens frames when the view is over."""
    self.__dict__.setdefault("former", {})[protocol.group_key(event.secret, protocol.ACTIVE).id] = event.secret
    view_key_chosen(self, event)


def any_known_key(self: Encrypt, stream: int, key_id: bytes, sender: SealedSender | None) -> GroupKey | None:
    found = key_of(self, stream, key_id, sender)
    secret = self.__dict__.get("former", {}).get(key_id)
    return protocol.group_key(secret, protocol.ACTIVE) if found is None and secret is not None else found


def retired_keys_open(self: Encrypt, keyring: Any) -> None:
    """A key that is retired opens as before."""
    before = dict(getattr(self, "usable", {}))
    use_keyring(self, keyring)
    self.usable = {**before, **self.usable}


def old_key_seals(self: FrameWriter, key: GroupKey) -> None:
    """A member goes on sealing with the key with which it began."""


def kept_before_it_opens(self: Encrypt, data: bytes, physical: Any) -> bytes | None:
    """A sender is remembered before its frame has opened."""
    if len(data) >= protocol.SEAL_BYTES and data[:2] == protocol.MAGIC:
        name = protocol.read_head(data)[5]
        if name not in self.senders.proven:
            self.expect(name, SealedSender())
    return open_frame(self, data, physical)


def without_bound(self: Senders, name: bytes, sender: SealedSender, challenge: bytes, now_ns: int) -> list[Unproven]:
    """No sender is displaced by another one."""
    self.unproven[name] = Unproven(sender, challenge, now_ns)
    return []


def learnt_before(self: Transport, data: bytes, physical: Any) -> Any:
    """The place of a source is learnt from frames that do not open."""
    source = data[wire.SOURCE_OFFSET:wire.SOURCE_END]
    if physical is not None and len(source) == ADDRESS_BYTES and data[:2] == protocol.MAGIC:
        self.book[self.addresses.get(source) or Address(source)] = physical
    return decoded(self, data, physical)


def shown(self: GroupKey) -> str:
    return f"GroupKey({self.secret!r})"


def links_prove(self: FdSock) -> None:
    """What a link shows is believed as it is without ENCRYPT."""
    start(self)
    self.links_prove = True


def logged(self: Encrypt, event: KeyringRead) -> None:
    """The log says with which key a member seals."""
    keyring_read(self, event)
    if event.keyring is not None:
        self.emit(LogEntry("info", f"ENCRYPT seals with {event.keyring.active.secret.hex()}"))


def one_cipher(key: GroupKey, net: int, cluster: bytes, sender: bytes, epoch: int) -> Cipher:
    """All seal with the key of the group itself."""
    return Cipher(derive(key.secret, b"one for all"))


def head_not_covered(self: Cipher, nonce: bytes, sealed: bytes | memoryview, clear: bytes) -> bytes:
    return opened(self, nonce, sealed, b"")


def head_not_sealed(self: Cipher, key: bytes) -> None:
    made(self, key)
    encrypt = self.seal
    self.seal = lambda nonce, text, clear: encrypt(nonce, text, b"")


ONE_CIPHER = (Patch(ciphers, "frame_cipher", one_cipher), Patch(protocol, "frame_cipher", one_cipher))
NO_HEAD = (Patch(Cipher, "open", head_not_covered), Patch(Cipher, "__init__", head_not_sealed))

ATTACKER_SAFEGUARDS = (
    Safeguard("an address is of one identity", "AUTH", "a member may show its identity under any address",
              (Patch(Auth, "owned_by_another", nobody_owns), Patch(Encrypt, "displaces", displaces_nobody)),
              "attacker-insider", "K7"),
    Safeguard("a view's key goes to its members", "GMS", "who leaves gets it as well",
              (Patch(Gms, "send", sealed_for_leavers),), "attacker-exmember", "K6"),
    Safeguard("keys of former views open nothing", "ENCRYPT", "they open as before",
              (Patch(Encrypt, "view_key_chosen", former_view_keys), Patch(Encrypt, "key_of", any_known_key)),
              "attacker-exmember", "K6"),
    Safeguard("retired keys open nothing", "ENCRYPT", "they open as before",
              (Patch(Encrypt, "use_keyring", retired_keys_open),), "attacker-exmember", "K6"),
    Safeguard("a retired key seals nothing", "ENCRYPT", "members seal with the key with which they began",
              (Patch(FrameWriter, "use", old_key_seals),), "attacker", "K9"),
    Safeguard("nothing is kept of frames that do not open", "ENCRYPT", "their senders are remembered",
              (Patch(Encrypt, "open", kept_before_it_opens),), "attacker", "K11"),
    Safeguard("unproven senders are bounded", "ENCRYPT", "none is displaced by others",
              (Patch(Senders, "expect", without_bound),), "attacker-insider", "K11"),
    Safeguard("places are learnt from frames that open", "transport", "from any frame",
              (Patch(Transport, "decoded", learnt_before),), "attacker", "K2"),
    Safeguard("links of FD_SOCK prove nothing under ENCRYPT", "FD_SOCK", "a refused link proves the end of a process",
              (Patch(FdSock, "start", links_prove),), "attacker", "M5"),
    Safeguard("keys are not shown", "sealing", "`repr` of a key has its bytes",
              (Patch(GroupKey, "__repr__", shown),), "attacker", "K14"),
    Safeguard("keys are not logged", "ENCRYPT", "the log names the bytes of a new key",
              (Patch(Encrypt, "keyring_read", logged),), "attacker", "K14"),
    Safeguard("heads are covered by sub-keys and by tags", "ENCRYPT", "one key for all, and tags of the text alone",
              (*ONE_CIPHER, *NO_HEAD), "attacker", "K2"),
)
