"""Clients of three stores, for one measurement: a session each, which all callers of the process share.

A place says where the store is: "CLUSTER MCAST_PORT EXPIRE" for this package, "HOST:PORT" for the others. etcd's client
speaks gRPC, as etcd's own do: its gateway for HTTP and JSON would add a hop. ZooKeeper's is kazoo, with its recipe for
locks, hence with threads; the others have coroutines, on an event loop that runs in a thread.
"""
from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, Protocol, TypeVar

import grpc
import grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from kazoo.client import KazooClient

from jgroups_py.aio import AsyncChannel
from jgroups_py.blocks.coordination import AsyncCoordination
from jgroups_py.blocks.replication import Options

Field = descriptor_pb2.FieldDescriptorProto
T = TypeVar("T")
START_S = 60.0


class Locks(Protocol):
    """A client."""

    def acquire(self, name: str) -> Callable[[], object]:
        """Wait for a lock; what releases it."""

    def pairs(self, clients: int, each: int) -> list[float]:
        """Seconds that each acquire and its release took, of so many concurrent callers with a lock each."""

    def close(self) -> None:
        """End the session."""


class CoroutineLocks:
    """What clients with coroutines share: an event loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    async def take(self, name: str) -> Any:
        """Wait for a lock; what `give` needs."""
        raise NotImplementedError

    async def give(self, taken: Any) -> None:
        """Release it."""
        raise NotImplementedError

    async def end(self) -> None:
        """End the session."""
        raise NotImplementedError

    def acquire(self, name: str) -> Callable[[], object]:
        """See Locks."""
        taken = self.run(self.take(name))
        return lambda: self.run(self.give(taken))

    def pairs(self, clients: int, each: int) -> list[float]:
        """See Locks."""
        took: list[float] = []

        async def client(number: int) -> None:
            for _ in range(each):
                began = perf_counter()
                await self.give(await self.take(f"lock {number}"))
                took.append(perf_counter() - began)

        async def all_clients() -> None:
            await asyncio.gather(*(client(number) for number in range(clients)))
        self.run(all_clients())
        return took

    def close(self) -> None:
        """See Locks."""
        self.run(self.end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class OurLocks(CoroutineLocks):
    """A member of the group without a copy of the store."""

    def __init__(self, place: str, ttl_s: float) -> None:
        super().__init__()
        self.cluster, mcast_port, expire = place.split()
        self.run(self.begin(mcast_port, expire, ttl_s))

    async def begin(self, mcast_port: str, expire: str, ttl_s: float) -> None:
        """Join the group."""
        self.channel = AsyncChannel("udp", name=f"client {os.getpid()}", properties={"mcast_port": mcast_port})
        self.co = AsyncCoordination(self.channel, ttl=ttl_s, expire=expire, options=Options(weight=0))
        await self.channel.connect(self.cluster)
        await self.co.wait_for_store(START_S)

    async def take(self, name: str) -> Any:
        """See CoroutineLocks."""
        return await self.co.lock(name).acquire()

    async def give(self, taken: Any) -> None:
        """See CoroutineLocks."""
        await taken.release()

    async def end(self) -> None:
        """See CoroutineLocks."""
        await self.channel.close()


class EtcdLocks(CoroutineLocks):
    """The Lock service of etcd (v3lockpb), with one lease."""

    def __init__(self, place: str, ttl_s: float) -> None:
        super().__init__()
        self.run(self.begin(place, int(ttl_s)))

    async def begin(self, place: str, ttl_s: int) -> None:
        """Get a lease."""
        self.channel = grpc.aio.insecure_channel(place)
        self.lock = self.method("/v3lockpb.Lock/Lock", "LockRequest", "LockResponse")
        self.unlock = self.method("/v3lockpb.Lock/Unlock", "UnlockRequest", "Nothing")
        self.revoke = self.method("/etcdserverpb.Lease/LeaseRevoke", "Lease", "Nothing")
        grant = self.method("/etcdserverpb.Lease/LeaseGrant", "LeaseRequest", "Lease2")
        self.lease = (await grant(ETCD["LeaseRequest"](ttl=ttl_s), timeout=START_S, wait_for_ready=True)).id
        self.renewing = asyncio.ensure_future(self.renew(ttl_s / 3))

    def method(self, path: str, request: str, response: str) -> Any:
        """What calls a method."""
        return self.channel.unary_unary(path, request_serializer=ETCD[request].SerializeToString,
                                        response_deserializer=ETCD[response].FromString)

    async def renew(self, pause_s: float) -> None:
        """Keep the lease."""
        async def beats() -> AsyncIterator[Any]:
            while True:
                yield ETCD["Lease"](id=self.lease)
                await asyncio.sleep(pause_s)
        call = self.channel.stream_stream("/etcdserverpb.Lease/LeaseKeepAlive",
                                          request_serializer=ETCD["Lease"].SerializeToString,
                                          response_deserializer=ETCD["Lease2"].FromString)
        async for _ in call(beats()):
            pass

    async def take(self, name: str) -> Any:
        """See CoroutineLocks."""
        return (await self.lock(ETCD["LockRequest"](name=name.encode(), lease=self.lease))).key

    async def give(self, taken: Any) -> None:
        """See CoroutineLocks."""
        await self.unlock(ETCD["UnlockRequest"](key=taken))

    async def end(self) -> None:
        """See CoroutineLocks."""
        self.renewing.cancel()
        await self.revoke(ETCD["Lease"](id=self.lease))
        await self.channel.close()


class ZooKeeperLocks:
    """kazoo's Lock: an ephemeral node in sequence, and a watch on the one before."""

    def __init__(self, place: str, ttl_s: float) -> None:
        self.client = KazooClient(place, timeout=ttl_s)
        self.client.start(START_S)

    def acquire(self, name: str) -> Callable[[], object]:
        """See Locks."""
        lock = self.client.Lock(f"/locks/{name}")
        lock.acquire()
        return lock.release

    def pairs(self, clients: int, each: int) -> list[float]:
        """See Locks."""
        took: list[float] = []

        def client(number: int) -> None:
            lock = self.client.Lock(f"/locks/lock {number}")
            for _ in range(each):
                began = perf_counter()
                lock.acquire()
                lock.release()
                took.append(perf_counter() - began)
        if clients == 1:
            client(0)
        else:
            with ThreadPoolExecutor(clients) as pool:
                list(pool.map(client, range(clients)))
        return took

    def close(self) -> None:
        """See Locks."""
        self.client.stop()
        self.client.close()


FIELDS = {
    "LeaseRequest": [("ttl", 1, "INT64"), ("id", 2, "INT64")],
    "Lease": [("id", 1, "INT64")],
    "Lease2": [("id", 2, "INT64"), ("ttl", 3, "INT64")],
    "LockRequest": [("name", 1, "BYTES"), ("lease", 2, "INT64")],
    "LockResponse": [("key", 2, "BYTES")],
    "UnlockRequest": [("key", 1, "BYTES")],
    "Nothing": [],
    "ResponseHeader": [("member_id", 2, "UINT64")],
    "Status": [("header", 1, "ResponseHeader"), ("leader", 4, "UINT64")],
}
"""The fields of etcd's messages that are needed here, from its rpc.proto and v3lock.proto (etcd 3.4)."""


def message_classes(fields: dict[str, list[tuple[str, int, str]]]) -> dict[str, Any]:
    """A class of protobuf for each message: name -> (field, number, type in capitals or the name of a message)."""
    file = descriptor_pb2.FileDescriptorProto(name="etcd_for_benchmark.proto", package="b", syntax="proto3")
    for name, parts in fields.items():
        message = file.message_type.add(name=name)
        for part, number, kind in parts:
            field = message.field.add(name=part, number=number, label=Field.LABEL_OPTIONAL)
            if kind in fields:
                field.type, field.type_name = Field.TYPE_MESSAGE, f".b.{kind}"
            else:
                field.type = Field.Type.Value(f"TYPE_{kind}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"b.{name}")) for name in fields}


ETCD = message_classes(FIELDS)
KINDS: dict[str, Callable[[str, float], Locks]] = {
    "jgroups_py": OurLocks, "etcd": EtcdLocks, "zookeeper": ZooKeeperLocks}
