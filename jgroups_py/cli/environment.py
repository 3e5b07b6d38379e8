"""What the command line reads from the environment: an argument comes first, then a variable, then the file's default.

Only the command line reads it. A program that uses the library says itself what it passes, so that what a member does
follows from its stack file and its arguments.
"""
from __future__ import annotations

import re
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping

from jgroups_py.config.substitute import ENVIRONMENT
from jgroups_py.model.errors import ConfigError

OPTIONS = {"JGROUPS_STACK": "stack", "JGROUPS_CLUSTER": "cluster", "JGROUPS_NAME": "name", "JGROUPS_HTTP": "http"}
"""Variable -> the option of `jgroups member` that it stands for."""
PROPERTIES = {"JGROUPS_" + name.upper(): name for name in (
    "site", "bind_addr", "bind_port", "initial_hosts", "dns_query", "external_addr", "external_port")}
"""Variable -> the property of the stack file that it fills."""
ANY = "JGROUPS_P_"
"""Before the name of a property in capitals: any other one."""
HELP = f"""variables of the environment, which an argument overrides:
  {', '.join(OPTIONS)}
                             as --stack, --cluster, --name, --http
  {', '.join(list(PROPERTIES)[:4])},
  {', '.join(list(PROPERTIES)[4:])}
                             as -p site=..., -p bind_addr=..., and so on
  {ANY}NAME              as -p name=..., for any property
  In a stack file ${{env.NAME}} and ${{env.NAME:default}} are filled with the variable NAME.
"""


def fill_options(args: Namespace, environment: Mapping[str, str], types: Mapping[str, Callable[[str], object]]) -> None:
    """Set the options that were not given from variables; an empty variable counts as none.

    types: option -> what argparse would convert it by.

    Raises:
        ConfigError: a value is wrong, or an option that is needed is in neither place.
    """
    for variable, option in OPTIONS.items():
        value = environment.get(variable)
        if getattr(args, option) is None and value:
            try:
                setattr(args, option, types.get(option, str)(value))
            except (ArgumentTypeError, ValueError) as error:
                raise ConfigError(f"{variable}={value!r}: {error}") from None
    for option in ("stack", "cluster"):
        if getattr(args, option) is None:
            raise ConfigError(f"--{option} is missing; give it, or set JGROUPS_{option.upper()} in the environment")


def variables_of(environment: Mapping[str, str], given: Mapping[str, object]) -> dict[str, str]:
    """Property -> the variable that fills it: of those that are set, and whose property is not in `given`.

    >>> variables_of({"JGROUPS_BIND_ADDR": "::1", "JGROUPS_P_IP_TTL": "1", "JGROUPS_SITE": ""}, {"ip_ttl": "2"})
    {'bind_addr': 'JGROUPS_BIND_ADDR'}
    """
    found = {name: variable for variable, name in PROPERTIES.items() if environment.get(variable)}
    for variable in sorted(environment):
        if variable.startswith(ANY) and len(variable) > len(ANY) and environment[variable]:
            found.setdefault(variable.removeprefix(ANY).lower(), variable)
    return {name: variable for name, variable in found.items() if name not in given}


def properties_of(environment: Mapping[str, str], given: Mapping[str, object]) -> dict[str, object]:
    """The properties for a stack: those given, those of variables, and all variables as env.NAME."""
    variables = variables_of(environment, given)
    return {**{ENVIRONMENT + name: value for name, value in environment.items()},
            **{name: environment[variable] for name, variable in variables.items()}, **given}


def blamed(error: str, environment: Mapping[str, str], given: Mapping[str, object]) -> list[str]:
    """A line for each variable whose property or value an error mentions; without the value, which may be a secret."""
    return [f"{name} is from {variable} in the environment"
            for name, variable in variables_of(environment, given).items()
            if name in error or mentions(error, environment[variable])]


def mentions(error: str, value: str) -> bool:
    """Whether an error names a value: in quotes, or as a word of more than two letters (a path may hold any digit).

    >>> mentions("/tmp/run1: bind_port is 'many'", "1"), mentions("cannot bind 10.0.0.9:7800", "10.0.0.9")
    (False, True)
    """
    word = rf"(?<!\w){re.escape(value)}(?!\w)"
    return repr(value) in error or (len(value) > 2 and re.search(word, error) is not None)
