"""What mypy --strict says about programs that call services: right ones pass, and wrong lines are named."""
from __future__ import annotations

import pytest

from tests.runtime.strict_types import check_wrong_lines

PROGRAM = '''\
from collections.abc import AsyncIterator, Iterator

import attrs

import jgroups_py as jg
from jgroups_py import aio
from jgroups_py.blocks.service import AsyncServices, Mode, Service, Services, TypedAnswers, method


@attrs.frozen
class Order:
    id: int
    note: str | None = None


class NoSuchOrder(jg.RemoteFault):
    id: int
    near: list[int] = []


class Orders(Service, name="orders", version="1.2.0"):
    @method(raises=(NoSuchOrder,), idempotent=True)
    async def find(self, id: int, deep: bool = False) -> Order:
        raise NoSuchOrder(id, near=[id + 1])

    @method()
    async def place(self, order: Order) -> int:
        return order.id

    @method()
    async def tail(self, since: int) -> AsyncIterator[Order]:
        yield Order(since)


class OrdersOfThreads(Service, name="orders"):
    @method(raises=(NoSuchOrder,), idempotent=True)
    def find(self, id: int, deep: bool = False) -> Order:
        raise NotImplementedError

    @method()
    def tail(self, since: int) -> Iterator[Order]:
        raise NotImplementedError


async def calls(ch: aio.AsyncChannel) -> None:
    services = AsyncServices(ch)
    services.serve(Orders())
    orders = services.any(Orders, prefer="local", timeout=2.0)
    order: Order = await orders.find(7, deep=True)
    number: int = await services.at(ch.me, Orders).place(order)
    async for one in services.site("SFO", Orders).tail(0):
        print(one.note)
    answers: TypedAnswers[Order] = await services.all(Orders.find, mode=Mode.MAJORITY)(7)
    print({member: value.id for member, value in answers.values.items()}, number)
    try:
        await services.nearest(Orders).find(9)
    except NoSuchOrder as fault:
        print(fault.id + 1, fault.near, fault.definite)
    await orders.find("7")  # wrong
    await orders.find()  # wrong
    await orders.lose(7)  # wrong
    print(orders.find(7).note)  # wrong
    print((await orders.find(7)).notes)  # wrong
    bad: str = await orders.place(order)  # wrong
    for one in orders.tail(0):  # wrong
        print(one)
    await services.all(Orders.find)("7")  # wrong
    print((await services.all(Orders.find)(7)).values[ch.me].notes)  # wrong
    services.serve(order)  # wrong
    services.any(Order)  # wrong
    services.at("A", Orders)  # wrong
    raise NoSuchOrder("7")  # wrong


def threads(ch: jg.JChannel) -> None:
    services = Services(ch)
    orders = services.any(OrdersOfThreads)
    print(orders.find(7).note, [one.id for one in orders.tail(0)])
    print(services.all(OrdersOfThreads.find)(7).complete)
    orders.find(7, "deep")  # wrong
    services.all(OrdersOfThreads.find)()  # wrong
    AsyncServices(ch)  # wrong


class Wrong(Service, name="wrong"):
    @method(raises=(KeyError,))  # wrong
    def one(self) -> None: ...

    @method(idempotent="yes")  # wrong
    def two(self) -> None: ...
'''


@pytest.mark.real
def test_mypy_sees_arguments_results_and_faults_of_calls(tmp_path):
    check_wrong_lines(PROGRAM, tmp_path / "program.py")
