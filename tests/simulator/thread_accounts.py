"""Threads with the bug that their applications have: a value is read, something is waited for, it is written."""
from __future__ import annotations

import threading
import time
from random import Random

import jgroups_py as jg


class Account:
    """What one member has in its account, and what was added to it."""

    def __init__(self, ch: jg.JChannel) -> None:
        self.ch = ch
        self.lock = threading.Lock()
        self.balance = self.added = 0


def open_account(ch: jg.JChannel) -> Account:
    """An account of a member's own."""
    ch.connect("bank")
    return Account(ch)


def add(account: Account, rng: Random) -> None:
    """Adds to the account after something else was done: another operation may have added meanwhile."""
    amount = rng.randint(1, 9)
    balance = account.balance
    account.ch.send(b"%d" % amount)
    time.sleep(0.05)
    account.balance = balance + amount
    with account.lock:
        account.added += amount


def add_without_a_wait(account: Account, rng: Random) -> None:
    """Adds in two lines, between which a thread may lose the processor."""
    amount = rng.randint(1, 9)
    for _ in range(20):
        balance = account.balance
        account.balance = balance + amount
        with account.lock:
            account.added += amount
        time.sleep(0.01)


def add_under_a_lock(account: Account, rng: Random) -> None:
    """Adds as it should."""
    amount = rng.randint(1, 9)
    account.ch.send(b"%d" % amount, until="stable", timeout=1)
    for _ in range(20):
        with account.lock:
            balance = account.balance
            account.balance = balance + amount
            account.added += amount


def all_is_there(accounts: list[Account]) -> None:
    """Every account has what was added to it."""
    for account in accounts:
        with account.lock:
            assert account.balance == account.added, f"{account.ch.name} has {account.balance} of {account.added}"
