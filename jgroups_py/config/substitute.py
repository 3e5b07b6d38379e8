"""Substitution: fills `${name}` and `${name:default}` in property values from a dict that the application passes.

As in JGroups, several names may be tried in turn (`${a,b:default}`), and a default may contain `${...}`. The first
colon ends the names, so a default may contain colons. The environment is not read: what a member does follows only from
its stack file and the properties that the application passes; the command line passes `env.NAME` for each variable.

One default follows from another property: a member with `bind_addr=site_local` is meant to be found by other hosts, so
an `ip_ttl` whose default is 0, as in the packaged stacks, is 8 then, JGroups' own default, unless it is passed.
"""
from __future__ import annotations

from collections.abc import Mapping

from jgroups_py.model.errors import ConfigError

OPEN, CLOSE = "${", "}"
ENVIRONMENT = "env."
"""Before the names of properties that the command line takes from its environment; not all of them are used."""
MAX_DEPTH = 16
BIND_ADDR = "bind_addr", "jgroups.bind_addr"
SITE_LOCAL_TTL = "8"


class Substitution:
    """Fills values and records which names the sources use.

    properties: name -> value, converted to text; a value None counts as absent. asked: the names that the sources use,
    in their order.
    """

    def __init__(self, properties: Mapping[str, object]) -> None:
        if not isinstance(properties, Mapping) or not all(isinstance(name, str) for name in properties):
            raise ConfigError("properties are a mapping of names, each a str, to values, such as "
                              f"{{'bind_addr': '127.0.0.1'}}, not {str(properties)[:60]}")
        self.properties = {name: text_of(value) for name, value in properties.items() if value is not None}
        self.asked: dict[str, None] = {}

    def fill(self, value: str) -> str | None:
        """`value` with all `${...}` filled; None if it is one `${name}` that has neither a value nor a default.

        Raises:
            ConfigError: a bracket is not closed, or a name inside a longer text has no value.

        >>> fill = Substitution({"port": 7801}).fill
        >>> fill("h[${port:7800}],h[${other:7802}]"), fill("${a,port:1}"), fill("${a:${b:x:y}}"), fill("${a}")
        ('h[7801],h[7802]', '7801', 'x:y', None)
        """
        if value.startswith(OPEN) and closing(value, 0) == len(value) - 1:
            return self.resolve(value[len(OPEN):-1], 0)
        return self.expand(value, 0)

    def expand(self, value: str, depth: int) -> str:
        """`value` with all `${...}` filled. depth: of the default that `value` is, inside other ones.

        Raises:
            ConfigError: a name has neither a value nor a default, or a bracket is not closed.
        """
        if depth > MAX_DEPTH:
            raise ConfigError(f"more than {MAX_DEPTH} ${{...}} inside each other")
        parts, at = [], 0
        while (start := value.find(OPEN, at)) >= 0:
            end = closing(value, start)
            inner = value[start + len(OPEN):end]
            found = self.resolve(inner, depth)
            if found is None:
                raise ConfigError(f"${{{inner}}} has no value and no default; pass properties={{{inner!r}: ...}} "
                                  f"or write ${{{inner}:default}}")
            parts += [value[at:start], found]
            at = end + 1
        return "".join([*parts, value[at:]])

    def resolve(self, inner: str, depth: int) -> str | None:
        """The value of the text between `${` and `}`: that of the first name that has one, else the default, else None.
        """
        names, colon, default = inner.partition(":")
        for name in map(str.strip, names.split(",")):
            if not name or OPEN in name:
                raise ConfigError(f"${{{inner}}} has an empty or nested name; write ${{name:default}}")
            self.asked[name] = None
            if name in self.properties:
                return self.properties[name]
        if names.startswith("ip_ttl") and default == "0" and self.is_site_local():
            return SITE_LOCAL_TTL
        return self.expand(default, depth + 1) if colon else None

    def is_site_local(self) -> bool:
        """Whether the address to bind was passed as the word for one of the site's network."""
        return next((self.properties[name] for name in BIND_ADDR if name in self.properties), "") == "site_local"

    def unused(self) -> list[str]:
        """The properties that were passed and that no source uses."""
        return [name for name in self.properties
                if name not in self.asked and not name.startswith(ENVIRONMENT)]


def closing(value: str, start: int) -> int:
    """The index of the bracket that closes the `${` at `start`.

    Raises:
        ConfigError: none does.
    """
    depth, at = 0, start
    while at < len(value):
        if value.startswith(OPEN, at):
            depth += 1
            at += len(OPEN)
            continue
        if value[at] == CLOSE:
            depth -= 1
            if not depth:
                return at
        at += 1
    raise ConfigError(f"a ${{ is not closed in {value[:60]!r}")


def text_of(value: object) -> str:
    """A value from Python as it is written in a file.

    >>> text_of(True), text_of(500), text_of("1.5s")
    ('true', '500', '1.5s')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)
