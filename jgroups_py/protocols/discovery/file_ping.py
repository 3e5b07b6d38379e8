"""FILE_PING: discovery by files in a folder that all members share.

Each member keeps a file that says where it receives; a searcher reads them all and asks those members directly. A
member removes its file when it leaves; files of members that left the view are removed by the coordinator, which also
removes files whose owners stay silent when MERGE3 asks around. Source: JGroups FILE_PING.java. Deviations: files are
small frames of ours, and only say where, since answers come from the members themselves.
"""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py import wire
from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Batch
from jgroups_py.errors import ConfigError, WireError
from jgroups_py.events import Connect, FindMembers, FolderRead, Left, SendTo, ViewChange
from jgroups_py.outputs import ReadFolder, StoreEntry
from jgroups_py.protocol import on, timer
from jgroups_py.protocols.discovery.base import Discovery, DiscoveryConfig, Here, WhoIsThere
from jgroups_py.units import count, duration, text

SUFFIX = ".node"


@attrs.frozen
class FilePingConfig(DiscoveryConfig):
    """Where the files are."""

    ignored: ClassVar[dict[str, str]] = {
        **DiscoveryConfig.ignored,
        **dict.fromkeys(("remove_old_coords_on_view_change", "remove_all_data_on_view_change", "write_data_on_find",
                         "register_shutdown_hook", "update_store_on_view_change", "info_writer_max_writes_after_view",
                         "num_read_loops", "read_sleep"),
                        "files are written once and again now and then, and removed when their owner is gone"),
    }

    location: str = text("", doc="The folder; every member must see the same one. It is made if it is missing.")
    rewrite_ns: int = duration("1m", least="1s", name="info_writer_sleep_time", doc="How often a member writes its "
                               "file again, should it have been removed. Lower repairs sooner.")
    silent_searches: int = count(5, least=1, doc="After so many searches of the coordinator without an answer a file "
                                 "is removed. Lower cleans up sooner, and hides members that are only cut off.")

    def __attrs_post_init__(self) -> None:
        if not self.location:
            raise ConfigError("FILE_PING needs location: the folder that all members share")


def file_of(member: Address, physical: PhysicalAddress) -> bytes:
    """What a member's file holds."""
    out = bytearray()
    wire.MEMBER.write(member, out)
    wire.PHYSICAL.write(physical, out)
    return bytes(out)


def parse_entry(data: bytes) -> tuple[Address, PhysicalAddress] | None:
    """What a file says; None if it is none of ours."""
    reader = wire.Reader(data, wire.Interner())
    try:
        found = wire.MEMBER.read(reader), wire.PHYSICAL.read(reader)
    except WireError:
        return None
    return found if reader.pos == len(data) else None


class FilePing(Discovery):
    """Asks everybody whose file lies in the folder."""

    Config = FilePingConfig
    config: FilePingConfig

    def start(self) -> None:
        super().start()
        self.question: Batch | None = None             # waits for the folder to be read
        self.folder = ""
        self.silent: dict[Address, int] = {}           # owner of a file -> searches in which it did not answer

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        self.folder = f"{self.config.location}/{wire.cluster_id(event.cluster).hex()}"
        self.store()

    @timer("store")
    def store(self) -> None:
        physical = self.addresses.my_physical()
        if physical is not None:
            self.emit(StoreEntry(self.folder, self.me.raw.hex() + SUFFIX, file_of(self.me, physical)))
        self.set_timer("store", self.config.rewrite_ns)

    def remove(self, member: Address) -> None:
        self.silent.pop(member, None)
        self.emit(StoreEntry(self.folder, member.raw.hex() + SUFFIX, None))

    def reach(self, question: Batch) -> None:
        self.question = question
        self.emit(ReadFolder(self.stack.net, self.folder))

    @on(FolderRead)
    def folder_read(self, event: FolderRead) -> None:
        question, self.question = self.question, None
        if event.folder != self.folder or question is None:
            return
        parsed = [parse_entry(data) for data in event.entries]
        self.count("foreign_files", parsed.count(None))
        found = dict(entry for entry in parsed if entry is not None)
        if self.me not in found:
            self.store()                               # removed by the other side of a partition
        found.pop(self.me, None)
        for member, physical in found.items():
            self.silent.setdefault(member, 0)
            self.pass_down(SendTo(physical, question))

    @on(FindMembers)
    def find(self, event: FindMembers) -> None:
        if event.everyone:
            self.clean()
        super().find(event)

    def clean(self) -> None:
        """Files whose owners never answer are removed by a coordinator; who answered starts again from 0."""
        if self.standing()[1] != self.me:
            return self.silent.clear()
        self.silent = {member: times + 1 for member, times in self.silent.items()}
        for member in [member for member, times in self.silent.items() if times > self.config.silent_searches]:
            self.count("files_removed")
            self.remove(member)

    def add(self, said: WhoIsThere | Here) -> None:
        self.silent.pop(said.member, None)
        super().add(said)

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        super().view_changed(event)
        if event.view.coordinator == self.me:
            for member in event.left:
                self.remove(member)
        if event.previous is None or len(event.view) == 1:
            self.store()                               # whoever excluded us may have removed it

    @on(Left)
    def left(self, event: Left) -> None:
        self.cancel_timer("store")
        self.remove(self.me)
