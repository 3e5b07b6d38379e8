"""UNIX domain sockets that only this user can reach."""
from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path

from jgroups_py.model.errors import ConfigError

PATH_BYTES = 100                            # what every system allows for a UNIX domain socket, rounded down


def listening_socket(path: Path, what: str, backlog: int) -> socket.socket:
    """A listening socket at `path`, with mode 0600 from its first moment on. It replaces one whose process has ended.

    what: the socket's name in errors.

    Raises:
        ConfigError: there cannot be a socket at `path`.
    """
    _check_free(path, what)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Bound in a folder that only this user can enter, then moved: at no moment can another user connect.
        with tempfile.TemporaryDirectory(prefix=".jg", dir=path.parent) as folder:
            fresh = Path(folder) / "s"
            listener.bind(str(fresh))
            fresh.chmod(stat.S_IRUSR | stat.S_IWUSR)
            listener.listen(backlog)
            fresh.rename(path)
    except OSError as error:
        listener.close()
        raise ConfigError(f"no {what} at {path}: {error}") from None
    return listener


def _check_free(path: Path, what: str) -> None:
    """Raise ConfigError unless nothing is at `path`, or a socket whose process has ended."""
    if len(os.fsencode(path)) > PATH_BYTES:
        raise ConfigError(f"no {what} at {path}: a socket's path has {PATH_BYTES} bytes at most")
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError(f"no {what} at {path}: there is something else")
    except OSError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return
    raise ConfigError(f"no {what} at {path}: another member listens there")
