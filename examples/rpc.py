"""Requests: to one member, to all, to a majority; a thousand under way at once; a handler that fails.

    python examples/rpc.py
"""
import os

import jgroups_py as jg
from jgroups_py.blocks.rpc import MAJORITY, RemoteError, Request, Rpc

GROUP = f"rpc-{os.getpid()}"


class Account:
    """A balance that every member keeps; deposits are multicast, so all members agree."""

    def __init__(self, name: str) -> None:
        self.balance = 0
        self.channel = jg.JChannel("udp", name=name)
        self.rpc = Rpc(self.channel, self.handle)
        self.channel.connect(GROUP)

    def handle(self, request: Request) -> bytes:
        verb, _, amount = request.payload.decode().partition(" ")
        if verb == "deposit":
            self.balance += int(amount)
        elif verb != "balance":
            raise ValueError(f"unknown request {verb!r}")
        return str(self.balance).encode()


accounts = [Account(name) for name in "ABC"]
first = accounts[0].rpc
b = accounts[1].channel.address

answers = first.request_many(None, b"deposit 30")                    # all members, one multicast
print("after the deposit:", {str(member): value.decode() for member, value in answers.values.items()})
assert answers.complete
assert set(answers.values.values()) == {b"30"}

assert first.request(b, b"balance", timeout=5.0) == b"30"            # one member
assert first.request_many(None, b"balance", MAJORITY).first == b"30"

replies = [first.start(b, b"deposit 1") for _ in range(1000)]        # a thousand under way at once
assert [int(reply.result()) for reply in replies] == list(range(31, 1031))

try:
    first.request(b, b"overdraw 7")
except RemoteError as error:
    print(f"{error.member} answered {error.kind}: {error.text}")
    refused = error.kind
for account in accounts:
    account.channel.close()
assert refused == "ValueError"
