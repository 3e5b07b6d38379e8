"""Safeguards against a site that speaks of what is not its own, shown by profile attacker-site."""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.view import View
from jgroups_py.protocols.relay.headers import Forward
from jgroups_py.protocols.relay.headers.claims import Claims
from jgroups_py.protocols.relay.inbound.site_guard import SiteGuard
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

bridge_view_changed = SiteGuard.bridge_view_changed
refused, may_name, add, owner = SiteGuard.refused, SiteGuard.may_name, SiteGuard.add, SiteGuard.owner


def nothing_is_refused(self: SiteGuard, header: Header, batch: Batch) -> bool:
    return False


def forwards_only(self: SiteGuard, header: Header, batch: Batch) -> bool:
    """Of all headers only FORWARD is checked."""
    return refused(self, header, batch) if isinstance(header, Forward) or batch.src not in self.speaks_for else False


def any_address(self: SiteGuard, site: str, claims: Claims, src: Address) -> bool:
    """The names of sites are checked, members and origins are not."""
    return claims.site in (None, site) and claims.our_site in (None, self.own)


def any_site(self: SiteGuard, site: str, claims: Claims, src: Address) -> bool:
    """Members and origins are checked, the names of sites are not."""
    theirs = list(claims.theirs)
    return all(self.owner(address) in (None, claims.site or site) for address in theirs) and may_name(
        self, site, claims.ours) and add(self, claims.site or site, theirs)


def who_shows_it_first(self: SiteGuard, address: Address) -> str | None:
    """An address is of the site that shows it first, though it ends with the digest of another one."""
    digests, self.digests = self.digests, {}
    try:
        return owner(self, address)
    finally:
        self.digests = digests


def its_own_word(self: SiteGuard, view: View, certified: dict[Address, str]) -> None:
    """A relay is of the site that it names, whatever AUTH has verified."""
    bridge_view_changed(self, view, {})


def not_read_again(self: SiteGuard, data: bytes | None, problem: str) -> None:
    """The trust file counts as it was when the member started."""


SITE_SAFEGUARDS = (
    Safeguard("what a site says is checked", "K8", "each header of a relay on the bridge counts",
              (Patch(SiteGuard, "refused", nothing_is_refused),), "attacker-site", "K8"),
    Safeguard("every header is checked", "K8", "FORWARD alone is checked",
              (Patch(SiteGuard, "refused", forwards_only),), "attacker-site", "K8"),
    Safeguard("members and origins are of the site that names them", "K8", "only names of sites are checked",
              (Patch(SiteGuard, "allows", any_address),), "attacker-site", "K8"),
    Safeguard("a relay speaks for one site", "K8", "only members and origins are checked",
              (Patch(SiteGuard, "allows", any_site),), "attacker-site", "K8"),
    Safeguard("an address names its site", "K8", "an address is of the site that shows it first",
              (Patch(SiteGuard, "owner", who_shows_it_first),), "attacker-site", "R6"),
    Safeguard("a relay is of the site of its certificate", "K8", "of the site that it names",
              (Patch(SiteGuard, "bridge_view_changed", its_own_word),), "attacker-site", "K8"),
    Safeguard("a revoked site is refused", "K8", "the trust file is not read again",
              (Patch(SiteGuard, "file_read", not_read_again),), "attacker-site", "K8"),
)
