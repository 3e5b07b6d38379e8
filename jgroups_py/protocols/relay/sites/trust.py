"""Which other sites count, and what each may send and receive: the trust file of a site (RELAY's property `trust`).

The file is JSON:

    {"format": "jgroups sites 1",
     "sites": {"SFO": {}, "LON": {"receives": ["orders"], "sends": "none"}},
     "revoked": ["OLD"]}

A site that it does not list is unknown: nothing of it takes effect, nothing is sent to it or held for it. `receives`
is "all" (default), "none", or a list of topics: multicasts about these cross to it, of all others their numbers only,
and neither unicasts nor states. `sends` is "all" (default) or "none": of its multicasts the numbers count only, and its
unicasts are dropped. A name under `revoked` is refused even if it is listed, so that revoking is one line.
"""
from __future__ import annotations

import json
from typing import Any, Final

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.text import MAX_NAME_BYTES, is_name
from jgroups_py.model.topics import EVERYTHING, NOTHING, Interest, interest_in

FORMAT: Final = "jgroups sites 1"
ALL, NONE = "all", "none"
TRUST_FILE: Final = "trust file"            # its name in errors


@attrs.frozen
class SiteRights:
    """Of one site. receives: the topics whose multicasts are sent to it; EVERYTHING: also what has no topic, unicasts
    and states. sends: whether its messages are taken."""

    receives: Interest = EVERYTHING
    sends: bool = True


@attrs.frozen
class SiteTrust:
    """The file."""

    sites: dict[str, SiteRights]
    revoked: tuple[str, ...] = ()

    def refusal(self, site: str) -> str:
        """Why a site does not count; "": it does."""
        if site in self.revoked:
            return "the trust file has revoked it"
        return "" if site in self.sites else "the trust file does not list it"

    def rights(self, site: str) -> SiteRights:
        """What a site that counts may send and receive."""
        return self.sites.get(site, SiteRights())


def parse_trust(text: bytes) -> SiteTrust:
    """The trust in a file's text.

    Raises:
        ConfigError: what is wrong, and what is allowed.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError("not JSON") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("sites"), dict):
        raise ConfigError(f'no trust file of this version: an object with "format": "{FORMAT}" and "sites": {{NAME: '
                          "{...}}}")
    _only(data, ("format", "sites", "revoked"), "the file")
    revoked = data.get("revoked", [])
    if not isinstance(revoked, list):
        raise ConfigError('"revoked" must be a list of names of sites')
    return SiteTrust({_site(name): _rights(name, about) for name, about in data["sites"].items()},
                     tuple(_site(name) for name in revoked))


def _only(data: dict[str, Any], allowed: tuple[str, ...], where: str) -> None:
    other = [key for key in data if key not in allowed]
    if other:
        raise ConfigError(f"{where} has {other[0]!r}; it may have {', '.join(allowed)}")


def _site(name: Any) -> str:
    if not isinstance(name, str) or not is_name(name):
        raise ConfigError(f"{name!r} is no name of a site: a text of 1 to {MAX_NAME_BYTES} bytes without control "
                          "characters")
    return name


def _rights(name: str, about: Any) -> SiteRights:
    if not isinstance(about, dict):
        raise ConfigError(f'site {name} must be an object with "receives" and "sends"; {{}} allows both')
    _only(about, ("receives", "sends"), f"site {name}")
    sends = about.get("sends", ALL)
    if sends not in (ALL, NONE):
        raise ConfigError(f'site {name}: "sends" is "all" or "none", not {sends!r}')
    return SiteRights(_receives(name, about.get("receives", ALL)), sends == ALL)


def _receives(name: str, value: Any) -> Interest:
    if value == ALL:
        return EVERYTHING
    if value == NONE:
        return NOTHING
    if not isinstance(value, list) or not value or "*" in value:
        raise ConfigError(f'site {name}: "receives" is "all", "none" or a list of topics, not {value!r}')
    try:
        return interest_in(*value)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"site {name}: {error}") from None
