"""What can go wrong, as exceptions; all of them are a `GleanerError`.

- `ApiError` and its subclasses: the box answered, and refused. `code` is stable, `docs_url` a page about it.
- `ConnectionFailed`, `NoAnswer`: the box did not answer. After `ConnectionFailed` nothing was sent; after `NoAnswer` it may
  have taken the request.
- `JobFailed`, `QueryFailed`, `ExportFailed`: what was asked for was done, and failed. `WaitTimeout`: it was not done in time.
- `EventGap`: events are not kept any more. `WebhookRejected`: a message is not signed as it should be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from ._codes import TITLES

if TYPE_CHECKING:
    from . import models

_CODES = {title: code for code, title in TITLES.items()}
# A 401 has no code; its sentence is one of several.
_UNAUTHORIZED = "auth_invalid"
_FIELD = re.compile(r"([A-Za-z_][\w-]*(?:\[\d+\]|\.[\w-]+)*): (.+)", re.DOTALL)


class GleanerError(Exception):
    """Every error of this package."""


class IgnoredFieldsWarning(UserWarning):
    """The box does not know a parameter or a member that it was sent, and ignored it."""


class ConnectionFailed(GleanerError):
    """No connection to the box came about, so nothing was sent."""


class NoAnswer(GleanerError):
    """The connection broke or the time was over before the answer was there: the box may have taken the request."""


class WaitTimeout(GleanerError, TimeoutError):
    """What was waited for did not end in time. It goes on in the box."""


class CollectInterrupted(GleanerError):
    """Some jobs of a collection were submitted, and then it broke off: `collection` has those that were, and the error that
    ended it is its cause."""

    def __init__(self, collection: Any, cause: GleanerError) -> None:
        super().__init__(f"after {len(collection)} jobs: {cause}")
        self.collection = collection


class EventGap(GleanerError):
    """Events `first` to `last` are not kept any more, or the log ends before: read what you follow anew, and go on `after=last`."""

    def __init__(self, message: str, first: int, last: int, missed: int) -> None:
        super().__init__(message)
        self.first, self.last, self.missed = first, last, missed


class WebhookRejected(GleanerError):
    """A message is not the box's, was changed on the way, or is too old."""


class JobFailed(GleanerError):
    """A job has ended without what it was for; `job` says more."""

    def __init__(self, job: models.JobView) -> None:
        super().__init__(f"job {job['id']} for {job['url']} {job['status']}: {job['error'] or 'no reason given'}")
        self.job = job


class QueryFailed(GleanerError):
    """A statement has ended without a result."""

    def __init__(self, job_id: str, code: str, message: str, is_retriable: bool) -> None:
        super().__init__(f"{code}: {message}")
        #: The statement's id, as `client.bi.get_bi_query` takes it.
        self.job_id = job_id
        #: Stable and machine-readable: `statement_timeout`, `canceled`, `transient` and so on.
        self.code = code
        self.message = message
        #: Whether the same statement may succeed when it is sent again.
        self.is_retriable = is_retriable


class ExportFailed(GleanerError):
    """There is no file of a result."""

    def __init__(self, export: models.ExportView) -> None:
        super().__init__(str(export.get("error", {}).get("message") or f"the export {export['status']}"))
        self.export = export


class ApiError(GleanerError):
    """The box refused a request."""

    def __init__(self, status: int, body: Any, headers: Mapping[str, str], request: str) -> None:
        told = body.get("error") if isinstance(body, dict) else None
        inner = told if isinstance(told, dict) else {}
        title = told if isinstance(told, str) else ""
        #: The status of the answer.
        self.status = status
        #: Stable and machine-readable: `invalid_input`, `not_found` and so on; empty where the box named none.
        self.code: str = str(inner.get("code") or _CODES.get(title) or (_UNAUTHORIZED if status == 401 and title else ""))
        #: A short sentence, the same for every error of this code.
        self.title: str = title or TITLES.get(self.code, "")
        message = inner.get("message") or (body.get("message") if isinstance(body, dict) else None)
        #: What was wrong.
        self.message: str = str(message or self.title or f"HTTP {status}")
        found = _FIELD.fullmatch(self.message) if status in (400, 422) else None
        #: Which parameter or member was wrong (`jobs[1].url`); None where the error is not about one.
        self.field: str | None = found[1] if found else None
        #: Why, without the field.
        self.reason: str = found[2] if found else self.message
        #: The id under which the box's log has the request.
        self.request_id: str | None = inner.get("request_id") or headers.get("x-request-id")
        #: A page about the code, on the box itself.
        self.docs_url: str | None = inner.get("docs_url")
        #: Seconds after which to come again, where the box said so.
        self.retry_after: float | None = seconds_of(headers.get("retry-after"))
        #: All that the answer said.
        self.body: Any = body
        hint = f" [{self.code or status}, request {self.request_id}]" if self.request_id else f" [{self.code or status}]"
        super().__init__(f"{request}: {self.message}{hint}")


class InvalidRequest(ApiError):
    """400, 413, 415, 416: the request is wrong; `field` and `reason` say where and why."""


class AuthenticationFailed(ApiError):
    """401: there is no credential, or it is not good (any more)."""


class PaymentRequired(ApiError):
    """402: the plan or its credits do not cover it."""

    @property
    def plan(self) -> str | None:
        """The organization's plan."""
        plan = self._told("plan")
        return None if plan is None else str(plan)

    @property
    def remaining_credits(self) -> int | None:
        """How many credits are left."""
        credits = self._told("remainingCredits")
        return None if credits is None else int(credits)

    def _told(self, name: str) -> Any:
        return self.body.get(name) if isinstance(self.body, dict) else None


class PermissionDenied(ApiError):
    """403: the caller may not do that."""


class NotFound(ApiError):
    """404: there is no such thing, or it is not this organization's."""


class Conflict(ApiError):
    """409, 410: it is not in a state for that."""


class PreconditionFailed(ApiError):
    """412: it was changed since the version that `if_match` names."""


class RateLimited(ApiError):
    """429: too many at once; `retry_after` says when to come again."""


class ServerError(ApiError):
    """500 and up: the box, or a proxy before it, cannot do it."""


class ServiceUnavailable(ServerError):
    """502, 503, 504: not at the moment."""


_CLASSES: dict[int, type[ApiError]] = {
    400: InvalidRequest,
    401: AuthenticationFailed,
    402: PaymentRequired,
    403: PermissionDenied,
    404: NotFound,
    409: Conflict,
    410: Conflict,
    412: PreconditionFailed,
    413: InvalidRequest,
    415: InvalidRequest,
    416: InvalidRequest,
    429: RateLimited,
    502: ServiceUnavailable,
    503: ServiceUnavailable,
    504: ServiceUnavailable,
}


def of(status: int, body: Any, headers: Mapping[str, str], request: str) -> ApiError:
    """The error that an answer is."""
    other = ServerError if status >= 500 else ApiError
    return _CLASSES.get(status, other)(status, body, headers, request)


def seconds_of(retry_after: str | None) -> float | None:
    """How long a `Retry-After` means, from now on; it is a number or a date."""
    if retry_after is None:
        return None
    if re.fullmatch(r"\d{1,9}", retry_after.strip()):
        return float(retry_after)
    try:
        until = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    until = until if until.tzinfo else until.replace(tzinfo=timezone.utc)
    return max(0.0, (until - datetime.now(timezone.utc)).total_seconds())
