"""RELAY's properties."""
from __future__ import annotations

from typing import Any, ClassVar

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.text import MAX_NAME_BYTES, is_name
from jgroups_py.model.units import choice, count, duration, flag, parse_int, parsed, size, text

ALL_BACKUPS = 1 << 30
OFFLINE, BLOCK = "offline", "block"


def parse_backups(value: Any) -> int:
    """A number of members, or "all"."""
    if value == "all":
        return ALL_BACKUPS
    number = parse_int(value)
    if number < 0:
        raise ConfigError(f"{value!r} is not a number of backups; write 0 or more, or all")
    return number


@attrs.frozen
class RelayConfig:
    """Properties of RELAY. The first five are RELAY.txt's and JGroups 2.12's."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("async_relay_creation", "max_site_masters", "site_masters_ratio", "topo_wait_time",
                         "can_become_site_master", "enable_address_tagging", "can_forward_local_cluster",
                         "site_master_picker_impl", "delay_sites_down", "suppress_time_no_route_errors"),
                        "a property of RELAY2 and RELAY3; the coordinator is the one relay here"),
        "relay": "RELAY relays; leave the protocol out of the stack to switch it off",
    }

    site: str = text(doc="Name of the site that this member belongs to; all members of a local cluster use the same.")
    bridge_props: str = text(doc="Stack file of the bridge between the sites, relative to the file it stands in.")
    bridge_name: str = text("bridge-cluster", doc="Cluster name of the bridge; the same at all sites.")
    relay_multicasts: bool = flag(True, doc="false: multicasts stay in their site; unicasts and views still cross.")
    present_global_views: bool = flag(True, doc="false: global views are not reported to the application.")
    backups: int = parsed("1", parse=parse_backups, unit="number or all", doc="How many members after the relay hold "
                          "what it has forwarded until the other sites have it: so many members of a site may crash "
                          "at once, the relay included, and nothing is lost. More costs memory, not messages.")
    standby: bool = flag(False, doc="true: the member next in line is on the bridge, too, and says nothing there "
                         "before it is the relay: a relay that dies is replaced without joining the bridge. Costs the "
                         "bridge one more member of each site.")
    window_bytes: int = size("4M", least="64K", name="window", doc="Bytes on their way to one remote relay; larger "
                             "fills longer links, smaller saves memory at the remote relay.")
    max_window_bytes: int = size("32M", name="max_window", doc="Over a long path more than window may be on its way: "
                                 "twice what its bandwidth times its round trip comes to, as it is measured, up to "
                                 "this. Higher fills longer and faster paths; the remote relay may have to keep so "
                                 "much. At or below window: constant.")
    hold_bytes: int = size("256M", least="1M", doc="Bytes held for sites that do not acknowledge; beyond, the sites "
                           "furthest behind go OFFLINE and lose what was held for them. Make it some seconds of the "
                           "peak rate more than the longest break to survive.", name="hold_bytes")
    hold_age_ns: int = duration("30m", name="hold_age", doc="A site that has not acknowledged a message for this "
                                "long goes OFFLINE, however little is held; time counts in which members of this site "
                                "run. Longer survives longer breaks.")
    on_full: str = choice(OFFLINE, allowed=(OFFLINE, BLOCK), doc="When hold_bytes are held: "
                          "offline gives up sites, senders never wait for another site; block lets senders of this "
                          "site wait until the others have acknowledged or hold_age is over.")
    ack_interval_ns: int = duration("5ms", doc="Acknowledgements and confirmations wait this long, to be "
                                    "sent together; longer costs latency of trimming, shorter costs messages.")
    trim_interval_ns: int = duration("100ms", doc="How often TRIM is sent to holders at most.")
    resend_interval_ns: int = duration("500ms", doc="What was not acknowledged for this long is retransmitted.")
    hello_interval_ns: int = duration("200ms", doc="HELLO is repeated this often until the other relay answers.")
    site_down_after_ns: int = duration("10s", name="site_down_after", doc="A site without a relay for this long is "
                                       "DOWN: it leaves the global view, unicasts to it are unreachable. If another "
                                       "site reports this one as OFFLINE, HELLO goes to it again after this long.")
    split_grace_ns: int = duration("20s", name="split_grace", doc="After members or the relay of a site vanished "
                                   "nothing is trimmed for it for this long, as they may be in another half of it.")
    unicast_timeout_ns: int = duration("30s", name="unicast_timeout", doc="A unicast to another site that is not "
                                       "acknowledged in this time is reported as unreachable.")
    leave_timeout_ns: int = duration("1500ms", name="leave_timeout", doc="A leaving relay waits this long at most "
                                     "until the other sites have what it holds; the last member of a site "
                                      "without hold_dir then declares the rest lost.")
    lost_after_ns: int = duration("30s", name="lost_after", doc="Messages that no member has held for this long are "
                                  "declared lost.")
    forget_after_ns: int = duration("1h", name="forget_after", doc="How long the state about an origin is kept after "
                                    "it left; at least twice hold_age, so that no late replay is taken for new.")
    hold_dir: str = text("", doc="Folder on this machine (its members may share it: each has a folder of its name in "
                         "it) where what is held for other sites is also written, so that it survives when all "
                         "members of the site crash; a member that starts again with its name and this folder sends "
                         "on what it held. Empty: memory only. Costs disk of up to twice hold_bytes and some 100 MB.")
    hold_sync: str = choice("none", allowed=("none", "interval", "every"), doc="When hold_dir is brought to the disk "
                            "itself. All survive the crash of processes; of a power cut: none loses what the system "
                            "had not written back, interval loses that long at most, every loses nothing that another "
                            "site got: the relay sends only what is on its disk, for a disk's latency more.")
    hold_sync_interval_ns: int = duration("1s", least="1ms", name="hold_sync_interval", doc="How often, with "
                                          "hold_sync=interval.")
    hold_keyring: str = text("", doc="Keyring (jgroups keys generate --keyring) with which what is in hold_dir "
                             "is encrypted; best one of its own, as files are readable only as long as their key is "
                             "in it. Looked at again every five seconds. Empty: it is not encrypted, and readable by "
                             "this user alone.")
    trust: str = text("", doc="Trust file (JSON): which other sites count, what each may send and receive, which are "
                      "revoked. Looked at twice a second, so a revocation needs no restart. Needs AUTH on the bridge, "
                      "or trusted_relays. Empty: every site counts.")
    trusted_relays: bool = flag(False, doc="true: with a trust file, all relays on the bridge are trusted to name "
                                "their own site. For a bridge without AUTH, where nothing proves it.")
    max_sites: int = count(250, least=1, doc="Other sites known at most, where no trust file lists them; relays that "
                           "name further ones are refused.")
    max_unicasts: int = count(100_000, least=1, doc="Unacknowledged unicasts to other sites held here at most; "
                             "beyond, further ones are reported as unreachable.")

    def __attrs_post_init__(self) -> None:
        if not self.site:
            raise ConfigError("RELAY needs site, the name of this member's site")
        if not is_name(self.site):
            raise ConfigError(f"RELAY: site {self.site!r} is no name: at most {MAX_NAME_BYTES} bytes, no control "
                              "characters, no signs of direction")
        if self.hold_keyring and not self.hold_dir:
            raise ConfigError("hold_keyring encrypts what is in hold_dir, which is empty")
        if self.forget_after_ns < 2 * self.hold_age_ns:
            raise ConfigError("forget_after must be at least twice hold_age, else a late replay is taken for new")
        if self.hold_age_ns < self.split_grace_ns:
            raise ConfigError("hold_age must be at least split_grace, which it would end early")
