"""Facts that travel through a stack in order with the batches: one class per fact.

An event goes up or down like a batch (law 2: a view never overtakes data). Layers observe it with `@on`; it travels
on afterwards. Its docstring states the layer that emits it, and the direction.
"""
from jgroups_py.model.digest import Digest, Ranges
from jgroups_py.model.events.base import Event
from jgroups_py.model.events.broadcast import Broadcast
from jgroups_py.model.events.channel import AppBusy, Connect, Disconnect, OutputInOrder, SetPartition
from jgroups_py.model.events.discovery import (
    AddressesKnown,
    FindMembers,
    FolderRead,
    Found,
    MembersFound,
    SearchAt,
    SendTo,
)
from jgroups_py.model.events.disk import (
    ArchiveBusy,
    ArchiveFailed,
    ArchiveOpened,
    JournalFailed,
    JournalOpened,
    MessageRun,
    OutputEmitted,
    RecordMessages,
    SegmentRead,
    SegmentsSynced,
)
from jgroups_py.model.events.flush import Filled, FlushTo, Freeze, Frozen, MessagesKnown, MessagesStable
from jgroups_py.model.events.membership import (
    ExcludedHint,
    Left,
    MergeNeeded,
    RaiseView,
    Suspect,
    Unsuspect,
    ViewChange,
)
from jgroups_py.model.events.names import NameResolved, ResolveName
from jgroups_py.model.events.order import MessageDropped
from jgroups_py.model.events.relay import (
    BridgeClosed,
    BridgeDelivered,
    BridgeEnd,
    BridgeView,
    LeaveRequested,
    SendUntil,
    SiteCommand,
    StopWaiting,
)
from jgroups_py.model.events.sealing import (
    ChallengeMember,
    IdentityDecided,
    IdentityRevoked,
    KeyringRead,
    RenewViewKey,
    SenderProven,
    TokenChecked,
    TrustRead,
    ViewKeyChosen,
)
from jgroups_py.model.events.serf import ForceLeave, SendUserEvent
from jgroups_py.model.events.state import GetState, StateBusy, StateChunk
from jgroups_py.model.events.streams import StreamClosed, StreamData, StreamOpened, StreamTo
from jgroups_py.model.events.swim import JoinPlaces, SetTags, UserGossip, UserHeard, UserStateHeard
from jgroups_py.model.events.topics import SiteInterest, Subscribe, Unsubscribe
from jgroups_py.model.events.transport import Bound, LinkDown, LinkUp, Listening

__all__ = [
    "AddressesKnown",
    "AppBusy",
    "ArchiveBusy",
    "ArchiveFailed",
    "ArchiveOpened",
    "Bound",
    "BridgeClosed",
    "BridgeDelivered",
    "BridgeEnd",
    "BridgeView",
    "Broadcast",
    "ChallengeMember",
    "Connect",
    "Digest",
    "Disconnect",
    "Event",
    "ExcludedHint",
    "Filled",
    "FindMembers",
    "FlushTo",
    "FolderRead",
    "ForceLeave",
    "Found",
    "Freeze",
    "Frozen",
    "GetState",
    "IdentityDecided",
    "IdentityRevoked",
    "JoinPlaces",
    "JournalFailed",
    "JournalOpened",
    "KeyringRead",
    "LeaveRequested",
    "Left",
    "LinkDown",
    "LinkUp",
    "Listening",
    "MeetMember",
    "MembersFound",
    "MergeNeeded",
    "MessageDropped",
    "MessageRun",
    "MessagesKnown",
    "MessagesStable",
    "NameResolved",
    "OutputEmitted",
    "OutputInOrder",
    "RaiseView",
    "Ranges",
    "RecordMessages",
    "RenewViewKey",
    "ResolveName",
    "SearchAt",
    "SegmentRead",
    "SegmentsSynced",
    "SendTo",
    "SendUntil",
    "SendUserEvent",
    "SenderProven",
    "SetPartition",
    "SetTags",
    "SiteCommand",
    "SiteInterest",
    "StateBusy",
    "StateChunk",
    "StopWaiting",
    "StreamClosed",
    "StreamData",
    "StreamOpened",
    "StreamTo",
    "Subscribe",
    "Suspect",
    "TokenChecked",
    "TrustRead",
    "Unsubscribe",
    "Unsuspect",
    "UserGossip",
    "UserHeard",
    "UserStateHeard",
    "ViewChange",
    "ViewKeyChosen",
]
