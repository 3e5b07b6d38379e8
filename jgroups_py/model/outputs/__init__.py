"""What a node requests of its environment and what it reports to its application.

Emitted by the pure rooms, carried out by `runtime/` or by `simulator/`. `net` names the stack of the node: LOCAL or
BRIDGE.
"""
from jgroups_py.model.outputs.base import BRIDGE, LOCAL, Output
from jgroups_py.model.outputs.delivery import (
    Closed,
    CountedAsReceiver,
    Deliver,
    GroupConnected,
    MemberAlone,
    MemberChanged,
    MemberGone,
    MessagesSkipped,
    NodeFailed,
    OrderUncertain,
    SkipMulticasts,
    Unreachable,
    ViewInstalled,
)
from jgroups_py.model.outputs.disk import (
    AppendSegment,
    ArchiveDurability,
    HoldDurability,
    OpenArchive,
    OpenJournal,
    ReadFolder,
    ReadSegment,
    Record,
    RemoveSegment,
    StoreEntry,
    SyncSegments,
)
from jgroups_py.model.outputs.log import LogEntry, Traced
from jgroups_py.model.outputs.names import Resolve
from jgroups_py.model.outputs.relay import (
    CloseBridge,
    GlobalViewInstalled,
    MessagesLost,
    OpenBridge,
    ReadyToLeave,
    RelayAccepted,
    SiteCommandDone,
    SiteReceipt,
    SiteStatusChanged,
    ToBridge,
)
from jgroups_py.model.outputs.sealing import CheckToken, ReadKeyring, ReadTrust, ViewKeyRenewed
from jgroups_py.model.outputs.serf import UserEvent
from jgroups_py.model.outputs.state import ProvideState, StateAdvised, StateBegin, StateEnd, StatePart
from jgroups_py.model.outputs.streams import CloseStream, OpenStream, WriteStream
from jgroups_py.model.outputs.transport import CloseLink, CloseTransport, Frame, Listen, OpenLink, OpenTransport

__all__ = [
    "AppendSegment",
    "ArchiveDurability",
    "BRIDGE",
    "CloseBridge",
    "CloseLink",
    "CloseStream",
    "CloseTransport",
    "Closed",
    "CountedAsReceiver",
    "Deliver",
    "Frame",
    "GlobalViewInstalled",
    "GroupConnected",
    "HoldDurability",
    "LOCAL",
    "Listen",
    "MemberAlone", "MemberChanged",
    "MemberGone",
    "MessagesLost",
    "MessagesSkipped",
    "NodeFailed",
    "LogEntry",
    "OpenArchive",
    "OpenBridge",
    "OpenJournal",
    "OpenLink",
    "OpenStream",
    "OpenTransport",
    "OrderUncertain",
    "Output",
    "ProvideState",
    "ReadFolder",
    "ReadKeyring",
    "CheckToken",
    "ReadSegment",
    "ReadTrust",
    "ReadyToLeave",
    "SiteReceipt",
    "Record",
    "RelayAccepted",
    "RemoveSegment",
    "Resolve",
    "SiteCommandDone",
    "SiteStatusChanged",
    "SkipMulticasts",
    "StateAdvised",
    "StateBegin",
    "StateEnd",
    "StatePart",
    "StoreEntry",
    "SyncSegments",
    "ToBridge",
    "Traced",
    "Unreachable",
    "UserEvent",
    "ViewInstalled",
    "ViewKeyRenewed",
    "WriteStream",
]
