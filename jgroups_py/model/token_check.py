"""What an application gives AUTH with authority="token": who a token is of. Named by `package.module:Class`."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

ENTRY_POINTS: Final = "jgroups_py.token_checks"
MAX_TOKEN_BYTES: Final = 8 << 10


class TokenCheck(ABC):
    """Made once in a process, without arguments."""

    @abstractmethod
    def check(self, token: bytes, key: str) -> Mapping[str, Any] | None:
        """Whose token this is: {"name": ..., "site": ..., "roles": [...], "until": seconds since 1970}; all but the
        name may be missing. None: it is refused.

        token: at most MAX_TOKEN_BYTES, of anybody; key: the text of the public key whose holder shows it. The token
        must name that key, as `cnf` does in a JWT (RFC 7800): otherwise whoever has seen it could use it. Called on
        threads of its own, one call for each token until its verdict ends; may raise, then the token is refused, and
        may wait, but not longer than AUTH's `check_timeout`.
        """
