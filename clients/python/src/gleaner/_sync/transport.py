"""Requests and their answers: tries, errors, downloads that go on where they broke off, and streams."""

# Made by generate.py; changes are lost. It is _async, blocking.

from __future__ import annotations

import time
import json
import warnings
from collections.abc import Iterator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx

from .. import errors
from .._http import Answer, Body, Settings, Tries, headers_of, json_of, meta_of, query_of
from .._sse import Message, Parser

# Methods that may be sent again (RFC 9110, 9.2.2). PATCH and POST may not.
_REPEATABLE = {"GET", "HEAD", "PUT", "DELETE"}
# A stream that is silent for so long is dead: an idle one has a comment every 15 seconds.
_STREAM_SILENCE_SEC = 40.0
_ERROR_BYTES_MAX = 1 << 20


class Transport:
    """A way to one box, with one credential."""

    def __init__(self, settings: Settings, client: httpx.Client | None = None) -> None:
        self.settings = settings
        self._is_ours = client is None
        self._client = client or httpx.Client(follow_redirects=False)

    def close(self) -> None:
        """Closes the connections."""
        if self._is_ours:
            self._client.close()

    def json(
        self,
        method: str,
        address: str,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        content: Body | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        is_repeatable: bool = False,
    ) -> Any:
        """The JSON of the answer; None where it has none."""
        response = self._answer(
            method, address, query, headers, body, content, content_type, content_encoding, is_repeatable
        )
        told = meta_of(response)
        if told.ignored_fields:
            names = ", ".join(told.ignored_fields)
            warnings.warn(f"{method} {address}: the box ignored {names}", errors.IgnoredFieldsWarning, stacklevel=3)
        if not response.content:
            return None
        try:
            value = response.json()
        except ValueError:
            raise errors.NoAnswer(f"{method} {address}: the answer is no JSON; is {self.settings.url} a box?") from None
        if not isinstance(value, dict):
            return value
        answer = Answer(value)
        answer.meta = told
        return answer

    def file(self, address: str, *, query: Mapping[str, Any] | None = None) -> bytes:
        """A file, whole in memory."""
        pieces = [piece for piece in self.download(address, query=query)]
        return b"".join(pieces)

    def _answer(
        self,
        method: str,
        address: str,
        query: Mapping[str, Any] | None,
        headers: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        content: Body | None,
        content_type: str | None,
        content_encoding: str | None,
        is_repeatable: bool,
    ) -> httpx.Response:
        fixed = self.settings.headers() | headers_of(headers)
        if body is not None:
            content, content_type = json_of(body), "application/json"
        if content_type is not None:
            fixed["content-type"] = content_type
        if content_encoding is not None:
            fixed["content-encoding"] = content_encoding
        names = {name.lower() for name in fixed}
        # The second of two changes under one version is refused, and so would be the second try of one.
        is_safe = is_repeatable or (method in _REPEATABLE and "if-match" not in names) or "idempotency-key" in names
        # What gives its pieces once cannot be sent twice.
        is_replayable = content is None or isinstance(content, bytes) or callable(content)
        tries = Tries(self.settings, is_safe and is_replayable)
        what = f"{method} {address}"
        while True:
            try:
                response = self._client.request(
                    method,
                    self.settings.url + address,
                    params=query_of(query),
                    headers=fixed,
                    content=None if content is None else _sent(content),
                    timeout=self.settings.timeout,
                )
            except httpx.TransportError as error:
                pause = tries.after_failure(error) if is_replayable else None
                if pause is None:
                    raise failure(error, what, self.settings) from error
            else:
                if response.is_success:
                    return response
                if method == "DELETE" and response.status_code == 404 and tries.was_lost:
                    return httpx.Response(204, headers=response.headers)
                refused = error_of(response, what)
                pause = tries.after_answer(response.status_code, refused.retry_after) if is_replayable else None
                if pause is None:
                    raise refused
            time.sleep(pause)

    def download(self, address: str, *, query: Mapping[str, Any] | None = None) -> Iterator[bytes]:
        """A file in pieces. Where the connection breaks it goes on behind what has come, if the file is still the same."""
        tries = Tries(self.settings, is_safe=True)
        done, tag, what = 0, None, f"GET {address}"
        while True:
            headers = self.settings.headers() | {"accept": "*/*", "accept-encoding": "identity"}
            if done > 0 and tag is not None:
                headers |= {"range": f"bytes={done}-", "if-range": tag}
            try:
                with self._client.stream(
                    "GET",
                    self.settings.url + address,
                    params=query_of(query),
                    headers=headers,
                    timeout=self.settings.timeout,
                ) as response:
                    if not response.is_success:
                        response.read()
                        refused = error_of(response, what)
                        pause = tries.after_answer(response.status_code, refused.retry_after)
                        if pause is None:
                            raise refused
                    else:
                        if done > 0 and response.status_code != 206:
                            raise errors.NoAnswer(f"{what}: broke off after {done} bytes, and the file is another one now")
                        tag = response.headers.get("etag")
                        for piece in response.iter_bytes():
                            done += len(piece)
                            yield piece
                        return
            except httpx.TransportError as error:
                pause = tries.after_failure(error) if done == 0 or tag is not None else None
                if pause is None:
                    raise failure(error, what, self.settings) from error
            time.sleep(pause)

    @contextmanager
    def stream(
        self, address: str, query: Mapping[str, Any], last_event_id: int | None, silence: float | None = None
    ) -> Iterator[Connection]:
        """One connection of a stream of events; raises what the box refuses it for, and nothing is tried again."""
        headers = self.settings.headers() | {"accept": "text/event-stream", "accept-encoding": "identity"}
        if last_event_id is not None:
            headers["last-event-id"] = str(last_event_id)
        timeout = httpx.Timeout(self.settings.timeout, read=silence or _STREAM_SILENCE_SEC)
        what = f"GET {address}"
        try:
            with self._client.stream(
                "GET", self.settings.url + address, params=query_of(query), headers=headers, timeout=timeout
            ) as response:
                if not response.is_success:
                    response.read()
                    raise error_of(response, what)
                if not response.headers.get("content-type", "").startswith("text/event-stream"):
                    raise errors.NoAnswer(f"{what}: the answer is no stream")
                yield Connection(response)
        except httpx.TransportError as error:
            raise failure(error, what, self.settings) from error

    def address_of(self, link: str) -> str:
        """The address of a link that the box gave. It is asked for where the box is reached from here, which need not be
        where `server.public_url` says."""
        _, found, rest = link.partition("/api/v1/")
        if not found:
            raise errors.NoAnswer(f"{link} is no link of the box")
        parts = urlsplit("/api/v1/" + rest)
        return parts.path + (f"?{parts.query}" if parts.query else "")


class Connection:
    """What comes over a stream: messages, and comments as messages without a kind."""

    def __init__(self, response: httpx.Response) -> None:
        self._response, self._parser = response, Parser()

    @property
    def retry_sec(self) -> float | None:
        """After which pause to come back, as the box has said."""
        return None if self._parser.retry_ms is None else self._parser.retry_ms / 1000

    def messages(self) -> Iterator[Message]:
        """Until the box ends it."""
        for piece in self._response.iter_raw():
            for message in self._parser.feed(piece):
                yield message


def failure(error: httpx.TransportError, what: str, settings: Settings) -> errors.GleanerError:
    """The package's own error for a connection's."""
    reason = str(error) or type(error).__name__
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
        return errors.ConnectionFailed(f"{what}: {settings.url} cannot be reached: {reason}")
    return errors.NoAnswer(f"{what}: no answer of {settings.url}: {reason}")


def error_of(response: httpx.Response, what: str) -> errors.ApiError:
    """The error that an answer is; a proxy's may be no JSON."""
    try:
        body = json.loads(response.content[:_ERROR_BYTES_MAX])
    except ValueError:
        body = None
    return errors.of(response.status_code, body, response.headers, what)


def _sent(content: Body) -> bytes | Iterator[bytes]:
    if isinstance(content, bytes):
        return content
    return _pieces(content() if callable(content) else content)


def _pieces(content: Iterable[bytes]) -> Iterator[bytes]:
    for piece in content:
        yield piece
