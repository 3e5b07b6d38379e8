"""Errors of coordination."""
from __future__ import annotations

from jgroups_py.model.errors import ChannelError


class UnavailableError(ChannelError):
    """The store did not answer in time. The operation may have been carried out, or may be later; a lock that is
    granted then is released at once."""

    definite = False


class WaitTimeoutError(ChannelError, TimeoutError):
    """The wait is over and withdrawn: nothing was granted, nor will be."""


class LockTimeoutError(WaitTimeoutError):
    """Another one has the lock, or the permits, or leads. Nothing was granted, nor will be."""


class MismatchError(ChannelError):
    """Members use one name, or the store, with different arguments: nothing was done."""


class LostError(ChannelError):
    """The grant is no longer valid: the holder must not go on. why: "expired", "released" or "closed"; fence: of the
    grant."""

    def __init__(self, what: str, fence: int, why: str) -> None:
        super().__init__(f"{what} was lost ({why}); others may have it (fence {fence})")
        self.fence = fence
        self.why = why
