"""memberlist's wire format: SWIM's headers as the frames of HashiCorp's memberlist and Serf, and back."""
from __future__ import annotations

from jgroups_py.protocols.swim.memberlist.config import MemberlistConfig as MemberlistConfig
from jgroups_py.protocols.swim.memberlist.intents import Serf as Serf
from jgroups_py.protocols.swim.memberlist.protocol import Memberlist as Memberlist
