"""Coroutines with the bug that asynchronous applications have: a value is read, something is awaited, it is written."""
from __future__ import annotations

import asyncio
from random import Random

from jgroups_py import aio
from jgroups_py.blocks.dicts.replicated import ReplicatedDict


class Account:
    """What one member has in its account, and what was added to it."""

    def __init__(self, ch: aio.AsyncChannel) -> None:
        self.ch = ch
        self.balance = self.added = 0
        self.prices: ReplicatedDict[str, int] | None = None


async def open_account(ch: aio.AsyncChannel) -> Account:
    """An account of a member's own."""
    await ch.connect("bank")
    return Account(ch)


async def add(account: Account, rng: Random) -> None:
    """Adds to the account, after something else was asked: another operation may have added meanwhile."""
    amount = rng.randint(1, 9)
    balance = account.balance
    await asyncio.sleep(0.05)
    account.balance = balance + amount
    account.added += amount


def all_is_there(accounts: list[Account]) -> None:
    """Every account has what was added to it."""
    for account in accounts:
        assert account.balance == account.added, f"{account.ch.name} has {account.balance} of {account.added}"


async def open_shared(ch: aio.AsyncChannel) -> Account:
    """One account of all members, in a dict."""
    account = Account(ch)
    account.prices = ReplicatedDict(ch, "accounts", str, int)
    await ch.connect("bank")
    return account


async def add_together(account: Account, rng: Random) -> None:
    """As `add`, and another member may have added meanwhile."""
    amount = rng.randint(1, 9)
    assert account.prices is not None
    balance = account.prices.get("balance", 0)
    await asyncio.sleep(0.01)
    await account.prices.aput("balance", balance + amount)
    account.added += amount


def shared_sum(accounts: list[Account]) -> None:
    """All see one balance, with everything that running members have added."""
    balances = {account.prices.get("balance", 0) for account in accounts if account.prices is not None}
    assert len(balances) <= 1, f"balances {balances}"
    added = sum(account.added for account in accounts)
    assert max(balances, default=0) >= added, f"{max(balances, default=0)} of {added}"
