"""URLs on their way to the box: as files, or as whatever a program has, in parts that each fit into a request."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from . import models
from ._http import encoded

# A part of an upload: small enough to be kept for sending it again, large enough to need few of them.
PART_BYTES_MAX = 4 << 20
PART_LINES_MAX = 50_000
_PIECE_BYTES = 256 << 10
# The answer to one request names as many invalid lines.
INVALID_MAX = 1000

_TYPES = {
    ".csv": "text/csv",
    ".tsv": "text/csv",
    ".txt": "text/csv",
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
}
_PACKED = {".gz": "gzip", ".zst": "zstd"}


def media_of(name: str | os.PathLike[str]) -> tuple[str, str | None]:
    """The media type and the coding of a file by its name: `urls.csv.gz` is CSV in gzip. ValueError where it tells nothing."""
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    coding = _PACKED.get(suffixes.pop()) if suffixes and suffixes[-1] in _PACKED else None
    media = _TYPES.get(suffixes[-1]) if suffixes else None
    if media is None:
        known = ", ".join(_TYPES)
        raise ValueError(f"{os.fspath(name)}: give a content_type; the name ends in none of {known} (with .gz or .zst)")
    return media, coding


def reader(file: str | os.PathLike[str]) -> Callable[[], Iterator[bytes]]:
    """Gives a file's bytes in pieces, each time anew."""

    def pieces() -> Iterator[bytes]:
        with open(file, "rb") as opened:
            while piece := opened.read(_PIECE_BYTES):
                yield piece

    return pieces


def line_of(entry: str | models.UrlEntry | Mapping[str, Any], common: Mapping[str, Any]) -> bytes:
    """One line of NDJSON; what the entry says itself goes before what is said of all."""
    members = {"url": entry} if isinstance(entry, str) else dict(entry)
    if isinstance(entry, str) and not entry.strip():
        return b""
    own = {name: value for name, value in (dict(common) | members).items() if value is not None}
    own["tags"] = list(dict.fromkeys([*(common.get("tags") or ()), *(members.get("tags") or ())]))
    return json.dumps(own, default=encoded, allow_nan=False).encode() + b"\n"


def parts(entries: Iterable[Any], common: Mapping[str, Any]) -> Iterator[tuple[int, bytes]]:
    """The entries as NDJSON, in parts, each with the number of its lines."""
    lines: list[bytes] = []
    size = 0
    for entry in entries:
        line = line_of(entry, common)
        if not line:
            continue
        if lines and (size + len(line) > PART_BYTES_MAX or len(lines) >= PART_LINES_MAX):
            yield len(lines), b"".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield len(lines), b"".join(lines)


def merged(total: models.Uploaded | None, part: models.Uploaded, lines_before: int) -> models.Uploaded:
    """Two answers as one, with the line numbers of the whole."""
    invalid = [{**it, "line": it["line"] + lines_before} for it in part["invalid"]]
    moved: Any = {**part, "invalid": invalid}
    if moved.get("nextLine") is not None:
        moved["nextLine"] += lines_before
    if total is None:
        return cast(models.Uploaded, moved)
    before: Any = total
    answer = {**before, "nextLine": moved.get("nextLine")}
    for name in ("created", "updated", "duplicates", "lines", "invalidTotal"):
        answer[name] = before[name] + moved[name]
    answer["invalid"] = (before["invalid"] + invalid)[:INVALID_MAX]
    for name in ("ignoredMembers", "notes"):
        answer[name] = list(dict.fromkeys(before[name] + moved[name]))
    return cast(models.Uploaded, answer)
