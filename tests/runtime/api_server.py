"""A server on the loopback interface that lists pods over HTTPS as the API server of Kubernetes does, or misbehaves."""
from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import re
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DRIP_SECONDS = 0.2
HUGE_BYTES = 64 << 20
DAY = datetime.timedelta(days=1)


def pod(*addresses: str, ready: bool = True, phase: str = "Running", labels: dict[str, str] | None = None,
        ending: bool = False, namespace: str = "chat") -> dict[str, Any]:
    """A pod as the API server shows it, with the parts that count here."""
    metadata: dict[str, Any] = {"namespace": namespace, "labels": labels or {}}
    if ending:
        metadata["deletionTimestamp"] = "2026-11-24T12:00:00Z"
    return {"metadata": metadata, "status": {
        "phase": phase, **({"podIP": addresses[0]} if addresses else {}),
        "podIPs": [{"ip": each} for each in addresses],
        "conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": str(ready)}]}}


class ApiServer:
    """`pods` may change while the server runs; `tokens` are accepted. `account` is a service account's folder.

    manner: "lists", a status (403), or bytes to answer in place of a list, or one of "redirects", "huge", "drips"
    (headers, a byte at a time), "drips body", "silent", "cut".
    """

    def __init__(self, folder: Path) -> None:
        self.pods: list[Any] = []
        self.tokens = ["first-token"]
        self.manner: str | int | bytes = "lists"
        self.asked: list[tuple[str, dict[str, str], str]] = []     # path, query, Authorization
        self.account = folder
        self.ends = threading.Event()
        (folder / "token").write_text(self.tokens[0])
        (folder / "namespace").write_text("chat\n")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Handler,), {"outer": self}))
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate(folder))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        """At 127.0.0.1."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.ends.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def listed(self, namespace: str, query: dict[str, str]) -> tuple[list[Any], str]:
        """The pods of one page, and where the next one begins."""
        wanted = dict(part.split("=") for part in query.get("labelSelector", "").split(",") if part)
        chosen = [each for each in self.pods if not isinstance(each, dict) or (
            not isinstance(each.get("metadata"), dict)) or (
            each["metadata"]["namespace"] == namespace and wanted.items() <= each["metadata"]["labels"].items())]
        first, limit = int(query.get("continue", 0)), int(query["limit"])
        return chosen[first:first + limit], str(first + limit) if len(chosen) > first + limit else ""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    outer: ApiServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def handle(self) -> None:
        with contextlib.suppress(OSError):       # a client that has heard enough
            super().handle()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        authorization = self.headers.get("Authorization", "")
        self.outer.asked.append((url.path, query, authorization))
        manner = self.outer.manner
        match = re.fullmatch("/api/v1/namespaces/([^/]+)/pods", url.path)
        if authorization not in [f"Bearer {token}" for token in self.outer.tokens]:
            self.answer(401, b'{"kind": "Status", "reason": "Unauthorized"}')
        elif match is None:
            self.answer(404, b"{}")
        elif isinstance(manner, int):
            self.answer(manner, json.dumps({"kind": "Status", "code": manner}).encode())
        elif isinstance(manner, bytes):
            self.answer(200, manner)
        elif manner == "lists":
            items, following = self.outer.listed(match[1], query)
            self.answer(200, json.dumps({"kind": "PodList", "metadata": {"continue": following},
                                         "items": items}).encode())
        else:
            self.misbehave(manner)

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def misbehave(self, manner: str) -> None:
        self.close_connection = True
        if manner == "redirects":
            self.answer(302, b"", Location=f"https://127.0.0.1:{self.outer.port}/elsewhere")
        elif manner == "huge":
            self.send_response(200)
            self.end_headers()
            for _ in range(HUGE_BYTES >> 20):
                self.wfile.write(b" " * (1 << 20))
        elif manner == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"items": []}')
        else:
            self.wfile.write({"drips": b"HTTP/1.1 200 OK\r\nX-Long: ", "silent": b"",
                              "drips body": b"HTTP/1.1 200 OK\r\n\r\n"}[manner])
            while not self.outer.ends.wait(DRIP_SECONDS):
                if manner != "silent":
                    self.wfile.write(b" ")


def certificate(folder: Path) -> Path:
    """A key with its certificate for 127.0.0.1, which is ca.crt too."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kube-apiserver")])
    now = datetime.datetime.now(datetime.UTC)
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - DAY).not_valid_after(now + DAY)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
            .sign(key, hashes.SHA256()))
    pem = made.public_bytes(serialization.Encoding.PEM)
    (folder / "ca.crt").write_bytes(pem)
    path = folder / "server.pem"
    path.write_bytes(pem + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                             serialization.NoEncryption()))
    return path
