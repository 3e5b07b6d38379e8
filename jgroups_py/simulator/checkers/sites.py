"""K8: a site speaks for itself alone. Judged over the history of the other sites, without what is about the liar."""
from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers.facts import Violation


def site_authority(history: h.History, liar: str) -> Iterator[Violation]:
    """Nothing that `liar` says takes effect for another site: in no global view, status, loss or delivery."""
    known = dict.fromkeys(history.sites.values())
    for entry in history.entries:
        if not isinstance(entry, h.HistoryEntry) or history.sites.get(entry.member) == liar:
            continue
        for text in _wrong(entry, history.sites, known, liar):
            yield Violation("K8", f"{history.name(entry.member)} {text}", entry.at_ns)


def _wrong(entry: h.HistoryEntry, sites: dict[Address, str], known: dict[str, None], liar: str) -> Iterator[str]:
    match entry:
        case h.GlobalInstall(_, _, view):
            for site, members in view.sites.items():
                if site not in known:
                    yield f"believes in the site {site}, which is none"
                for member in members:
                    if sites.get(member, liar if site == liar else "none") != site:
                        yield f"has {member} at {site} instead of {sites.get(member, 'nowhere')}"
        case h.SiteStatusSeen(_, _, site, status):
            if site not in known:
                yield f"has a status of the site {site}, which is none"
            elif status == "OFFLINE" and site != liar:
                yield f"has given up {site}, and no limit was reached"
        case h.Lost(_, _, site, origin, _, _, dest_site):
            if dest_site != liar and sites.get(origin) not in (site, liar, None) and site:
                yield f"hears of losses of {origin} at {site}"
        case h.MessageDelivered(_, _, src, _, payloads, _, _):
            claimed = src.site if isinstance(src, ProxyUUID) else None
            if claimed is not None and sites.get(src, liar if claimed == liar else "none") != claimed:
                yield f"delivers from {src} as of {claimed}"
            elif b"forged" in payloads and claimed != liar:
                yield f"delivers a forged message as of {src}"


def without_site(history: h.History, liar: str) -> h.History:
    """The history of the other sites, as if `liar` were not there."""
    def strange(address: Address | None) -> bool:
        return address is not None and history.sites.get(address, liar) == liar

    left_out: dict[bytes, None] = {}                     # messages whose receipts the liar has a say in
    kept = h.History()
    kept.__dict__.update(history.__dict__)
    kept.entries = []
    for entry in history.entries:
        if isinstance(entry, h.HistoryEntry) and strange(entry.member):
            continue
        match entry:
            case h.MessageDelivered(_, _, src, _, _, _, _) if strange(src):
                continue
            case h.MessageSent(_, _, dest, _, _, _) if strange(dest):
                continue
            case h.Unreached(_, _, dest) if strange(dest):
                continue
            case h.Lost(_, _, site, origin, _, _, dest_site) if liar in (site, dest_site) or strange(origin):
                continue
            case h.SiteStatusSeen(_, _, site, _) | h.EpochAccepted(_, _, site, _) | \
                    h.LedgerReading(_, _, site, _, _, _, _) | h.Covered(_, _, site, _, _, _) if site == liar:
                continue
            case h.Awaited(_, _, payload, wanted) if liar in wanted or "*" in wanted:
                left_out[payload] = None
                continue
            case h.Receipted(_, _, payload, _, _) if payload in left_out:
                continue
            case h.Stalled(_, _, text) if f"towards {liar}," in text:
                continue
            case h.GlobalInstall(at_ns, member, view):
                rest = {site: members for site, members in view.sites.items() if site != liar}
                entry = h.GlobalInstall(at_ns, member, type(view)(rest))
            case h.End(at_ns, live):
                entry = h.End(at_ns, {member: nbytes for member, nbytes in live.items() if not strange(member)})
        kept.entries.append(entry)
    kept.names = {address: name for address, name in history.names.items() if not strange(address)}
    kept.sites = {address: site for address, site in history.sites.items() if site != liar}
    return kept
