"""The control socket bounds what one process may hold of it."""
from __future__ import annotations

import os

from jgroups_py.ops.control import CLIENTS, CLIENTS_OF_PROCESS, Caller, Clients


def test_connections_are_bounded_by_process_and_in_all() -> None:
    clients = Clients()
    assert [clients.enter(7) for _ in range(CLIENTS_OF_PROCESS + 1)] == [True] * CLIENTS_OF_PROCESS + [False]
    assert [clients.enter(8) for _ in range(CLIENTS - CLIENTS_OF_PROCESS)] == [True] * (CLIENTS - CLIENTS_OF_PROCESS)
    assert not clients.enter(9)
    clients.leave(7)
    assert (clients.enter(9), clients.enter(7)) == (True, False)


def test_without_credentials_only_the_sum_is_bounded() -> None:
    clients = Clients()
    assert [clients.enter(0) for _ in range(CLIENTS + 1)] == [True] * CLIENTS + [False]


def test_other_users_may_not_ask_and_root_may() -> None:
    assert [Caller(5, uid).may_ask for uid in (os.getuid(), 0, os.getuid() + 1)] == [True, True, False]
    assert Caller().may_ask
    assert str(Caller(5, 1000)) == "process 5 (user 1000)"
