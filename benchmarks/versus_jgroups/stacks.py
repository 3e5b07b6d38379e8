"""The stack files of the Java side: those of the jar, with the changes that are listed here and printed in the report.

Nothing of JGroups is kept in this project; the files are read from the jar that was fetched and written, changed, into
the folder of a run.
"""
from __future__ import annotations

import re
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import attrs

LOOPBACK = "127.0.0.1"
BRIDGE_PORTS = 6                    # places where relays may be: two at a time, and those of killed ones before
TRANSPORTS = ("UDP", "TCP")


@attrs.frozen
class Place:
    """Where a group talks: its multicast group, or its TCP ports from `port` on."""

    mcast_addr: str = "239.8.9.10"
    mcast_port: int = 45588
    port: int = 7800
    ports: int = BRIDGE_PORTS


@attrs.frozen
class Change:
    """One attribute of one protocol, and why it differs from the jar's file; `tuning`: to make it faster."""

    protocol: str
    attribute: str
    value: str
    why: str
    tuning: bool = False


def changes(major: int, transport: str, place: Place, tuned: bool = True) -> list[Change]:
    """What is changed in the jar's udp.xml or tcp.xml.

    >>> [change.attribute for change in changes(5, "udp", Place()) if change.tuning][:2]
    ['bundler_type', 'bundler.capacity']
    """
    name = transport.upper()
    alone = Change(name, "diag.enabled" if major >= 5 else "enable_diagnostics", "false", "no second multicast socket")
    found = [Change(name, "bind_addr", LOOPBACK, "loopback only"), alone]
    if transport == "udp":
        found += [Change(name, "mcast_addr", place.mcast_addr, "a group of its own"),
                  Change(name, "mcast_port", str(place.mcast_port), "a group of its own"),
                  Change(name, "ip_ttl", "0", "loopback only")]
    else:
        hosts = ",".join(f"{LOOPBACK}[{place.port + i}]" for i in range(place.ports))
        found += [Change(name, "bind_port", str(place.port), "free ports"),
                  Change(name, "port_range", str(place.ports - 1), "free ports"),
                  Change("TCPPING", "initial_hosts", hosts, "all the ports above"),
                  Change("TCPPING", "port_range", "0", "the hosts are all listed")]
    return found + (tuning(major, transport) if tuned else [])


def tuning(major: int, transport: str) -> list[Change]:
    """What makes JGroups 5 faster here. 2.12.2's own file has big buffers and its only good bundler already."""
    if major < 5:
        return []
    name = transport.upper()
    found = [Change(name, "bundler_type", "tq", "the stock bundler (pd) drops when full, and every drop waits for a "
                                                "retransmission", tuning=True),
             Change(name, "bundler.capacity", "128k", "a longer queue of the bundler, no stalls of the sender", True)]
    if transport == "udp":
        found += [Change(name, buffer, size, "large receive buffers, as the manual advises", True) for buffer, size in
                  (("mcast_recv_buf_size", "25M"), ("ucast_recv_buf_size", "20M"))]
    return found


def plain(element: ElementTree.Element) -> ElementTree.Element:
    """A copy without namespaces and schema locations."""
    copy = ElementTree.Element(element.tag.rpartition("}")[2],
                               {key: value for key, value in element.attrib.items() if not key.startswith("{")})
    copy.extend([plain(child) for child in element if isinstance(child.tag, str)])
    return copy


def flattened(name: str, files: dict[str, str]) -> ElementTree.Element:
    """The stack `name` of the jar's `files`, includes resolved."""
    root = plain(ElementTree.fromstring(files[name].strip()))
    for place, child in reversed(list(enumerate(root))):
        if child.tag == "include":
            included = re.sub(r"^\$\{[^:}]*:([^}]*)\}$", r"\1", child.attrib["file"])
            root[place:place + 1] = list(flattened(included, files))
    return root


def changed(root: ElementTree.Element, wanted: list[Change]) -> ElementTree.Element:
    """The stack with the changes made, in place.

    Raises:
        ValueError: it does not have a protocol that is to be changed.
    """
    for change in wanted:
        protocol = root.find(change.protocol)
        if protocol is None:
            raise ValueError(f"the stack has no {change.protocol}")
        protocol.set(change.attribute, change.value)
    return root


def jar_files(jar: Path) -> dict[str, str]:
    """The stack files of a jar, by name."""
    with zipfile.ZipFile(jar) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()
                if "/" not in name and name.endswith(".xml") and name.startswith(("udp", "tcp"))}


def written(root: ElementTree.Element, path: Path) -> Path:
    """Put a document into a file."""
    ElementTree.ElementTree(root).write(path, encoding="unicode")
    return path


def usual_relay(major: int) -> str:
    """How a release joins sites, if nothing else is asked for.

    >>> usual_relay(2), usual_relay(5)
    ('RELAY', 'RELAY2')
    """
    return "RELAY2" if major >= 5 else "RELAY"


def relay_stack(
    relay: str, group: ElementTree.Element, site: str, sites: list[str], bridge: Path, folder: Path,
) -> ElementTree.Element:
    """A site's stack: the group's, and on top of it RELAY (2.12), RELAY2 or RELAY3 (5), with what that reads."""
    if relay == "RELAY":
        ElementTree.SubElement(group, "RELAY", {"site": site, "bridge_props": str(bridge), "bridge_name": "bridge"})
        return group
    relays = ElementTree.Element("RelayConfiguration", {"xmlns": "urn:jgroups:relay:1.0"})
    known = ElementTree.SubElement(relays, "sites")
    for other in sites:
        bridges = ElementTree.SubElement(ElementTree.SubElement(known, "site", {"name": other}), "bridges")
        ElementTree.SubElement(bridges, "bridge", {"config": str(bridge), "name": "bridge"})
    path = written(relays, folder / "relays.xml")
    options = {"relay_multicasts": "true"} if relay == "RELAY2" else {}              # RELAY3 always relays them
    ElementTree.SubElement(group, f"relay.{relay}", {"site": site, "config": str(path), **options})
    return group
