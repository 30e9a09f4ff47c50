"""Jobs that are waited for, one or many: told by events where there is a stream, and asked for where there is none."""

# Made by generate.py; changes are lost. It is _async, blocking.

from __future__ import annotations

import time
import json
import time
from collections.abc import Generator, Iterator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import errors, models
from .._progress import OnProgress, Progress
from .transport import Transport

if TYPE_CHECKING:
    from .client import Gleaner

ENDED = {"succeeded", "failed", "canceled"}
_ADDRESS = "/api/v1/events"
_KINDS = [f"job.{status}" for status in sorted(ENDED)]
# As many as one poll takes.
_POLLED_MAX = 500
_POLL_SEC, _POLL_SEC_MAX = 0.25, 2.0
# The first message of a stream comes at once; one that has not come by then is held back by a proxy. And a stream that was
# silent for so long is opened anew, with a poll.
_SILENCE_SEC = 5.0


class Job:
    """A job that was submitted."""

    def __init__(self, client: Gleaner, job: models.JobView) -> None:
        self._client = client
        #: The job as it was when it was last looked at.
        self.view = job

    @property
    def id(self) -> str:
        """The job's id."""
        return self.view["id"]

    @property
    def status(self) -> str:
        """Where it stood when it was last looked at."""
        return self.view["status"]

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.status} {self.view['url']}>"

    def refresh(self) -> models.JobView:
        """Looks at it again."""
        self.view = self._client.jobs.get_job(self.id)
        return self.view

    def wait(self, timeout: float | None = None, *, check: bool = False) -> models.JobView:
        """Waits until it has ended, however.

        Args:
            timeout: Seconds after which it raises `WaitTimeout`; without, it waits for as long as it takes.
            check: Raises `JobFailed` unless it has succeeded.
        """
        if self.status not in ENDED:
            ending = {self.id: models_polled(self.view)}
            for _ in follow(self._client.transport, self._client, ending, timeout, subject=self.id):
                pass
            self.refresh()
        if check and self.status != "succeeded":
            raise errors.JobFailed(self.view)
        return self.view

    def result(self, timeout: float | None = None) -> models.ResultView:
        """What was extracted; waits until the job has ended, and raises `JobFailed` where it has not succeeded."""
        job = self.wait(timeout, check=True)
        if job["resultId"] is None:
            raise errors.JobFailed(job)
        return self._client.extraction.get_result(job["resultId"])

    def cancel(self) -> models.JobView:
        """Cancels it."""
        self.view = self._client.jobs.cancel_job(self.id)
        return self.view


class Collection:
    """Jobs that were submitted together."""

    def __init__(self, client: Gleaner) -> None:
        self._client = client
        #: By their ids, in the order of the URLs.
        self.jobs: dict[str, models.PolledJob] = {}
        #: The URLs of the jobs by their ids.
        self.urls: dict[str, str] = {}
        #: The batches that they are in, as `client.jobs.get_batch` takes them.
        self.batch_ids: list[str] = []

    def __len__(self) -> int:
        return len(self.jobs)

    def __repr__(self) -> str:
        return f"<Collection {self.progress}>"

    def add(self, submitted: models.SubmittedJobs) -> None:
        """Counts jobs in."""
        if submitted["batchId"] is not None and submitted["batchId"] not in self.batch_ids:
            self.batch_ids.append(submitted["batchId"])
        for job in submitted["jobs"]:
            self.urls[job["id"]] = job["url"]
            self.jobs.setdefault(job["id"], {"id": job["id"], "status": "queued", "resultId": None, "error": None})

    @property
    def progress(self) -> Progress:
        """How far they were when they were last looked at."""
        statuses = [job["status"] for job in self.jobs.values()]
        return Progress(len(statuses), *(statuses.count(it) for it in ("succeeded", "failed", "canceled")))

    def wait(self, timeout: float | None = None, *, on_progress: OnProgress | None = None) -> Progress:
        """Waits until all have ended, however; what failed is told by the answer and by `failed`.

        Args:
            timeout: Seconds after which it raises `WaitTimeout`; without, it waits for as long as it takes.
            on_progress: Is called with how far they are, whenever that has changed.
        """
        told: Progress | None = None
        progress = self.progress
        if progress.pending:
            # Counted as they end: going through all of them at each end would take the square of their number.
            for job in follow(self._client.transport, self._client, self.jobs, timeout):
                progress = progress if job is None else _with_one_more(progress, job["status"])
                if on_progress is not None and progress != told:
                    told = progress
                    on_progress(progress)
        if on_progress is not None and progress != told:
            on_progress(progress)
        return progress

    @property
    def failed(self) -> list[models.PolledJob]:
        """Those that failed or were canceled, with their errors; of what was last looked at."""
        return [job for job in self.jobs.values() if job["status"] in ("failed", "canceled")]

    def results(self) -> Iterator[models.ResultView]:
        """What was extracted of those that have succeeded, in the order of the URLs."""
        for job in list(self.jobs.values()):
            if job["status"] == "succeeded" and job["resultId"] is not None:
                yield self._client.extraction.get_result(job["resultId"])

    def cancel(self) -> None:
        """Cancels the batches that have not ended; jobs end a little later."""
        for batch in self.batch_ids:
            try:
                self._client.jobs.cancel_batch(batch)
            except errors.Conflict:
                pass  # It has ended by itself.


def models_polled(job: models.JobView) -> models.PolledJob:
    """A job as a poll would tell of it."""
    return {"id": job["id"], "status": job["status"], "resultId": job["resultId"], "error": job["error"]}


def _with_one_more(progress: Progress, status: str) -> Progress:
    return replace(progress, **{status: getattr(progress, status) + 1})


def follow(
    transport: Transport,
    client: Gleaner,
    jobs: dict[str, models.PolledJob],
    timeout: float | None,
    subject: str | None = None,
) -> Iterator[models.PolledJob | None]:
    """Gives each of the jobs as it ends, and None whenever all of them were looked at; until all have ended.

    Events tell of each end at once; a poll, when the stream has begun, with its signs of life and after each interruption,
    sees that none was missed. Where there is no stream (too many, a proxy that holds it back) it is polls alone.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    pending = {identity for identity, job in jobs.items() if job["status"] not in ENDED}
    pause = _POLL_SEC
    is_streaming = True
    while True:
        has_begun = False
        if is_streaming and pending:
            try:
                with closing(_streamed(transport, subject, _left(deadline))) as all_news:
                    for news in all_news:
                        has_begun = True
                        if news is None:
                            for job in _polled(client, jobs, pending):
                                yield job
                        elif news["id"] in pending:
                            pending.discard(news["id"])
                            jobs[news["id"]] = news
                            yield news
                        if not pending or _left(deadline) == 0.0:
                            break
            except errors.AuthenticationFailed:
                raise
            except errors.GleanerError:
                # One that had begun broke off, or was silent: come back. One that never began is none.
                is_streaming = has_begun
        # The stream has ended, or there is none: ask.
        for job in _polled(client, jobs, pending):
            yield job
        if not pending:
            return
        left = _left(deadline)
        if left == 0.0:
            ended = len(jobs) - len(pending)
            raise errors.WaitTimeout(f"after {timeout:g} s {ended} of {len(jobs)} jobs have ended")
        pause = _POLL_SEC if has_begun else pause
        time.sleep(pause if left is None else min(pause, left))
        # Many are asked for more seldom: a poll of 10,000 jobs is 20 requests.
        pause = min(max(_POLL_SEC_MAX, len(pending) / 1000), pause * 1.5)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _streamed(
    transport: Transport, subject: str | None, left: float | None
) -> Generator[models.PolledJob | None, None]:
    """Jobs as events tell that they have ended; None when the stream has begun, and with each sign of life."""
    query: dict[str, Any] = {"kind": _KINDS, "subject": subject}
    silence = _SILENCE_SEC if left is None else min(_SILENCE_SEC, left + 0.05)
    with transport.stream(_ADDRESS, query, None, silence) as connection:
        for message in connection.messages():
            if not message.kind or message.kind.startswith("stream."):
                yield None
                continue
            event = json.loads(message.data)
            data = event.get("data") or {}
            yield {
                "id": event["subject"]["id"],
                "status": event["kind"].removeprefix("job."),
                "resultId": data.get("resultId"),
                "error": data.get("error"),
            }


def _polled(
    client: Gleaner, jobs: dict[str, models.PolledJob], pending: set[str]
) -> Iterator[models.PolledJob | None]:
    """Looks at all that are pending, and gives those that have ended; then None."""
    for part in parts_of([identity for identity in jobs if identity in pending], _POLLED_MAX):
        polled = client.jobs.poll_jobs(ids=part)
        for job in polled["items"]:
            jobs[job["id"]] = job
            if job["status"] in ENDED:
                pending.discard(job["id"])
                yield job
        for identity in polled["missing"]:
            # Removed since, by its retention: nobody can say any more how it ended.
            pending.discard(identity)
            jobs[identity] = {"id": identity, "status": "canceled", "resultId": None, "error": "the job is gone"}
            yield jobs[identity]
    yield None


def parts_of(ids: Sequence[str], size: int) -> Iterable[list[str]]:
    """In their order, `size` at a time."""
    return (list(ids[at : at + size]) for at in range(0, len(ids), size))
