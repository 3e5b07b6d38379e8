"""The keys of the journal (`hold_keyring`): seals what is written, and says what opens the segments that are read.

The file is a keyring as ENCRYPT's, best one of its own: a key that is retired for frames would make the hold
unreadable. It is looked at again while the member runs; after a change of the active key the next record begins a new
segment. A key may be retired once no segment is sealed with it any more (`journal_former_keys` is 0). With a keyring no
segment is believed that is not sealed, and without one none that is.
"""
from __future__ import annotations

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import Connect, KeyringRead
from jgroups_py.model.outputs import LOCAL, LogEntry, ReadKeyring
from jgroups_py.model.units import seconds
from jgroups_py.protocols.relay.journal.records import SEAL, Written, seal_of
from jgroups_py.protocols.relay.journal.segments import JournalSegment
from jgroups_py.protocols.relay.part import RelayPart, RelayPort
from jgroups_py.protocols.relay.ports import SealsPort
from jgroups_py.sealing.files import SALT_BYTES, FileCipher, key_of, preamble
from jgroups_py.sealing.keyring import GroupKeyring
from jgroups_py.sealing.primitives import require_library
from jgroups_py.stack.protocol import on, timer

REREAD_NS = seconds(5)


class HoldSeals(RelayPart, SealsPort):
    """See the module. Without `hold_keyring` nothing is sealed."""

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.keyring: GroupKeyring | None = None
        self.forks = 0                                   # of this process, when the newest segment was begun

    def start(self) -> None:
        path = self.config.hold_keyring
        if path:
            require_library("RELAY: hold_keyring")
            self.keyring = self.layer.secrets.keyring(path)

    # --- writing ----------------------------------------------------------------------------------------------------

    def fits(self, segment: JournalSegment) -> bool:
        if self.keyring is None:
            return True
        return segment.key == self.keyring.active.id and self.forks == self.layer.secrets.forks

    def begin(self, segment: JournalSegment) -> bytes:
        if self.keyring is None:
            return b""
        secrets, key = self.layer.secrets, self.keyring.active
        self.forks = secrets.forks
        head = preamble(key, secrets.draw(SALT_BYTES))
        segment.seal(key.id, FileCipher(key, head, place(segment.name)))
        return bytes(Written(SEAL, head))

    def former_keys(self, segments: list[JournalSegment]) -> int:
        return 0 if self.keyring is None else sum(segment.key != self.keyring.active.id for segment in segments)

    # --- reading ----------------------------------------------------------------------------------------------------

    def opener(self, segment: JournalSegment, data: bytes) -> FileCipher | None:
        head = seal_of(data)
        if head == b"":
            return None
        if head is None:
            if self.keyring is not None:
                raise ConfigError(f"{segment.name}: not encrypted, so it is not believed. If it was written before "
                                  "hold_keyring was set, start the members without hold_keyring until the other sites "
                                  "have what it holds")
            return None
        if self.keyring is None:
            raise ConfigError(f"{segment.name}: encrypted; set hold_keyring to the keyring with its key")
        key = key_of(head, self.keyring.usable(), segment.name, self.config.hold_keyring)
        segment.seal(key.id, None)
        return FileCipher(key, head, place(segment.name))

    # --- the keyring ------------------------------------------------------------------------------------------------

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        if self.keyring is not None:
            self.set_timer("hold_keyring", REREAD_NS)

    @timer("hold_keyring")
    def reread(self) -> None:
        self.emit(ReadKeyring(LOCAL, self.config.hold_keyring))
        self.set_timer("hold_keyring", REREAD_NS)

    @on(KeyringRead)
    def keyring_read(self, event: KeyringRead) -> None:
        """The file has changed. If it cannot be used the former keys stay."""
        if event.path != self.config.hold_keyring or self.keyring is None:
            return
        if event.keyring is None:
            self.drop("hold_keyrings_refused_dropped", None, event.problem)
            self.emit(LogEntry("error", f"hold_dir goes on with its former keys: {event.problem}"))
        elif event.keyring != self.keyring:
            self.keyring = event.keyring
            self.emit(LogEntry("info", f"hold_dir is encrypted with key {self.keyring.active.name} from now on"))


def place(name: str) -> bytes:
    """What a segment is for: under another name it does not open, so that segments cannot change their order."""
    return b"hold\0" + name.encode()
