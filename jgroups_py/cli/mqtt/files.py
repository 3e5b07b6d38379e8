"""The files of a broker: its configuration, passwords, rules."""
from __future__ import annotations

from pathlib import Path
from secrets import token_bytes

from jgroups_py.blocks.mqtt.broker.auth import AuthFileError, FileAuthorizer, Password, read_passwords, read_rules
from jgroups_py.blocks.mqtt.server.config import AuthSection, BrokerFile, read_broker_file, read_gmqtt_passwords
from jgroups_py.model.errors import ConfigError

MAX_FILE_BYTES = 16 << 20
GMQTT_PASSWORDS = "gmqtt_password.yml"
KEY_BYTES = 32


def broker_file(path: str) -> tuple[BrokerFile, list[str]]:
    """The configuration, and warnings. Raises ConfigError."""
    return read_broker_file(_text(path), path)


def authorizer(auth: AuthSection | None) -> FileAuthorizer | None:
    """What the section names; None if it is switched off. Raises ConfigError."""
    if auth is None:
        return None
    rules = None
    if auth.rules_file:
        try:
            rules = read_rules(_text(auth.rules_file))
        except AuthFileError as error:
            raise ConfigError(f"{auth.rules_file}: {error}") from None
    return FileAuthorizer(_passwords(auth), rules, token_bytes(KEY_BYTES), auth.allow_anonymous)


def _passwords(auth: AuthSection) -> dict[str, Password]:
    path = auth.password_file
    if not path:
        default = Path.home() / GMQTT_PASSWORDS
        if not default.exists():                         # as in gmqtt: nobody may connect, until there is one
            return {}
        path = str(default)
    if auth.hash != "scrypt":
        return read_gmqtt_passwords(_text(path), path, auth.hash)
    try:
        return dict(read_passwords(_text(path)))
    except AuthFileError as error:
        raise ConfigError(f"{path}: {error}") from None


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(f"{path}: more than {MAX_FILE_BYTES >> 20} MB")
        return data.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is no UTF-8") from None
