"""Golden bytes of TOPICS' headers, and of RELAY's headers about topics."""
from jgroups_py.model.address import Address
from jgroups_py.model.topics import EVERYTHING, interest_in
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay.headers import SiteInterestHeader
from jgroups_py.protocols.topics.headers import InterestConfirmed, InterestHeader
from jgroups_py.wire.topic_headers import ForSites, PassedBy, TopicName, TopicNumber

A = Address(bytes(range(16)))

CASES = [
    (TopicNumber(63), "0012 01 00000001 3f"),
    (TopicName("orders"), "0012 02 00000008 0006 6f7264657273"),
    (PassedBy(interest_in("b", 0, "a", 63)), "0012 03 00000013 00 8000000000000001 00000002 0001 61 0001 62"),
    (InterestHeader(ViewId(7, A), 3, EVERYTHING),
     "0012 04 0000002d 0000000000000007 000102030405060708090a0b0c0d0e0f 0000000000000003 01 0000000000000000"
     "00000000"),
    (ForSites(("LON", "SFO")), "0012 06 0000000e 00000002 0003 4c4f4e 0003 53464f"),
    (InterestConfirmed({A: 3}), "0012 05 0000001c 00000001 000102030405060708090a0b0c0d0e0f 0000000000000003"),
    (SiteInterestHeader(interest_in("orders")), "0010 1e 00000015 00 0000000000000000 00000001 0006 6f7264657273"),
]
