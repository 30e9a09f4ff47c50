"""What both clients share and what waits for nothing: settings, addresses, bodies, and when to ask again."""

from __future__ import annotations

import json
import os
import platform
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from typing import Any, Union
from urllib.parse import quote, urlsplit
from uuid import UUID

import httpx

from ._version import __version__

#: An id, as a text or as what the standard library makes of one.
Id = Union[str, UUID]
#: A moment: a text as RFC 3339 has it, or a datetime with its time zone.
Time = Union[str, datetime]
#: The bytes of a file: whole, in pieces, or a function that gives the pieces anew each time it is called (so that the
#: request can be sent again).
Body = Union[bytes, Iterable[bytes], Callable[[], Iterable[bytes]]]


class Null:
    """A member that is sent as null, where leaving it out means something else."""


NULL = Null()

#: Errors with their code, beside JSON as it is.
ACCEPT = "application/json, application/vnd.service.v1+json"

_RETRY_FIRST_SEC = 0.25
_RETRY_SEC_MAX = 8.0
# A pool that is full, and a connection that did not come about: nothing was sent.
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


@dataclass(frozen=True)
class Settings:
    """Where the box is and how it is spoken to."""

    url: str
    api_key: str | None = field(repr=False)
    timeout: float
    retries: int
    retry_for: float

    @staticmethod
    def of(url: str | None, api_key: str | None, timeout: float, retries: int, retry_for: float) -> Settings:
        """Checked; what is not given is the environment's."""
        url = (url if url is not None else os.environ.get("GLEANER_URL", "")).strip().rstrip("/")
        if not url:
            raise ValueError("url: which box? Give its address, or set GLEANER_URL")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url: {url!r} is no http or https address")
        if parts.username or parts.query or parts.fragment:
            raise ValueError("url: the address of a box has no user, query or fragment")
        key = (api_key if api_key is not None else os.environ.get("GLEANER_API_KEY", "")).strip()
        if not key.isascii() or any(it <= " " for it in key):
            raise ValueError("api_key: has characters that no key has")
        if timeout <= 0:
            raise ValueError("timeout: must be more than 0 seconds")
        if retries < 0 or retry_for < 0:
            raise ValueError("retries and retry_for: must be 0 or more")
        return Settings(url, key or None, timeout, retries, retry_for)

    def headers(self) -> dict[str, str]:
        """Of every request."""
        agent = f"gleaner-client/{__version__} python/{platform.python_version()} httpx/{httpx.__version__}"
        fixed = {"accept": ACCEPT, "user-agent": agent}
        return fixed | ({"authorization": f"Bearer {self.api_key}"} if self.api_key else {})


@dataclass(frozen=True)
class Meta:
    """What an answer says beside its body."""

    status: int
    request_id: str | None
    #: What `if_match` takes.
    etag: str | None
    #: Parameters and members that the box does not know.
    ignored_fields: tuple[str, ...]


class Answer(dict[str, Any]):
    """A JSON object with what its answer said beside it."""

    meta: Meta


def meta(answer: Any) -> Meta:
    """What the box said beside the body of an answer that a method has given: its ETag, the request's id.

    Raises TypeError for anything else, such as a part of an answer.
    """
    if not isinstance(answer, Answer):
        raise TypeError("only a whole answer, as a method gives it, has a meta")
    return answer.meta


def meta_of(response: httpx.Response) -> Meta:
    """Read off the answer's headers."""
    headers = response.headers
    ignored = tuple(name.strip() for name in headers.get("x-ignored-fields", "").split(",") if name.strip())
    return Meta(response.status_code, headers.get("x-request-id"), headers.get("etag"), ignored)


def path(template: str, **parts: Any) -> str:
    """A template's address; its parts are whatever they are, and stay one part each."""
    for name, value in parts.items():
        text = text_of(value)
        if text in ("", ".", ".."):
            raise ValueError(f"{name}: must not be {text!r}")
        template = template.replace("{" + name + "}", quote(text, safe=""))
    return template


def query_of(query: Mapping[str, Any] | None) -> httpx.QueryParams | None:
    """Parameters as they go into an address: lists are given several times, None not at all."""
    pairs: list[tuple[str, str | int | float | bool | None]] = []
    for name, value in (query or {}).items():
        values = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
        pairs += [(name, text_of(it)) for it in values if it is not None]
    return httpx.QueryParams(pairs) if pairs else None


def headers_of(headers: Mapping[str, Any] | None) -> dict[str, str]:
    """Headers without those that are None."""
    return {name: text_of(value) for name, value in (headers or {}).items() if value is not None}


def text_of(value: Any) -> str:
    """A parameter as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (datetime, date, UUID)):
        return str(encoded(value))
    return str(value)


def json_of(body: Mapping[str, Any]) -> bytes:
    """A body; members that are None are left out, which means the same to the box."""
    kept = {name: value for name, value in body.items() if value is not None}
    return json.dumps(kept, default=encoded, allow_nan=False, ensure_ascii=False).encode()


def encoded(value: Any) -> Any:
    """What `json` asks about a value that it does not know."""
    if isinstance(value, Null):
        return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; use datetime.now(timezone.utc) or .astimezone()")
        return value.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")


class Tries:
    """Of one request: whether to send it again, and when.

    `is_safe`: sending it twice does no harm. Any other is sent again only where it was never sent, or where the box has
    refused it (429) and said when to come again.
    """

    def __init__(self, settings: Settings, is_safe: bool) -> None:
        self._left, self._seconds_left, self._is_safe = settings.retries, settings.retry_for, is_safe
        self._count = 0
        #: Whether an earlier try may have been taken without an answer.
        self.was_lost = False

    def after_failure(self, error: httpx.TransportError) -> float | None:
        """How long to wait before the next try; None: it is over."""
        was_sent = not isinstance(error, _NEVER_SENT)
        self.was_lost |= was_sent
        return self._next(None) if self._is_safe or not was_sent else None

    def after_answer(self, status: int, retry_after: float | None) -> float | None:
        """The same for an answer that is an error."""
        if status == 429 and (retry_after is not None or self._is_safe):
            return self._next(retry_after)
        if status in (408, 502, 503, 504) and self._is_safe:
            return self._next(retry_after)
        return None

    def _next(self, retry_after: float | None) -> float | None:
        if self._left == 0:
            return None
        pause: float = min(_RETRY_SEC_MAX, _RETRY_FIRST_SEC * 2.0**self._count) * random.uniform(0.75, 1.25)
        if retry_after is not None:
            # A little later than was asked for, so that not all who were refused come at the same moment.
            pause = retry_after + random.uniform(0.0, 0.25)
        if pause > self._seconds_left:
            return None
        self._left -= 1
        self._count += 1
        self._seconds_left -= pause
        return pause
