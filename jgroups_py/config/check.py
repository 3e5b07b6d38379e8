"""Checks a whole stack: whether it is complete, and whether each layer is where it can work.

Rules are rows of tables, each with the reason that the error shows. These are the rules between layers; those between
the properties of one protocol are in its configuration class.
"""
from __future__ import annotations

from collections.abc import Sequence

from jgroups_py.config.problems import Place, Problems
from jgroups_py.config.spec import PYTHON, LayerSpec
from jgroups_py.model.ports import FrameRoom
from jgroups_py.model.units import show_size
from jgroups_py.protocols import KNOWN

DISCOVERY = ("PING", "TCPPING", "DNS_PING", "KUBE_PING", "FILE_PING", "PEX")
MULTICAST_FLOW = ("MFC", "FLOW")
FAULTS = ("DISCARD", "DELAY", "DUPLICATE", "SHUFFLE", "PARTITION")
FRAME_ROOM_BYTES = 1024
"""Room in a frame for the headers of all layers above and below FRAG; they need less."""

NEEDED: tuple[tuple[tuple[str, ...], str], ...] = (
    (DISCOVERY, "no other member would be found"),
    (("NAKACK",), "multicasts would get lost"),
    (("UNICAST",), "unicasts would get lost"),
    (("GMS",), "no group would be formed"),
)
"""(protocols, what happens without them): a stack must have one of each row."""

OF_VIEWS = ("GMS", "NAKACK", "UNICAST", "STABLE", "FRAG", "TOTAL", "STATE_TRANSFER", "RELAY")
"""A stack with one of these is meant to form groups."""

SEALED_TRANSPORTS = ("UDP", "TCP")
"""The transports above which ENCRYPT may stand."""

SENDS_ONLY = {"MEMBERLIST": ("SWIM", "SERF"), "INFLUX": ("PEX",)}
"""Transport with the frames of another system -> the protocols whose messages these frames carry."""

WANTED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("FD_ALL", "FD_SOCK", "SWIM"), "a crashed member is never noticed"),
    (("MERGE3",), "the parts of a group that was split never merge again"),
    (("STABLE",), "NAKACK keeps every multicast until the view changes, and memory grows"),
    (MULTICAST_FLOW, "a slow receiver's queue of multicasts grows without bound"),
    (("UFC",), "a slow receiver's queue of unicasts grows without bound"),
)
"""(protocols, what happens without them): there is a warning if a stack has none of a row."""

ABOVE: tuple[tuple[str, tuple[str, ...], str], ...] = (
    *((name, ("NAMES",), "discovery asks NAMES, below it, for the addresses of hosts") for name in DISCOVERY),
    ("GMS", DISCOVERY, "GMS asks discovery, below it, for members"),
    ("MERGE3", DISCOVERY, "MERGE3 asks discovery, below it, for the addresses of members"),
    ("GMS", ("MERGE3",), "MERGE3 reports other groups to GMS, above it"),
    ("VERIFY_SUSPECT", ("FD_SOCK", "FD_ALL"), "suspicions go up, and VERIFY_SUSPECT checks those from below"),
    ("GMS", ("FD_SOCK", "FD_ALL", "VERIFY_SUSPECT", "SWIM"), "suspicions go up to GMS"),
    ("GMS", ("NAKACK",), "GMS freezes and fills NAKACK, below it, before it installs a view"),
    ("GMS", ("UNICAST",), "UNICAST, below it, must know a view before any member sends in it"),
    ("STABLE", ("NAKACK",), "STABLE reports to NAKACK, below it, which messages are stable"),
    ("MFC", ("NAKACK", "UNICAST"), "requests for credit and credits must arrive, in order with the messages"),
    ("UFC", ("NAKACK", "UNICAST"), "requests for credit and credits must arrive, in order with the messages"),
    ("FRAG", ("NAKACK", "UNICAST"), "all fragments must arrive, in order"),
    ("FLOW", ("NAKACK", "UNICAST", "GMS"), "marks and answers must arrive, in order with the messages and views"),
    ("FRAG", ("MFC", "UFC", "FLOW"), "flow control counts fragments; a large message would use up all credits at once"),
    ("TOTAL", ("GMS", "NAKACK", "UNICAST", "STABLE", "MFC", "FLOW", "UFC", "FRAG"),
     "it orders whole messages, and members grant credit for those that still wait for their place"),
    ("STATE_TRANSFER", ("GMS", "NAKACK", "UNICAST", "STABLE", "MFC", "FLOW", "UFC", "FRAG", "TOTAL"),
     "a state contains a prefix of the messages that the application gets"),
)
"""(layer, layers below it, reason): the first must be above the others, which is later in the file."""

TOP: tuple[tuple[str, str], ...] = (
    ("TOPICS", "it selects what the application gets, also from other sites"),
    ("ARCHIVE", "it records what the application sends and gets"),
    ("RELAY", "it relays what the application sends and gets"),
)
"""(layer, reason): the first must be above all other layers, the second above all but the first, and so on."""


def check_layers(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """Add to `problems` what is missing or misplaced in `layers`, which are lowest first."""
    before = len(problems.found)
    check_transport(layers, problems)
    if len(problems.found) > before:
        return
    check_complete(layers, problems)
    check_twice(layers, problems)
    check_order(layers, problems)
    check_encrypt(layers, problems)
    check_auth(layers, problems)
    check_detectors(layers, problems)
    check_ports(layers, problems)
    check_multicast(layers, problems)
    check_dns(layers, problems)
    check_kubernetes(layers, problems)
    check_external(layers, problems)
    if layers[0].name in SENDS_ONLY:
        check_foreign(layers, problems)
    elif not has_no_views(layers):
        check_sizes(layers, problems)
    check_faults(layers, problems)


def check_transport(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """A stack has one transport, which is its first layer."""
    if not layers:
        problems.add(PYTHON, "the stack is empty; it starts with a transport: UDP or TCP")
        return
    if not is_transport(layers[0]):
        problems.add(layers[0].place, f"{layers[0].name} stands first; a stack starts with a transport: UDP or TCP "
                                      "(protocols are listed from the bottom up)")
    for layer in layers[1:]:
        if is_transport(layer):
            problems.add(layer.place, f"{layer.name} is a transport; it must be the first protocol, and the only "
                                      f"transport ({layers[0].name} stands first)")


def check_complete(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """The layers that a stack must have, and those that most stacks should have."""
    if has_no_views(layers):
        return
    names = {layer.name: layer for layer in layers}
    for choices, reason in NEEDED:
        if not any(name in names for name in choices):
            problems.add(top_of(layers), f"{' or '.join(choices)} is missing; without it {reason}")
    for choices, reason in WANTED:
        if not any(name in names for name in choices):
            problems.warn(top_of(layers), f"without {' and '.join(choices)}, {reason}")


def check_foreign(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """Frames of another system carry only messages of that system."""
    transport = layers[0].name
    for layer in layers[1:]:
        if layer.name not in (*SENDS_ONLY[transport], *FAULTS):
            problems.add(layer.place, f"{layer.name} cannot stand on {transport}, whose frames carry only what "
                                      f"{' and '.join(SENDS_ONLY[transport])} send")


def check_twice(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """A protocol may be in a stack only once, except those that inject faults; of some kinds only one may be there."""
    seen: dict[str, LayerSpec] = {}
    for layer in layers:
        # Discovery protocols share one id on the wire, so that two of them would take each other's messages.
        kind = ("discovery" if layer.name in DISCOVERY else
                "multicast flow control" if layer.name in MULTICAST_FLOW else "")
        other = seen.setdefault(kind or layer.name, layer)
        if other is not layer and layer.name not in FAULTS:
            problems.add(layer.place, f"{layer.name} stands in the stack beside {other.name} ({other.place}); "
                                      f"only one {kind} protocol is allowed" if kind and other.name != layer.name else
                         f"{layer.name} is in the stack twice (first: {other.place})")


def check_order(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """The rules of ABOVE and TOP."""
    height = {layer.name: at for at, layer in enumerate(layers)}
    for upper, lowers, reason in ABOVE:
        for lower in lowers:
            if upper in height and lower in height and height[upper] < height[lower]:
                problems.add(layers[height[upper]].place,
                             f"{upper} must stand above {lower} (later in the file): {reason}")
    check_top(layers, problems)


def check_encrypt(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """ENCRYPT seals what the transport sends, so it is directly above it; foreign frames cannot be sealed."""
    for at, layer in enumerate(layers):
        if layer.name != "ENCRYPT":
            continue
        transport = layers[0].name
        if transport not in SEALED_TRANSPORTS:
            problems.add(layer.place, f"ENCRYPT cannot stand on {transport}, which has a frame format of its own; "
                                      f"allowed are {' and '.join(SEALED_TRANSPORTS)}")
        elif at != 1:
            problems.add(layer.place, f"ENCRYPT must stand directly above {transport} (second in the file), found "
                                      f"{layers[at - 1].name} ({layers[at - 1].place}) below it: its messages would "
                                      "not be encrypted")


def check_auth(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """AUTH speaks by ENCRYPT's exchange of challenges, so it stands at its side."""
    for at, layer in enumerate(layers):
        if layer.name == "AUTH" and layers[at - 1].name != "ENCRYPT":
            problems.add(layer.place, f"AUTH must stand directly above ENCRYPT, which asks it whom to believe; found "
                                      f"{layers[at - 1].name} ({layers[at - 1].place}) below it")


def check_top(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """The layers of TOP are above all others, in that order."""
    rest = list(layers)
    for name, reason in TOP:
        found = next((layer for layer in rest if layer.name == name), None)
        if found is not None and rest[-1] is not found:
            problems.add(found.place, f"{name} must stand above all others (last in the file), found {rest[-1].name} "
                                      f"above it: {reason}")
        rest = [layer for layer in rest if layer.name != name]


def check_detectors(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """SWIM and FD_SOCK both open links to members, so only one of them may."""
    names = {layer.name: layer for layer in layers}
    if "SWIM" in names and "FD_SOCK" in names and names["SWIM"].config.link_pings:
        problems.add(names["SWIM"].place, "SWIM replaces FD_SOCK, and would mistake its links for SWIM's own; remove "
                     f"FD_SOCK ({names['FD_SOCK'].place}) or set SWIM's link_pings=false")


def check_ports(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """Each port that a layer needs is provided by another layer."""
    classes = [layer.protocol() for layer in layers]
    for at, layer in enumerate(layers):
        for port in classes[at].needs.values():
            if not any(issubclass(other, port) for other in [*classes[:at], *classes[at + 1:]]):
                problems.add(layer.place, f"{layer.name} needs a protocol that provides {port.__name__}"
                                          f"{providers(port)}; none is in the stack")


def check_multicast(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """PING needs IP multicast."""
    transport = layers[0]
    if transport.name == "UDP" and transport.config.ip_mcast:
        return
    what = "TCP" if transport.name == "TCP" else f"{transport.name} with ip_mcast=false"
    for layer in layers:
        if layer.name == "PING":
            problems.add(layer.place, f"PING finds members by IP multicast, which {what} does not have; use TCPPING, "
                                      "DNS_PING or FILE_PING")


def check_dns(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """DNS_PING looks for members at one port, unless records have ports."""
    for layer in layers:
        if layer.name != "DNS_PING" or layer.config.dns_record_type == "SRV" or layer.config.dns_port:
            continue
        if not getattr(layers[0].config, "bind_port", 0):
            problems.add(layer.place, "DNS_PING looks for members at the port that all of them share, and with "
                                      f"bind_port=0 ({layers[0].name}) each has another one; set bind_port")


def check_kubernetes(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """KUBE_PING looks for members at one port of each pod, and in every pod that its labels leave."""
    for layer in layers:
        if layer.name != "KUBE_PING":
            continue
        config = layer.config
        if not getattr(layers[0].config, "bind_port", 0):
            problems.add(layer.place, "KUBE_PING looks for members at the port that all pods share, and with "
                                      f"bind_port=0 ({layers[0].name}) each has another one; set bind_port")
        if not config.labels:
            problems.warn(layer.place, "KUBE_PING without labels sends requests to every pod of the namespace, of "
                                       'other applications too; set labels, as in labels="app=chat"')
        if config.masterProtocol == "http":
            problems.warn(layer.place, "KUBE_PING with masterProtocol=http sends no token, and anybody on the way may "
                                       "say where members are; use it for a proxy on this host only (kubectl proxy)")


def check_external(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """A proxy passes connections to FD_SOCK's listener on only if the listener has a port that is set."""
    transport = layers[0].config
    if not (getattr(transport, "external_addr", "") or getattr(transport, "external_port", 0)):
        return
    for layer in layers:
        if layer.name == "FD_SOCK" and not (layer.config.start_port or layer.config.external_port):
            problems.warn(layer.place, f"{layers[0].name} has an external address, and FD_SOCK listens on any free "
                                       "port, which no proxy or NAT passes on; set start_port (and external_port), and "
                                       "have that port passed on too")


def check_sizes(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """A fragment fits into a frame, and credit is renewed before a fragment has to wait for it."""
    frame_bytes = layers[0].config.max_bundle_bytes
    frag = next((layer for layer in layers if layer.name == "FRAG"), None)
    if frag is None:
        problems.warn(top_of(layers), f"without FRAG, messages above about {show_size(frame_bytes - FRAME_ROOM_BYTES)} "
                                      "bytes cannot be sent")
        return
    frag_bytes = frag.config.frag_size_bytes
    if frag_bytes > frame_bytes - FRAME_ROOM_BYTES:
        problems.add(frag.place, f"FRAG: frag_size {show_size(frag_bytes)} leaves no room for headers in a frame of "
                                 f"max_bundle_size {show_size(frame_bytes)} ({layers[0].name}); at most "
                                 f"{show_size(frame_bytes - FRAME_ROOM_BYTES)}")
    for layer in layers:
        if layer.name in ("MFC", "UFC"):
            check_credits(layer, frag_bytes, problems)
        if layer.name == "ARCHIVE" and any(other.name == "FLOW" for other in layers):
            problems.warn(layer.place, "ARCHIVE beside FLOW records messages as delivered that FLOW dropped for a slow "
                                       "application and reported to it as skipped")
        if layer.name == "FLOW" and layer.config.mark_every_bytes < frag_bytes:
            apart = show_size(layer.config.mark_every_bytes)
            problems.warn(layer.place, f"FLOW: a third of window, {apart}, is below FRAG's frag_size, "
                                       f"{show_size(frag_bytes)}: all receivers answer every fragment")


def check_credits(flow: LayerSpec, frag_bytes: int, problems: Problems) -> None:
    """A sender should have credit left for a fragment when it asks for more (JGroups: JGRP-1659)."""
    low_bytes = flow.config.low_water_bytes
    if low_bytes < frag_bytes:
        problems.warn(flow.place, f"{flow.name}: min_credits (max_credits x min_threshold) is {show_size(low_bytes)}, "
                                  f"below FRAG's frag_size {show_size(frag_bytes)}: a sender of large messages stops "
                                  "for a round trip each time its credit runs out")


def check_faults(layers: Sequence[LayerSpec], problems: Problems) -> None:
    """Faults above the layers that repair them are allowed, for experiments, with a warning."""
    height = {layer.name: at for at, layer in enumerate(layers)}
    repaired = min(height.get("NAKACK", 0), height.get("UNICAST", 0))
    for at, layer in enumerate(layers):
        if layer.name in FAULTS and at > repaired:
            problems.warn(layer.place, f"{layer.name} stands above NAKACK or UNICAST: what it does to messages is not "
                                       "repaired, and the guarantees do not hold")


# --- helpers --------------------------------------------------------------------------------------------------------

def is_transport(layer: LayerSpec) -> bool:
    """Whether a layer is a transport."""
    return issubclass(layer.protocol(), FrameRoom)


def has_no_views(layers: Sequence[LayerSpec]) -> bool:
    """Whether a stack has SWIM or PEX for a membership or broadcasts without views, and nothing that needs views."""
    names = [layer.name for layer in layers]
    return ("SWIM" in names or "PEX" in names) and not any(name in names for name in OF_VIEWS)


def providers(port: type) -> str:
    """The known protocols that provide a port, as text for an error."""
    names = [name for name, known in KNOWN.items() if issubclass(known.load(), port)]
    return f" ({', '.join(names)})" if names else ""


def top_of(layers: Sequence[LayerSpec]) -> Place:
    """The place for a problem of the whole stack."""
    return Place(layers[0].place.file)
