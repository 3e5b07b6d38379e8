"""`jgroups member`: one member of a group as a process. It reads commands from stdin, one per line, and prints
events to stdout, one JSON object per line, flushed. `leave`, end of input and SIGTERM end it. With --service it reads
no commands, so it needs no stdin.
"""
from __future__ import annotations

import logging
import os
import queue
import resource
import signal
import sys
import threading
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from jgroups_py.blocks.swim_membership import Membership
from jgroups_py.channel.message import MessageBatch
from jgroups_py.channel.receiver import Receiver
from jgroups_py.channel.sync import JChannel
from jgroups_py.channel.validation import checked_name
from jgroups_py.cli.commands import Ended, ignore_sigterm, log_drops, obey, watch_sigterm
from jgroups_py.cli.environment import HELP, blamed, fill_options, properties_of
from jgroups_py.cli.load import FLOOD, Counts, Flooder, flood_arguments, plain_name
from jgroups_py.cli.membership import COMMANDS as COMMANDS_ALONE
from jgroups_py.cli.membership import MembershipCommands
from jgroups_py.cli.printer import Printer
from jgroups_py.cli.service import MemberService
from jgroups_py.cli.showing import complain, reasons
from jgroups_py.cli.stack_file import add_property_argument, recorded
from jgroups_py.config.check import has_no_views
from jgroups_py.config.load import packaged
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelError, ConfigError
from jgroups_py.model.events import SetPartition
from jgroups_py.model.outputs import MessagesLost
from jgroups_py.model.view import GlobalView, MergeView, View
from jgroups_py.ops.control import ControlSocket
from jgroups_py.ops.http import HttpAccess, HttpEndpoint
from jgroups_py.ops.survey import Survey
from jgroups_py.ops.watch import ask_node
from jgroups_py.protocols.faults.partition import groups_of

log = logging.getLogger("jgroups_py")

PROGRESS_SECONDS = 1.0
COMMANDS = """commands on stdin, a line each:
  send TEXT                  multicast TEXT
  sendto NAME TEXT           unicast to the member with that logical name, NAME@SITE for one of another site
  flood COUNT SIZE [RATE]    multicast COUNT numbered messages of SIZE bytes, RATE a second if given
  view  global  stats  sites print that event now
  drops on|off               log each dropped message with its reason to stderr, or stop that
  partition A,B|C  heal      partition the group, with PARTITION in the stack; give the command to every member
  leave                      leave the group and exit (so do end of input and SIGTERM); with RELAY, other sites hold
                             messages for this site until it is back
  leave forget               the same, but at the last member of a site: other sites hold nothing for it
"""


def add_parser(subparsers: Any) -> None:
    """Add `member` to the command line."""
    parser: ArgumentParser = subparsers.add_parser(
        "member", help="run one member of a group as a process", description=__doc__,
        epilog=COMMANDS + COMMANDS_ALONE + HELP,
        formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--stack", metavar="FILE", help="a stack file, or a packaged stack's name: "
                        f"{', '.join(packaged())}")
    parser.add_argument("--cluster", metavar="NAME", type=cluster_name,
                        help="the group to join or found")
    parser.add_argument("--name", metavar="A", help="logical name of this member")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS",
                        help="timeout for joining (%(default)s)")
    parser.add_argument("--control", metavar="PATH", help="path of a control socket to open, for `jgroups members`, "
                        "`events` and `site`; only this user can use it (default: none)")
    parser.add_argument("--http", metavar="PLACE", nargs="?", const="", help="answer health, metrics and reports over "
                        "HTTP, read only: ADDRESS:PORT, ADDRESS, PORT (0: a free one) or unix:PATH; alone "
                        "127.0.0.1:7580. Needs the extra [http]")
    parser.add_argument("--http-token-file", metavar="FILE", help="ask HTTP clients for the token in this file, which "
                        "only this user may read")
    parser.add_argument("--http-open", action="store_true", help="let other hosts ask without a token")
    parser.add_argument("--http-host", metavar="NAME", action="append", default=[], help="a name under which HTTP "
                        "clients know this host; may be given again (addresses and localhost always are)")
    parser.add_argument("--service", action="store_true", help="read no commands: run until SIGTERM, which leaves as "
                        "`leave` does, and tell systemd when the member is ready, and while its loop runs "
                        "(Type=notify, WatchdogSec)")
    parser.add_argument("--archive", metavar="DIR", help="folder in which to record what is sent and delivered, with "
                        "payloads")
    parser.add_argument("--archive-keyring", metavar="FILE", help="the keyring with which the archive is encrypted")
    parser.add_argument("--verbose", "-v", action="store_true", help="log more than warnings to stderr")
    add_property_argument(parser)
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Run a member until it is ended; 1 if the group could not be joined, 2 if the stack is wrong."""
    logging.basicConfig(level=logging.INFO if args.verbose else logging.WARNING, stream=sys.stderr,
                        format="%(asctime)s %(name)s %(levelname)s %(message)s")
    given = dict(args.properties)
    try:
        fill_options(args, os.environ, {"cluster": cluster_name})
        spec = recorded(args.stack, properties_of(os.environ, given), args.archive, args.archive_keyring)
        member = Membership(spec, name=args.name) if has_no_views(spec.layers) else JChannel(spec, name=args.name)
        endpoint = http_endpoint(member, args)
        control = ControlSocket(member, args.control) if args.control else nullcontext()
    except (ConfigError, ValueError) as error:
        complain(*(reasons(error, "jgroups member: ") if isinstance(error, ConfigError)
                   else [f"jgroups member: {error}"]), *blamed(str(error), os.environ, given))
        return 2
    for warning in spec.warnings:
        log.warning("%s", "; ".join((warning, *blamed(warning, os.environ, given))))
    service = MemberService() if args.service else None
    if isinstance(member, Membership):
        return MembershipCommands(member, Printer(), service).run(args.cluster, control)
    Survey.of(member)                                        # it answers others, also without a control socket
    with control, endpoint or nullcontext():
        url = None if endpoint is None else endpoint.url
        return MemberCommands(member, url, service, lambda text: "; ".join(
            (text, *blamed(text, os.environ, given)))).run(args.cluster, args.timeout)


def http_endpoint(member: JChannel | Membership, args: Namespace) -> HttpEndpoint | None:
    """The endpoint that the options ask for.

    Raises:
        ConfigError: an option is wrong, or the place is taken.
    """
    if args.http is None:
        if args.http_token_file or args.http_open or args.http_host:
            raise ConfigError("--http-token-file, --http-open and --http-host need --http")
        return None
    if isinstance(member, Membership):
        raise ConfigError("--http needs a stack with GMS: SWIM alone has no channel to report on")
    return HttpEndpoint(member, args.http, HttpAccess(
        token_file=args.http_token_file, is_open=args.http_open, hosts=tuple(args.http_host)))


def cluster_name(text: str) -> str:
    """The name of a cluster; for argparse."""
    if not text:
        raise ArgumentTypeError("the name is empty")
    return checked_name(text, "the name")


class MemberCommands(Receiver):
    """A channel that is controlled by stdin, or runs as a service, and prints events to stdout."""

    def __init__(
        self, channel: JChannel, http: str | None = None, service: MemberService | None = None,
        explained: Callable[[str], str] = str,
    ) -> None:
        self.channel = channel
        self.explained = explained                           # an error, with what it may come from
        self.service = service
        self.http = {} if http is None else {"http": http}   # in the event `ready`
        self.counts = Counts()
        self.emit = Printer()
        self.flooder = Flooder(channel, lambda text: self.emit("error", message=text))
        self.sent = 0                                        # messages, without those of floods
        self.failure: str | None = None
        self.forget = False                                  # `leave forget`: other sites hold nothing for this site
        self.floods: queue.Queue[tuple[int, int, float | None] | None] = queue.Queue()
        self.commands: dict[str, Callable[[str], None]] = {
            "send": self.send, "sendto": self.send_to, "flood": self.flood, "view": self.show_view,
            "global": self.show_global, "stats": self.show_stats, "sites": self.show_sites,
            "drops": log_drops, "partition": self.partition, "heal": self.heal,
        }
        channel.receiver = self

    # --- life cycle -------------------------------------------------------------------------------------------------

    def run(self, cluster: str, timeout: float) -> int:
        """Join, execute commands, leave; returns the exit code."""
        watch_sigterm()
        try:
            self.channel.connect(cluster, timeout)
            address = self.channel.address
            self.emit("ready", name=self.channel.name, address=address.raw.hex() if address else "", pid=os.getpid(),
                      **self.http)
            threading.Thread(target=self._flood_all, name="flood", daemon=True).start()
            threading.Thread(target=self._progress, name="progress", daemon=True).start()
            if self.service is not None:
                self.service.run(self.channel.name, lambda: ask_node(self.channel, lambda node, now_ns: node.name))
            self._obey()
            self._finish_floods()
        except (ChannelError, ConfigError) as error:
            self.failure = self.explained(str(error))
            self.emit("error", message=self.failure)
        except Ended:
            self.flooder.stopping = True
        ignore_sigterm()
        if self.service is not None:
            self.service.leave()
        if self.channel.view is not None:
            self.show_stats("")
        self.channel.close(forget=self.forget)
        return 1 if self.failure else 0

    def _obey(self) -> None:
        """Execute commands until a valid `leave` or the end of input."""
        while how := obey(self.commands, self.emit, lambda: self.failure is not None):
            if how == "forget" and self.channel.spec.config_of("RELAY") is not None:
                self.forget = True
                return
            self.emit("error", message=f"`leave {how}`: write `leave`, or with RELAY in the stack `leave forget`")

    def _flood_all(self) -> None:
        """Send the queued floods, one after the other, on a thread of their own: commands do not wait for them."""
        while (wanted := self.floods.get()) is not None:
            try:
                self.flooder.flood(*wanted)
            except ChannelError as error:
                self.emit("error", message=str(error))
            self.floods.task_done()
        self.floods.task_done()

    def _finish_floods(self) -> None:
        self.floods.put(None)
        self.floods.join()

    def _progress(self) -> None:
        printed = 0
        while True:
            time.sleep(PROGRESS_SECONDS)
            total = self.counts.total
            if total != printed:
                printed = total
                self.emit("progress", received=self.counts.as_dict())

    # --- commands ---------------------------------------------------------------------------------------------------

    def send(self, text: str) -> None:
        """Multicast."""
        self.channel.send(None, text.encode())
        self.sent += 1

    def send_to(self, rest: str) -> None:
        """Unicast."""
        name, _, text = rest.partition(" ")
        self.channel.send(self._member(name), text.encode())

    def _member(self, name: str) -> Address:
        local = self.channel.view.members if self.channel.view else ()
        everywhere = self.channel.global_view.members if self.channel.global_view else ()
        for member in (*local, *everywhere):
            if name in (member.name, str(member)):
                return member
        raise ValueError(f"no member has the name {name!r}; known: {', '.join(map(str, everywhere or local))}")

    def flood(self, rest: str) -> None:
        """Queue a flood."""
        self.floods.put(flood_arguments(rest.split()))

    def show_view(self, _: str) -> None:
        """Emit the view."""
        if self.channel.view is not None:
            self.view_accepted(self.channel.view)

    def show_global(self, _: str) -> None:
        """Emit the global view."""
        view = self.channel.global_view
        self.emit("global_view", sites={} if view is None else _names_by_site(view))

    def show_sites(self, _: str) -> None:
        """Emit the status of each known site."""
        for site, status in self.channel.sites.items():
            self.emit("site", site=site, status=status)

    def show_stats(self, _: str) -> None:
        """Emit counts and statistics."""
        self.emit("stats", received=self.counts.as_dict(), sent=self.sent + self.flooder.sent,
                  protocols=self.channel.stats(), rss_mb=rss_mb(), cpu_s=round(time.process_time(), 3))

    def partition(self, rest: str) -> None:
        """Partition the group, as seen by this member."""
        if self.channel.spec.config_of("PARTITION") is None:
            raise ValueError("the stack has no PARTITION")
        self.channel.inject(SetPartition(groups_of(rest)))

    def heal(self, _: str) -> None:
        """End the partition."""
        self.partition("")

    # --- events -----------------------------------------------------------------------------------------------------

    def receive_batch(self, batch: MessageBatch) -> None:
        """Count floods, print other messages."""
        if FLOOD in batch.headers:
            return self.counts.add(batch)
        src, unicast = plain_name(batch.src), batch.dest is not None
        for payload in batch.payloads:
            self.emit("message", src=src, site=batch.site, payload=payload.decode("utf-8", "replace"), unicast=unicast)
        return None

    def view_accepted(self, view: View) -> None:
        """Emit the view; that of a merge with its subgroups and missed messages."""
        merged = {"subgroups": [_names(sub.members) for sub in view.subgroups],
                  "missed": {plain_name(sender): number for sender, number in view.missed.items()},
                  } if isinstance(view, MergeView) else {}
        self.emit("view", id=str(view.id), coordinator=plain_name(view.coordinator), members=_names(view.members),
                  **merged)
        if self.service is not None:
            self.service.show(f"view {view.id}, {len(view)} members")

    def global_view_accepted(self, view: GlobalView) -> None:
        """Emit the global view."""
        self.emit("global_view", sites=_names_by_site(view))

    def site_status(self, site: str, status: str) -> None:
        """Emit the status of another site."""
        self.emit("site", site=site, status=status)

    def unreachable(self, dest: Address) -> None:
        """Emit the destination that is unreachable."""
        self.emit("unreachable", dest=str(dest))

    def messages_lost(self, loss: MessagesLost) -> None:
        """Emit a declared loss."""
        self.emit("lost", site=loss.site, origin=plain_name(loss.origin), first=loss.first, stop=loss.stop,
                  dest_site=loss.dest_site)

    def archive_failed(self, reason: str) -> None:
        """Emit why recording failed; "": it works again."""
        self.emit("archive", error=reason)

    def alone(self, reason: str) -> None:
        """Print it."""
        self.emit("alone", reason=reason)

    def channel_closed(self, reason: str) -> None:
        """Emit the reason, and end the process."""
        self.failure = reason
        self.emit("error", message=self.explained(f"the channel closed: {reason}"))
        os.kill(os.getpid(), signal.SIGTERM)


def _names(members: tuple[Address, ...]) -> list[str]:
    return [plain_name(member) for member in members]


def _names_by_site(view: GlobalView) -> dict[str, list[str]]:
    return {site: _names(members) for site, members in sorted(view.sites.items())}


def rss_mb() -> float:
    """Resident memory of this process in MB: now, or its peak where the system reports no more."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    return round(pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), 1)
