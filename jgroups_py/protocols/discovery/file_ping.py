"""FILE_PING: discovery by files in a folder that all members share.

Each member keeps a file with its physical address; a searcher reads all files and sends its request to their owners. A
member removes its file when it leaves. The coordinator removes files of members that left the view, and files whose
owners have not answered `silent_searches` searches of MERGE3.

Source: JGroups FILE_PING.java. Deviation: a file holds only address and physical address; views come with responses.
"""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import counter, declare
from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.model.events import Connect, FindMembers, FolderRead, Left, SendTo, ViewChange
from jgroups_py.model.outputs import ReadFolder, StoreEntry
from jgroups_py.model.units import count, duration, text
from jgroups_py.protocols.discovery.base import Discovery, DiscoveryConfig, DiscoveryRequest, DiscoveryResponse
from jgroups_py.stack.protocol import on, timer

SUFFIX = ".node"


@attrs.frozen
class FilePingConfig(DiscoveryConfig):
    """The properties of FILE_PING."""

    ignored: ClassVar[dict[str, str]] = {
        **DiscoveryConfig.ignored,
        **dict.fromkeys(("remove_old_coords_on_view_change", "remove_all_data_on_view_change", "write_data_on_find",
                         "register_shutdown_hook", "update_store_on_view_change", "info_writer_max_writes_after_view",
                         "num_read_loops", "read_sleep"),
                        "files are written at connect and then periodically, and removed when their owner is gone"),
    }

    location: str = text("", doc="The folder, the same one for all members. It is created if it is missing.")
    rewrite_ns: int = duration("1m", least="1s", name="info_writer_sleep_time", doc="How often a member writes its "
                               "file again, in case it was removed. Lower repairs sooner.")
    silent_searches: int = count(5, least=1, doc="After so many searches of the coordinator without an answer a file "
                                 "is removed. Lower cleans up sooner, and hides members that are only partitioned.")

    def __attrs_post_init__(self) -> None:
        if not self.location:
            raise ConfigError("FILE_PING needs location: the folder that all members share")


def file_of(member: Address, physical: PhysicalAddress) -> bytes:
    """The content of a member's file."""
    out = bytearray()
    wire.MEMBER.write(member, out)
    wire.PHYSICAL.write(physical, out)
    return bytes(out)


def parse_entry(data: bytes) -> tuple[Address, PhysicalAddress] | None:
    """The member and physical address in a file; None if the bytes are not of that form."""
    reader = wire.Reader(data, wire.Interner())
    try:
        found = wire.MEMBER.read(reader), wire.PHYSICAL.read(reader)
    except WireError:
        return None
    return found if reader.pos == len(data) else None


class FilePing(Discovery):
    """Sends the request to the owner of each file in the folder."""

    Config = FilePingConfig
    config: FilePingConfig
    COUNTERS = declare(
        counter("foreign_files", "Files in the folder that are not those of members."),
        counter("files_removed", "Files of members that never answered, removed by a coordinator."),
    )

    def start(self) -> None:
        super().start()
        self.waiting: Batch | None = None              # the request, until the folder is read
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

    def send_request(self, request: Batch) -> None:
        self.waiting = request
        self.emit(ReadFolder(self.stack.net, self.folder))

    @on(FolderRead)
    def folder_read(self, event: FolderRead) -> None:
        request, self.waiting = self.waiting, None
        if event.folder != self.folder or request is None:
            return
        parsed = [parse_entry(data) for data in event.entries]
        self.count("foreign_files", parsed.count(None))
        found = dict(entry for entry in parsed if entry is not None)
        if self.me not in found:
            self.store()                               # the coordinator on the other side of a partition removed it
        found.pop(self.me, None)
        for member, physical in found.items():
            self.silent.setdefault(member, 0)
            self.pass_down(SendTo(physical, request))

    @on(FindMembers)
    def find(self, event: FindMembers) -> None:
        if event.everyone:
            self.clean()
        super().find(event)

    def clean(self) -> None:
        """As coordinator, remove files whose owners do not answer; an answer resets the owner's count (`add`)."""
        if self.view_fields()[1] != self.me:
            return self.silent.clear()
        self.silent = {member: times + 1 for member, times in self.silent.items()}
        for member in [member for member, times in self.silent.items() if times > self.config.silent_searches]:
            self.count("files_removed")
            self.remove(member)

    def add(self, message: DiscoveryRequest | DiscoveryResponse) -> None:
        self.silent.pop(message.member, None)
        super().add(message)

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        super().view_changed(event)
        if event.view.coordinator == self.me:
            for member in event.left:
                self.remove(member)
        if event.previous is None or len(event.view) == 1:
            self.store()                               # a coordinator that excluded this member may have removed it

    @on(Left)
    def left(self, event: Left) -> None:
        self.cancel_timer("store")
        self.remove(self.me)
