"""The client."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, cast
from uuid import uuid4

import httpx

from .. import _uploads, errors, models
from .._http import Id, Settings, encoded
from .events import AsyncEventsArea
from .jobs import AsyncCollection, AsyncJob
from .operations import Areas
from .sql import WAIT_MS, AsyncQuery, run
from .transport import AsyncTransport

# What one request takes: 1,000 jobs, and a body of 1 MiB, with room for the names around them.
_BATCH_JOBS_MAX = 1000
_BATCH_BYTES_MAX = 1_000_000


class AsyncGleaner(Areas):
    """A box, as one organization's key sees it.

    Every operation of the API is a method of its area: `client.urls.list_urls(tag=["shop"])`. What takes several of them
    stands here: `submit`, `collect`, `upload`, `sql`, `download_page`.

    Args:
        url: The address of the box; the environment's GLEANER_URL unless given.
        api_key: An API key (or an access token); the environment's GLEANER_API_KEY unless given.
        timeout: Seconds that a connection, or a pause within an answer, may take.
        retries: How often a request is sent again where that does no harm: reads, PUT and DELETE, what the box knows by a
            key of its own, and anything that was never sent or was refused with 429 and `Retry-After`.
        retry_for: Seconds that all pauses between the tries of one request may take; where the box asks for a longer one
            the error is raised at once.
        http: Connections of your own, for proxies and certificates; they are not closed with this client.
    """

    events: AsyncEventsArea

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 4,
        retry_for: float = 60.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self.settings = Settings.of(url, api_key, timeout, retries, retry_for)
        self.transport = AsyncTransport(self.settings, http)
        super().__init__(self.transport)
        self.events = AsyncEventsArea(self.transport)

    def __repr__(self) -> str:
        return f"<Gleaner {self.settings.url}>"

    async def __aenter__(self) -> AsyncGleaner:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self.transport.aclose()

    async def submit(
        self,
        url: str,
        *,
        tags: Sequence[str] | None = None,
        page_type: str | None = None,
        workflow_id: Id | None = None,
        priority: int | None = None,
        options: models.NewOptions | None = None,
        metadata: Mapping[str, Any] | None = None,
        external_id: str | None = None,
    ) -> AsyncJob:
        """Submits a job for one page. It is durable when this returns.

        It has an `external_id` (one is made unless given), so it can be sent again safely where the answer is lost.
        """
        body = {
            "url": url,
            "tags": tags,
            "pageType": page_type,
            "workflowId": workflow_id,
            "priority": priority,
            "options": options,
            "metadata": metadata,
            "externalId": external_id or f"python:{uuid4()}",
        }
        job: models.JobView = await self.transport.json("POST", "/api/v1/jobs", body=body, is_repeatable=True)
        return AsyncJob(self, job)

    async def job(self, id: Id) -> AsyncJob:
        """A job that was submitted before."""
        return AsyncJob(self, await self.jobs.get_job(id))

    async def collect(
        self,
        urls: Iterable[str | models.NewJob],
        *,
        name: str | None = None,
        key: str | None = None,
        tags: Sequence[str] | None = None,
        page_type: str | None = None,
        workflow_id: Id | None = None,
        priority: int | None = None,
        options: models.NewOptions | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AsyncCollection:
        """Submits a job for each page, however many, a thousand at a time; `wait` for them with what it gives.

        Where it breaks off half way (credits, a lost box) it raises a `CollectInterrupted` with what was submitted.

        Args:
            urls: Addresses, or jobs as `client.jobs.submit_jobs` takes them, whose own members go before those below.
            name: What people call the batch.
            key: A name for this run that is used once, such as `prices-2026-11-24`, of up to 80 characters: the same call
                with the same key gives the same jobs and costs nothing, so a program that was ended can be started again.
        """
        if key is not None and not 1 <= len(key) <= 80:
            raise ValueError("key: must have 1 to 80 characters")
        common = {
            "tags": None if tags is None else list(tags),
            "pageType": page_type,
            "workflowId": None if workflow_id is None else str(workflow_id),
            "priority": priority,
            "options": options,
            "metadata": None if metadata is None else dict(metadata),
        }
        prefix = key or f"python:{uuid4()}"
        collection = AsyncCollection(self)
        part: list[dict[str, Any]] = []
        size = 0
        for job in _jobs_of(urls, common, prefix):
            length = len(json.dumps(job, default=encoded, ensure_ascii=False).encode()) + 1
            if part and (len(part) == _BATCH_JOBS_MAX or size + length > _BATCH_BYTES_MAX):
                await self._submit_part(collection, part, name)
                part, size = [], 0
            part.append(job)
            size += length
        if part:
            await self._submit_part(collection, part, name)
        return collection

    async def _submit_part(self, collection: AsyncCollection, jobs: list[dict[str, Any]], name: str | None) -> None:
        body = {"name": name, "jobs": jobs}
        try:
            # Each job has an externalId, by which the box knows it again.
            answer = await self.transport.json("POST", "/api/v1/jobs/batch", body=body, is_repeatable=True)
        except errors.GleanerError as error:
            if len(collection) == 0:
                raise
            raise errors.CollectInterrupted(collection, error) from error
        collection.add(cast(models.SubmittedJobs, answer))

    async def upload(
        self,
        source: str | os.PathLike[str] | Iterable[str | models.UrlEntry],
        *,
        tags: Sequence[str] | None = None,
        page_type: str | None = None,
        workflow_id: Id | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
    ) -> models.Uploaded:
        """Registers URLs: a file of them, or whatever gives them one by one. Sending them again changes nothing.

        A file (CSV, NDJSON, a list; plain, gzip or zstd) goes as it is, piece by piece; the box takes 64 MiB. Anything else goes in parts
        of some thousand, so there may be any number; memory holds one part.

        Args:
            source: The path of a file, or URLs: texts, or objects as `client.urls.create_urls` takes them.
            tags: For each of the URLs, as `page_type` and `workflow_id`; not for a file, which has columns for them.
            content_type: Of a file, where its name does not tell: `text/csv` or `application/x-ndjson`.
            content_encoding: Of a file, where its name does not tell: `gzip` or `zstd`.
        """
        common = {"tags": tags, "pageType": page_type, "workflowId": workflow_id}
        if isinstance(source, (str, os.PathLike)):
            if any(it is not None for it in common.values()):
                raise ValueError("tags, page_type and workflow_id: a file has columns for them")
            if content_type is None:
                content_type, found = _uploads.media_of(source)
                content_encoding = content_encoding or found
            content = _uploads.reader(source)
            return await self.urls.upload_urls(content, content_type=content_type, content_encoding=content_encoding)
        total: models.Uploaded | None = None
        before = 0
        for lines, part in _uploads.parts(source, common):
            answer = await self.urls.upload_urls(part, content_type="application/x-ndjson")
            total = _uploads.merged(total, answer, before)
            before += lines
            if answer.get("nextLine") is not None:
                break  # The plan's room is filled.
        if total is None:
            raise ValueError("source: there is no URL in it")
        return total

    async def sql(
        self,
        statement: str,
        params: Sequence[Any] | None = None,
        *,
        timeout: float | None = None,
        agent_id: Id | None = None,
    ) -> AsyncQuery:
        """Runs one SELECT over the organization's tables, waits for its end, and gives its result.

        Raises `InvalidRequest` for what is no statement, and `QueryFailed` for one that ends without a result.

        Args:
            statement: PostgreSQL's SQL; the page `/docs/sql` on the box says what differs.
            params: The values of `$1`, `$2` …: texts, numbers, truth values or None.
            timeout: Seconds after which it is canceled and `WaitTimeout` raised; the box has a limit of its own.
            agent_id: Only what belongs to this agent.
        """
        body = {
            "sql": statement,
            "params": None if params is None else list(params),
            "waitMs": WAIT_MS if timeout is None else max(0, min(WAIT_MS, int(timeout * 1000))),
            "scopeKind": None if agent_id is None else "agent",
            "scopeAgentId": agent_id,
        }
        # It reads and nothing else: a second one does no harm.
        execution = await self.transport.json("POST", "/api/v1/bi/queries", body=body, is_repeatable=True)
        return await run(self, cast(models.ExecutionView, execution), timeout)

    async def run_saved(
        self, id: Id, params: Sequence[Any] | None = None, *, timeout: float | None = None, key: Id | None = None
    ) -> AsyncQuery:
        """Runs a saved query, waits for its end, and gives its result.

        Args:
            params: The values of its parameters.
            timeout: As of `sql`.
            key: A UUID; the same run under the same key is run once and answered from the first one.
        """
        execution = await self.bi.run_saved_query(id, params=params, wait_ms=WAIT_MS, idempotency_key=str(key or uuid4()))
        return await run(self, execution, timeout)

    async def download_page(self, result_id: Id, to: str | os.PathLike[str] | None = None) -> bytes | Path:
        """The page of a result as it was fetched: its bytes, or, with `to`, the path of the file that it was written to."""
        page = await self.extraction.get_result_html(result_id)
        address = self.transport.address_of(page["url"])
        return await (self.transport.file(address) if to is None else self.save(address, to))

    async def save(self, address: str, to: str | os.PathLike[str]) -> Path:
        """Writes a file of the box to `to`, which has its name when it is whole."""
        target = Path(to)
        part = target.with_name(f".{target.name}.{uuid4().hex[:8]}.part")
        try:
            with part.open("xb") as file:
                async for piece in self.transport.download(address):
                    file.write(piece)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return target


def _jobs_of(urls: Iterable[str | models.NewJob], common: Mapping[str, Any], prefix: str) -> Iterable[dict[str, Any]]:
    """Jobs with ids of their own: by what they are, and how often the same came before."""
    if isinstance(urls, (str, bytes)):
        raise TypeError("urls: one address is for `submit`; this takes several")
    seen: Counter[str] = Counter()
    for entry in urls:
        own = {"url": entry} if isinstance(entry, str) else dict(entry)
        job = {member: value for member, value in {**common, **own}.items() if value is not None}
        if "externalId" not in job:
            digest = hashlib.sha256(str(job.get("url") or job.get("urlId")).encode()).hexdigest()[:32]
            job["externalId"] = f"{prefix}:{digest}:{seen[digest]}"
            seen[digest] += 1
        yield job
