"""A box as it is shipped, in a process of its own over a fresh folder; two organizations; and pages on loopback.

`GLEANER_BINARY` names the binary; else it is what `cargo build` made in the checkout's target folder.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from gleaner import Gleaner

ROOT = Path(__file__).resolve().parents[3]
PASSWORD = "a long enough passphrase"
SCHEMA = (
    '{"schemas": [{"pageType": "product", "attributes": ['
    '{"name": "name", "type": "text", "xpaths": ["//h1"]}, {"name": "price", "type": "number", "xpaths": ["//b"]}]}]}'
)


def binary() -> Path:
    """The box's program."""
    named = os.environ.get("GLEANER_BINARY")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    found = [Path(named)] if named else [target / kind / "gleaner" for kind in ("release", "debug")]
    for path in found:
        if path.exists():
            return path
    pytest.exit("there is no binary: `cargo build -p gleaner`, or set GLEANER_BINARY", returncode=3)


class Web:
    """Pages on loopback: `/item/N` is a product, `/slow/N` one that waits until `release`, anything else is 404.
    A POST is taken as a webhook's message and kept."""

    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, str], bytes]] = []
        self.gate = threading.Event()
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def _say(self, status: int, kind: str, body: bytes) -> None:
                try:
                    self.send_response(status)
                    self.send_header("content-type", kind)
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # A job that was canceled, or a box that was killed, has hung up.

            def do_GET(self) -> None:
                parts = urlsplit(self.path).path.strip("/").split("/")
                if parts[0] == "slow":
                    web.gate.wait(60)
                if parts[0] in ("item", "slow") and len(parts) == 2:
                    size = int(parse_qs(urlsplit(self.path).query).get("size", ["0"])[0])
                    page = f"<html><h1>Item {parts[1]}</h1><b>{parts[1]}.5</b><p>{'x' * size}</p></html>"
                    self._say(200, "text/html; charset=utf-8", page.encode())
                else:
                    self._say(404, "text/plain", b"not here")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                web.messages.append((dict(self.headers.items()), body))
                self._say(200, "text/plain", b"thanks")

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def url(self, path: str) -> str:
        """The address of a page."""
        return f"http://127.0.0.1:{self.port}{path}"

    def items(self, count: int) -> list[str]:
        """The addresses of so many products."""
        return [self.url(f"/item/{number}") for number in range(1, count + 1)]

    def release(self) -> None:
        """Lets slow pages go."""
        self.gate.set()

    def close(self) -> None:
        """Ends it."""
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Box:
    """`gleaner serve` over a folder."""

    folder: Path
    web: Web
    process: subprocess.Popen[str] | None = None
    url: str = ""

    def start(self, listen: str = "127.0.0.1:0") -> None:
        """Starts it; returns when it says where it listens."""
        environment = os.environ | {
            "GLEANER_SERVER__LISTEN": listen,
            "GLEANER_STORAGE__DATA_DIR": str(self.folder / "data"),
            "GLEANER_STORAGE__RESERVE_MB": "0",
            "GLEANER_LOG__LEVEL": "error",
            "GLEANER_NETWORK__ALLOW": f'["127.0.0.1/32:{self.web.port}"]',
            "GLEANER_DISPATCH__PER_DOMAIN_CONCURRENCY": "16",
            "GLEANER_SERVER__SHUTDOWN_SEC": "5",
        }
        for name in ("GLEANER_URL", "GLEANER_API_KEY", "GLEANER_BINARY"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [binary(), "serve"], cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("Gleaner listens at "), line
        self.url = line.removeprefix("Gleaner listens at ").strip()

    def kill(self) -> None:
        """Ends it without a drain."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def admin(self, *arguments: str, given: str | None = None) -> str:
        """A command of the operator."""
        command = [str(binary()), "admin", "--socket", str(self.folder / "data/admin.sock"), *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def organization(self, name: str) -> str:
        """A person, verified, with an organization; its API key."""
        email = f"{name}@example.com"
        with Gleaner(self.url, "", timeout=120) as nobody:
            login = nobody.auth.register(email=email, password=PASSWORD, name=name)
        with Gleaner(self.url, login["accessToken"], timeout=120) as person:
            founded = person.orgs.create_org(name=f"{name} Ltd")
        self.admin("user", "verify", email)
        with Gleaner(self.url, founded["accessToken"], timeout=120) as owner:
            return owner.api_keys.create_api_key(name="tests")["secret"]


@pytest.fixture(scope="session")
def web() -> Iterator[Web]:
    """Pages for all tests."""
    opened = Web()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def box(tmp_path_factory: pytest.TempPathFactory, web: Web) -> Iterator[Box]:
    """A box for all tests that do not end it."""
    started = Box(tmp_path_factory.mktemp("box"), web)
    started.start()
    started.admin("schema", "import", "-", "--domain", "127.0.0.1", given=SCHEMA)
    yield started
    started.kill()


@pytest.fixture(scope="session")
def keys(box: Box) -> tuple[str, str]:
    """The keys of two organizations."""
    return box.organization("ada"), box.organization("eve")


@pytest.fixture
def client(box: Box, keys: tuple[str, str]) -> Iterator[Gleaner]:
    """Of the first organization. The machine may be slow, so the time is long."""
    with Gleaner(box.url, keys[0], timeout=120) as opened:
        yield opened


@pytest.fixture
def stranger(box: Box, keys: tuple[str, str]) -> Iterator[Gleaner]:
    """Of the other organization."""
    with Gleaner(box.url, keys[1], timeout=120) as opened:
        yield opened


@pytest.fixture
def crawled(client: Gleaner, web: Web) -> list[str]:
    """Twelve products, collected once for all tests; the ids of their jobs."""
    collection = client.collect(web.items(12), key="twelve", tags=["twelve"], name="twelve")
    assert collection.wait(300).succeeded == 12, collection.failed
    return list(collection.jobs)
