"""A name server on the loopback interface: answers from a table over UDP, or not at all, or with nonsense."""
from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

POLL_SECONDS = 0.1
TTL = 1


class NameServer:
    """`records`: (name, type) -> texts of records; it may change while the server runs.

    manner: "answers", "silent", "nonsense", "fails" (SERVFAIL).
    """

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], list[str]] = {}
        self.manner = "answers"
        self.asked: list[tuple[str, str]] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(POLL_SECONDS)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def address(self) -> str:
        """Where it is asked."""
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self._ends.set()
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while not self._ends.is_set():
            with contextlib.suppress(TimeoutError):
                data, source = self._socket.recvfrom(4096)
                answer = self._answer(data)
                if answer:
                    self._socket.sendto(answer, source)

    def _answer(self, data: bytes) -> bytes:
        query = dns.message.from_wire(data)
        (question,) = query.question
        name, kind = str(question.name).rstrip("."), dns.rdatatype.to_text(question.rdtype)
        self.asked.append((name, kind))
        if self.manner == "silent":
            return b""
        if self.manner == "nonsense":
            return data[:2] + b"\xff" * 40
        response = dns.message.make_response(query)
        response.flags |= dns.flags.AA
        texts = self.records.get((name, kind), [])
        if self.manner == "fails":
            response.set_rcode(dns.rcode.SERVFAIL)
        elif texts:
            response.answer.append(dns.rrset.from_text(question.name, TTL, "IN", kind, *texts))
        elif not any(known == name for known, _ in self.records):
            response.set_rcode(dns.rcode.NXDOMAIN)
        return response.to_wire(max_size=65535)
