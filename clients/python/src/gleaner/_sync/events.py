"""Events as they happen."""

# Made by generate.py; changes are lost. It is _async, blocking.

from __future__ import annotations

import time
import json
import random
import time
from collections.abc import Iterator, Callable, Sequence
from typing import Any, cast

from .. import errors, models
from .._http import Id
from .operations import Events
from .transport import Transport

_ADDRESS = "/api/v1/events"
_PAUSE_SEC, _PAUSE_SEC_MAX = 2.0, 30.0


class EventStream:
    """Events in their order, each once, also over interruptions: `for event in stream`.

    It goes on for good; `break`, or an error, ends it. `position` is the place behind which it goes on.
    """

    def __init__(
        self,
        transport: Transport,
        query: dict[str, Any],
        after: int | None,
        on_gap: Callable[[errors.EventGap], object] | None,
        reconnect_for: float,
    ) -> None:
        self._transport, self._query, self._on_gap, self._reconnect_for = transport, query, on_gap, reconnect_for
        #: The place of the last event that came; None before the box has said where the stream begins.
        self.position: int | None = after

    def __iter__(self) -> Iterator[models.EventView]:
        lost_since: float | None = None
        pause = _PAUSE_SEC
        while True:
            wait = pause
            try:
                with self._transport.stream(_ADDRESS, self._query, self.position) as connection:
                    for message in connection.messages():
                        # It is alive: the next interruption is a new one.
                        lost_since, pause = None, _PAUSE_SEC
                        wait = connection.retry_sec if connection.retry_sec is not None else pause
                        if message.kind == "stream.gap":
                            self._gap(json.loads(message.data))
                        elif message.kind == "stream.position":
                            self.position = int(json.loads(message.data)["seq"])
                        elif message.kind:
                            event = json.loads(message.data)
                            self.position = int(event["seq"])
                            yield cast(models.EventView, event)
                # The box has ended it: it stops, or the credential is not good any more. Coming back tells which.
                lost_since = lost_since or time.monotonic()
            except errors.ApiError as error:
                if not isinstance(error, (errors.RateLimited, errors.ServiceUnavailable)):
                    raise
                lost_since = self._still_hopeful(lost_since, error)
                wait = max(pause, error.retry_after or 0.0)
                pause = min(_PAUSE_SEC_MAX, pause * 2)
            except (errors.ConnectionFailed, errors.NoAnswer) as error:
                lost_since = self._still_hopeful(lost_since, error)
                pause = min(_PAUSE_SEC_MAX, pause * 2)
            time.sleep(wait * random.uniform(0.8, 1.2))

    def _still_hopeful(self, lost_since: float | None, error: errors.GleanerError) -> float:
        now = time.monotonic()
        lost_since = lost_since or now
        if now - lost_since >= self._reconnect_for:
            raise error
        return lost_since

    def _gap(self, said: dict[str, Any]) -> None:
        first, last = int(said["from"]), int(said["to"])
        gap = errors.EventGap(str(said.get("message", "events are missing")), first, last, int(said.get("missed", 0)))
        self.position = last
        if self._on_gap is None:
            raise gap
        self._on_gap(gap)


class EventsArea(Events):
    """What happens, as it happens, and as a list."""

    def stream(
        self,
        kind: str | Sequence[str] | None = None,
        *,
        tag: str | Sequence[str] | None = None,
        domain: str | None = None,
        subject: Id | None = None,
        after: int | None = None,
        on_gap: Callable[[errors.EventGap], object] | None = None,
        reconnect_for: float = 300.0,
    ) -> EventStream:
        """Events as they happen, from `after` on, or from now on.

        Where the connection breaks it comes back and goes on behind the last event, so none is missed and none comes
        twice.

        Args:
            kind: Such as `job.failed`, or `job.*` for every kind of that subject; one or several.
            tag: Only what has all of these tags.
            domain: Only what is of this registrable domain.
            subject: Only what happened to the thing with this id.
            after: The `seq` behind which to begin; 0 for the oldest event that is kept.
            on_gap: Is told of events that are not kept any more; without it they are raised as an `EventGap`.
            reconnect_for: Seconds after which it gives up coming back, and raises.
        """
        query = {"kind": _several(kind), "tag": _several(tag), "domain": domain, "subject": subject}
        return EventStream(self._transport, query, after, on_gap, reconnect_for)


def _several(value: str | Sequence[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())
