"""Tries, errors and streams against a server that does what a network and a busy box do: it cuts, refuses and stalls."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import format_datetime
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

import gleaner
from gleaner import AsyncGleaner, Gleaner, errors
from gleaner._sse import Parser


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[Asked, socket.socket], None]


def say(status: int, body: Any = None, **headers: str) -> Answer:
    """An answer of JSON."""

    def answer(_: Asked, connection: socket.socket) -> None:
        text = b"" if body is None else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} Said", "content-type: application/json", f"content-length: {len(text)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + text)

    return answer


def cut(_: Asked, connection: socket.socket) -> None:
    """The request is taken, and the connection ends."""
    connection.shutdown(socket.SHUT_RDWR)


def send(text: bytes) -> Answer:
    """These bytes, and the connection ends."""

    def answer(_: Asked, connection: socket.socket) -> None:
        connection.sendall(text)
        # The end comes after the bytes; what is shut down for reading as well may be reset, and the bytes lost.
        connection.shutdown(socket.SHUT_WR)
        # The client may not have seen the end yet and ask on this connection again: that is no request, and takes no answer.
        while connection.recv(4096):
            pass

    return answer


@dataclass
class Road:
    """A server that answers each request as the next of `answers` says; the last one goes on."""

    answers: list[Answer] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            try:
                while line := lines.readline():
                    method, path, _ = line.decode().split(" ")
                    headers: dict[str, str] = {}
                    while (line := lines.readline()) not in (b"\r\n", b""):
                        name, _, value = line.decode().partition(":")
                        headers[name.lower()] = value.strip()
                    asked = Asked(method, path, headers, self._body(lines, headers))
                    self.asked.append(asked)
                    answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                    answer(asked, connection)
            except (OSError, ValueError):
                return

    def _body(self, lines: Any, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(lines.readline(), 16):
                body += lines.read(size)
                lines.readline()
            lines.readline()
            return body
        return bytes(lines.read(int(headers.get("content-length", 0))))

    def close(self) -> None:
        """Nothing listens any more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def road() -> Iterator[Road]:
    """For one test."""
    opened = Road()
    yield opened
    opened.close()


@pytest.fixture
def client(road: Road) -> Iterator[Gleaner]:
    """Of that server. The machine may be slow, so the times are long."""
    with Gleaner(road.url, "glk_key", timeout=60, retries=3, retry_for=120) as opened:
        yield opened


JOB: dict[str, Any] = {"id": "1", "status": "queued", "url": "https://example.com/", "resultId": None, "error": None}
PAGE: dict[str, Any] = {"items": [], "nextCursor": None}
REFUSED = {"error": {"code": "rate_limited", "message": "too many", "docs_url": "http://box/docs", "request_id": "r"}}


def test_a_read_is_sent_again_when_the_connection_breaks(road: Road, client: Gleaner) -> None:
    road.answers = [cut, send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"), say(503), say(200, PAGE)]
    assert client.jobs.list_jobs() == PAGE
    assert [it.method for it in road.asked] == ["GET"] * 4
    assert road.asked[0].headers["authorization"] == "Bearer glk_key"


def test_tries_are_bounded(road: Road, client: Gleaner) -> None:
    road.answers = [cut]
    with pytest.raises(gleaner.NoAnswer):
        client.jobs.list_jobs()
    assert len(road.asked) == 4


def test_a_post_that_may_have_been_taken_is_not_sent_again(road: Road, client: Gleaner) -> None:
    road.answers = [cut]
    with pytest.raises(gleaner.NoAnswer):
        client.bi.create_saved_query(name="a", sql="select 1")
    with pytest.raises(gleaner.NoAnswer):
        client.urls.update_url("1", tags=["a"])
    with pytest.raises(gleaner.NoAnswer):
        client.jobs.submit_job(url="https://example.com/")
    with pytest.raises(gleaner.NoAnswer):
        client.workflows.update_workflow("1", dag={"nodes": [], "edges": []}, if_match='"a"')
    road.answers = [say(503, REFUSED, retry_after="0")]
    with pytest.raises(errors.ServiceUnavailable):
        client.bi.create_saved_query(name="a", sql="select 1")
    assert len(road.asked) == 5


def test_a_post_that_the_box_knows_again_is_sent_again(road: Road, client: Gleaner) -> None:
    road.answers = [cut, say(200, JOB)]
    assert client.submit("https://example.com/").id == "1"
    first, second = (json.loads(it.body) for it in road.asked)
    assert first == second and first["externalId"].startswith("python:")
    road.answers = [cut, say(201, {"batchId": "b", "jobs": [{"id": "1", "url": "https://example.com/"}]})]
    assert len(client.collect(["https://example.com/"])) == 1
    road.asked.clear()
    road.answers = [cut, say(200, {"jobId": "1", "status": "queued"})]
    client.bi.run_saved_query("1", idempotency_key="01926c3e-0000-7000-8000-000000000001")
    assert road.asked[0].headers["idempotency-key"] == road.asked[1].headers["idempotency-key"]
    # Without a key nobody knows whether it ran.
    road.answers = [cut]
    with pytest.raises(gleaner.NoAnswer):
        client.bi.run_saved_query("1")


def test_a_post_that_was_never_sent_is_sent_again(road: Road) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    threading.Timer(0.4, lambda: serve_later(port)).start()
    with Gleaner(f"http://127.0.0.1:{port}", "k", retries=6) as client:
        assert client.bi.create_saved_query(name="a", sql="select 1")["name"] == "late"
    with Gleaner("http://127.0.0.1:1", "k", retries=1) as nobody, pytest.raises(gleaner.ConnectionFailed):
        nobody.jobs.list_jobs()


def serve_later(port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    connection, _ = listener.accept()
    connection.recv(65536)
    say(201, {"name": "late"})(Asked("", "", {}, b""), connection)
    connection.close()
    listener.close()


def test_retry_after_is_honoured_and_bounded(road: Road, client: Gleaner) -> None:
    road.answers = [say(429, REFUSED, retry_after="1"), say(201, JOB)]
    begun = time.monotonic()
    client.jobs.submit_job(url="https://example.com/")
    assert time.monotonic() - begun >= 1.0 and len(road.asked) == 2
    # Longer than it may take: at once an error that says how long.
    road.answers = [say(429, REFUSED, retry_after="3600")]
    begun = time.monotonic()
    with pytest.raises(errors.RateLimited) as limited:
        client.jobs.list_jobs()
    assert limited.value.retry_after == 3600 and limited.value.code == "rate_limited"
    assert len(road.asked) == 3 and limited.value.request_id == "r"
    # A 429 without it (a day's quota) is not for trying again what changes something.
    road.answers = [say(429, REFUSED)]
    with pytest.raises(errors.RateLimited):
        client.jobs.submit_job(url="https://example.com/")
    assert len(road.asked) == 4


def test_retry_after_may_be_a_date() -> None:
    later = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=90), usegmt=True)
    seconds = errors.seconds_of(later)
    assert seconds is not None and 80 < seconds <= 90
    assert errors.seconds_of("Mon, 01 Jan 2001 00:00:00 GMT") == 0.0
    assert errors.seconds_of("soon") is None and errors.seconds_of(None) is None and errors.seconds_of("-3") is None


def test_a_deletion_whose_answer_was_lost_is_done(road: Road, client: Gleaner) -> None:
    road.answers = [cut, say(404, {"error": "URL not found"})]
    client.urls.delete_url("1")
    road.answers = [say(404, {"error": "URL not found"})]
    with pytest.raises(errors.NotFound) as missing:
        client.urls.delete_url("1")
    assert missing.value.title == "URL not found"


def test_a_time_limit_ends_a_request(road: Road) -> None:
    road.answers = [lambda *_: time.sleep(3)]
    with Gleaner(road.url, "k", timeout=0.3, retries=0) as client, pytest.raises(gleaner.NoAnswer, match="ReadTimeout|timed out"):
        client.jobs.list_jobs()


def test_answers_of_others_are_errors_and_no_crash(road: Road, client: Gleaner) -> None:
    road.answers = [send(b"HTTP/1.1 502 Bad\r\ncontent-type: text/html\r\ncontent-length: 9\r\n\r\n<h1>no</h")]
    with pytest.raises(errors.ServiceUnavailable) as proxy:
        client.jobs.submit_job(url="https://example.com/")
    assert proxy.value.message == "HTTP 502" and proxy.value.code == ""
    road.answers = [send(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\n<h1>")]
    with pytest.raises(gleaner.NoAnswer, match="no JSON"):
        client.jobs.list_jobs()
    road.answers = [send(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/steal\r\ncontent-length: 0\r\n\r\n")]
    with pytest.raises(errors.ApiError) as redirect:
        client.jobs.list_jobs()
    assert redirect.value.status == 302, "a redirect is not followed, so the key goes nowhere else"
    bodies: list[Any] = [[], "text", {"error": None}, {"error": {"code": 3}}, {"error": []}]
    for body in bodies:
        road.answers = [say(400, body)]
        with pytest.raises(errors.InvalidRequest):
            client.jobs.list_jobs()


def test_a_402_says_what_is_left(road: Road, client: Gleaner) -> None:
    road.answers = [say(402, {"error": "QUOTA_EXCEEDED", "plan": "starter", "remainingCredits": 7, "isTrialExpired": False})]
    with pytest.raises(gleaner.PaymentRequired) as empty:
        client.jobs.submit_job(url="https://example.com/")
    assert (empty.value.plan, empty.value.remaining_credits) == ("starter", 7)


def test_a_collection_that_breaks_off_says_what_was_submitted(road: Road, client: Gleaner) -> None:
    submitted = {"batchId": "b", "jobs": [{"id": str(n), "url": f"https://example.com/{n}"} for n in range(1000)]}
    road.answers = [say(201, submitted), say(402, {"error": "QUOTA_EXCEEDED"})]
    with pytest.raises(gleaner.CollectInterrupted) as broken:
        client.collect(f"https://example.com/{n}" for n in range(1500))
    assert len(broken.value.collection) == 1000 and isinstance(broken.value.__cause__, gleaner.PaymentRequired)
    assert len(json.loads(road.asked[0].body)["jobs"]) == 1000


def test_batches_stay_below_what_a_body_may_have(road: Road, client: Gleaner) -> None:
    def answer(asked: Asked, connection: socket.socket) -> None:
        jobs = json.loads(asked.body)["jobs"]
        say(201, {"batchId": "b", "jobs": [{"id": it["externalId"], "url": it["url"]} for it in jobs]})(asked, connection)

    road.answers = [answer]
    collection = client.collect((f"https://example.com/{n}?{'x' * 1500}" for n in range(1300)), metadata={"k": "ü" * 500})
    assert len(collection) == 1300 and all(len(it.body) < 1 << 20 for it in road.asked) and len(road.asked) > 2


def test_a_download_goes_on_where_it_broke_off(road: Road, client: Gleaner) -> None:
    def head(status: int, length: int, tag: str = '"a"') -> bytes:
        return f"HTTP/1.1 {status} OK\r\netag: {tag}\r\ncontent-length: {length}\r\n\r\n".encode()

    road.answers = [send(head(200, 10) + b"0123"), send(head(206, 6) + b"456"), send(head(206, 3) + b"789")]
    assert client.bi.download_bi_export("1") == b"0123456789"
    assert [it.headers.get("range") for it in road.asked] == [None, "bytes=4-", "bytes=7-"]
    assert road.asked[1].headers["if-range"] == '"a"'
    road.answers = [send(head(200, 10) + b"0123"), send(head(200, 10, '"b"') + b"abcdefghij")]
    with pytest.raises(gleaner.NoAnswer, match="another one"):
        client.bi.download_bi_export("1")


def test_an_upload_is_sent_again_where_its_bytes_are_to_be_had_again(road: Road, client: Gleaner) -> None:
    told = {"created": 1, "updated": 0, "duplicates": 0, "lines": 1, "invalidTotal": 0, "invalid": [], "nextLine": None,
            "ignoredMembers": [], "notes": []}
    road.answers = [cut, say(200, told)]
    client.urls.upload_urls(lambda: iter([b"url\n", b"https://example.com/\n"]), content_type="text/csv")
    assert [it.body for it in road.asked] == [b"url\nhttps://example.com/\n"] * 2
    assert road.asked[0].headers["transfer-encoding"] == "chunked"
    road.answers = [cut]
    with pytest.raises(gleaner.NoAnswer):
        client.urls.upload_urls(iter([b"url\n"]), content_type="text/csv")
    assert len(road.asked) == 3


def event(seq: int) -> bytes:
    data = json.dumps({"seq": seq, "kind": "job.failed", "subject": {"type": "job", "id": str(seq)}, "data": {}})
    return f"id: {seq}\nevent: job.failed\ndata: {data}\n\n".encode()


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\nretry: 1\n"
POSITION = b'event: stream.position\ndata: {"seq": 4}\nid: 4\n\n'


def test_a_stream_goes_on_behind_the_last_event(road: Road, client: Gleaner) -> None:
    road.answers = [
        send(STREAM + POSITION + event(5) + event(6)[:20]),
        say(429, REFUSED, retry_after="0"),
        send(STREAM + event(6) + b": still here\n\n" + event(7)),
    ]
    seen = []
    for it in client.events.stream("job.failed"):
        seen.append(it["seq"])
        if len(seen) == 3:
            break
    assert seen == [5, 6, 7]
    assert [it.headers.get("last-event-id") for it in road.asked] == [None, "5", "5"]
    assert all(it.path == "/api/v1/events?kind=job.failed" for it in road.asked)


def test_a_gap_is_raised_or_told(road: Road, client: Gleaner) -> None:
    gap = b'event: stream.gap\ndata: {"from": 1, "to": 9, "missed": 9, "message": "gone"}\n\n'
    road.answers = [send(STREAM + gap + event(10))]
    with pytest.raises(gleaner.EventGap) as missed:
        next(iter(client.events.stream(after=0)))
    assert (missed.value.first, missed.value.last, missed.value.missed) == (1, 9, 9)
    told: list[gleaner.EventGap] = []
    stream = client.events.stream(after=0, on_gap=told.append)
    assert next(iter(stream))["seq"] == 10 and len(told) == 1 and stream.position == 10


def test_a_stream_that_is_refused_ends_and_one_that_is_lost_gives_up(road: Road, client: Gleaner) -> None:
    road.answers = [say(401, {"error": "Invalid authentication token"})]
    with pytest.raises(errors.AuthenticationFailed) as refused:
        next(iter(client.events.stream()))
    assert refused.value.code == "auth_invalid"
    road.answers = [cut]
    with pytest.raises(gleaner.NoAnswer):
        next(iter(client.events.stream(reconnect_for=0)))


def polled(status: str) -> Answer:
    return say(200, {"items": [{"id": "1", "status": status, "resultId": None, "error": None}], "missing": []})


def test_a_wait_goes_on_where_the_stream_is_held_back(road: Road, client: Gleaner) -> None:
    def by_path(asked: Asked, connection: socket.socket) -> None:
        if asked.path.startswith("/api/v1/events"):
            connection.sendall(STREAM)
            time.sleep(8)
        elif asked.path == "/api/v1/jobs/poll":
            polled("running" if len([it for it in road.asked if it.path == asked.path]) < 3 else "succeeded")(asked, connection)
        else:
            say(200, {**JOB, "status": "succeeded"})(asked, connection)

    road.answers = [say(201, JOB), by_path]
    job = client.submit("https://example.com/")
    assert job.wait(60)["status"] == "succeeded"
    assert len([it for it in road.asked if it.path.startswith("/api/v1/events")]) == 1


def test_a_wait_ends_by_an_event_whatever_polls_say(road: Road, client: Gleaner) -> None:
    ended = {"seq": 5, "kind": "job.failed", "subject": {"type": "job", "id": "1"}, "data": {"error": "why"}}

    def by_path(asked: Asked, connection: socket.socket) -> None:
        if asked.path.startswith("/api/v1/events"):
            connection.sendall(STREAM + POSITION + b"id: 5\nevent: job.failed\ndata: " + json.dumps(ended).encode() + b"\n\n")
            time.sleep(5)
        elif asked.path == "/api/v1/jobs/poll":
            polled("running")(asked, connection)
        else:
            say(201, {"batchId": None, "jobs": [{"id": "1", "url": "https://example.com/"}]})(asked, connection)

    road.answers = [by_path]
    collection = client.collect(["https://example.com/"])
    assert collection.wait(30).failed == 1 and collection.failed[0]["error"] == "why"


def test_parts_of_a_path_stay_parts(road: Road, client: Gleaner) -> None:
    road.answers = [say(200, {})]
    client.extraction.get_schema("a/b?c", "ü d")
    client.jobs.list_jobs(tag=["a b", "c&d"], from_=datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))))
    client.jobs.get_job(UUID(int=7))
    assert [it.path for it in road.asked] == [
        "/api/v1/extraction/schemas/a%2Fb%3Fc/%C3%BC%20d",
        "/api/v1/jobs?tag=a+b&tag=c%26d&from=2026-01-02T02%3A00%3A00.000Z",
        "/api/v1/jobs/00000000-0000-0000-0000-000000000007",
    ]


def test_settings_come_from_the_environment_and_are_checked(monkeypatch: pytest.MonkeyPatch, road: Road) -> None:
    monkeypatch.setenv("GLEANER_URL", f"{road.url}/box/")
    monkeypatch.setenv("GLEANER_API_KEY", " glk_secret\n")
    road.answers = [say(200, PAGE)]
    with Gleaner() as client:
        client.jobs.list_jobs()
        assert "secret" not in repr(client) + repr(client.settings)
    assert road.asked[0].path == "/box/api/v1/jobs" and road.asked[0].headers["authorization"] == "Bearer glk_secret"
    monkeypatch.delenv("GLEANER_URL")
    wrong: list[dict[str, Any]] = [{}, {"url": "ftp://box"}, {"url": "box"}, {"url": road.url, "api_key": "a b"}]
    for arguments in [*wrong, {"url": road.url, "timeout": 0}, {"url": "http://me:secret@box"}]:
        with pytest.raises(ValueError):
            Gleaner(**arguments)


def test_lines_of_a_stream_end_in_line_feeds_and_carriage_returns_only() -> None:
    text = "event: a\r\ndata: one\u2028two\x85\r\ndata:three\r\rid: 7\n: c\n\ndata: last\n\n".encode()
    whole = Parser().feed(text)
    for size in (1, 2, 3, 7):
        parser = Parser()
        pieces = [it for at in range(0, len(text), size) for it in parser.feed(text[at : at + size])]
        assert pieces == whole
    assert [(it.kind, it.data, it.id) for it in whole] == [
        ("a", "one\u2028two\x85\nthree", None), ("", "", "7"), ("message", "last", "7")]


def test_the_async_client_tries_again_too(road: Road) -> None:
    async def work() -> None:
        async with AsyncGleaner(road.url, "k", timeout=60) as client:
            road.answers = [cut, say(429, REFUSED, retry_after="0"), say(200, PAGE)]
            assert await client.jobs.list_jobs() == PAGE
            road.answers = [cut]
            with pytest.raises(gleaner.NoAnswer):
                await client.bi.create_saved_query(name="a", sql="select 1")
            assert len(road.asked) == 4

    asyncio.run(work())
