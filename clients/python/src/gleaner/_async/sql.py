"""Statements of the SQL console and their results."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import errors, models
from .._http import path

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from .client import AsyncGleaner

# As many rows as a page may have.
_PAGE_ROWS_MAX = 1000
_POLL_SEC, _POLL_SEC_MAX = 0.1, 2.0
#: How long the box may wait for the end before it answers that a statement is running, in milliseconds; 10,000 at most.
WAIT_MS = 5000


class AsyncQuery:
    """A statement that has ended well, with its rows: `async for row in query`. They never change."""

    def __init__(self, client: AsyncGleaner, execution: models.ExecutionView, manifest: models.ManifestView) -> None:
        self._client = client
        #: The statement as the box tells of it.
        self.execution = execution
        #: How large the result is, how long it is kept, how old its rows may be.
        self.manifest = manifest

    @property
    def id(self) -> str:
        """The statement's id, as `client.bi` takes it."""
        return self.execution["jobId"]

    @property
    def row_count(self) -> int:
        """Rows of the whole result."""
        return self.manifest["rowCount"] or 0

    @property
    def is_truncated(self) -> bool:
        """Whether rows beyond the box's bounds were left out; there is no table or file of such a result."""
        return bool(self.manifest["truncated"])

    def __repr__(self) -> str:
        return f"<Query {self.id} {self.row_count} rows>"

    async def pages(self, page_size: int = _PAGE_ROWS_MAX) -> AsyncIterator[list[dict[str, Any]]]:
        """The rows, `page_size` (1,000 at most) at a time."""
        page = 0
        while True:
            answer = await self._client.bi.get_bi_results(self.id, page=page, page_size=page_size)
            if answer["rows"]:
                yield answer["rows"]
            if not answer["hasMore"]:
                return
            page += 1

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        async for page in self.pages():
            for row in page:
                yield row

    async def rows(self) -> list[dict[str, Any]]:
        """All rows, with values as JSON has them: `numeric` and times are texts. `to_arrow` has the types."""
        return [row async for row in self]

    async def scalar(self) -> Any:
        """The value of a result of one row and one column; ValueError for any other."""
        rows = await self.rows() if self.row_count == 1 else []
        if len(rows) != 1 or len(rows[0]) != 1:
            raise ValueError(f"the result has {self.row_count} rows, and a scalar is one row of one column")
        return next(iter(rows[0].values()))

    async def export(self, format: models.ExportFormat, timeout: float | None = 600.0) -> models.ExportView:
        """Has a file made of the result, and waits until it is there. It needs the permission `bi:write`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        export = (await self._client.bi.request_bi_export(self.id, format=format))["export"]
        pause = _POLL_SEC
        while export["status"] not in ("success", "failed"):
            if deadline is not None and time.monotonic() >= deadline:
                raise errors.WaitTimeout(f"after {timeout:g} s the export is {export['status']}")
            await asyncio.sleep(pause)
            pause = min(_POLL_SEC_MAX, pause * 1.5)
            export = (await self._client.bi.get_bi_export(export["id"]))["export"]
        if export["status"] != "success":
            raise errors.ExportFailed(export)
        return export

    async def download(self, to: str | os.PathLike[str], format: models.ExportFormat | None = None) -> Path:
        """The result as a file at `to`: `csv`, `jsonl`, `parquet`, `arrow` or `xlsx`, by its name unless `format` says.

        The file has its name when it is whole.
        """
        target = Path(to)
        suffix: Any = target.suffix.removeprefix(".").lower()
        export = await self.export(format or {"ndjson": "jsonl", "feather": "arrow"}.get(suffix, suffix))
        address = path("/api/v1/bi/exports/{id}/download", id=export["id"])
        return await self._client.save(address, target)

    async def to_arrow(self) -> pyarrow.Table:
        """The result as a table of Arrow, with the types of SQL. It needs `pip install gleaner-client[arrow]`."""
        ipc = _needed("pyarrow.ipc", "arrow")
        export = await self.export("arrow")
        data = await self._client.bi.download_bi_export(export["id"])
        table: pyarrow.Table = ipc.open_file(data).read_all()
        return table

    async def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """The result as a data frame; `options` are those of `pyarrow.Table.to_pandas`. It needs
        `pip install gleaner-client[pandas]`."""
        _needed("pandas", "pandas")
        table = await self.to_arrow()
        frame: pandas.DataFrame = table.to_pandas(**options)
        return frame


async def run(
    client: AsyncGleaner, execution: models.ExecutionView, timeout: float | None
) -> AsyncQuery:
    """Waits until a statement has ended; it is canceled where that takes too long."""
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = _POLL_SEC
    while execution["status"] in ("queued", "running"):
        if deadline is not None and time.monotonic() >= deadline:
            await client.bi.cancel_bi_query(execution["jobId"])
            raise errors.WaitTimeout(f"after {timeout:g} s the statement was {execution['status']}; it is canceled")
        await asyncio.sleep(pause)
        pause = min(_POLL_SEC_MAX, pause * 1.5)
        execution = await client.bi.get_bi_query(execution["jobId"])
    if execution["status"] != "success":
        why: Mapping[str, Any] = execution.get("error") or {}
        code = str(why.get("code") or execution["status"])
        message = str(why.get("message") or f"the statement {execution['status']}")
        raise errors.QueryFailed(execution["jobId"], code, message, bool(why.get("retriable")))
    manifest = (await client.bi.get_bi_manifest(execution["jobId"]))["manifest"]
    return AsyncQuery(client, execution, manifest)


def _needed(module: str, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} is not installed: pip install 'gleaner-client[{extra}]'") from error
