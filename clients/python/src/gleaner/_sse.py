"""Server-Sent Events, as they come in pieces of bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass

# A CR at the end of what is there may be half of a CRLF.
_LINE = re.compile(rb"\r\n|\n|\r(?=[^\n])")


@dataclass(frozen=True)
class Message:
    """What came between two empty lines; `kind` is empty for a comment alone, which says that the stream lives."""

    kind: str
    data: str
    id: str | None


class Parser:
    """Takes bytes and gives messages. Lines end in LF, CR or both, and in nothing else that looks like a line's end."""

    def __init__(self) -> None:
        self._rest = b""
        self._id: str | None = None
        self._kind, self._is_comment = "", False
        self._data: list[str] = []
        #: Milliseconds to wait before coming back, as the box last said.
        self.retry_ms: int | None = None

    def feed(self, piece: bytes) -> list[Message]:
        """The messages that this piece completes."""
        lines = _LINE.split(self._rest + piece)
        self._rest = lines.pop()
        messages = []
        for line in lines:
            message = self._line(line.decode("utf-8", "replace"))
            if message is not None:
                messages.append(message)
        return messages

    def _line(self, line: str) -> Message | None:
        if line == "":
            said = Message(self._kind or "message", "\n".join(self._data), self._id) if self._data else None
            if said is None and self._is_comment:
                said = Message("", "", self._id)
            self._kind, self._data, self._is_comment = "", [], False
            return said
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "":
            self._is_comment = True
        elif name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_ms = int(value)
        return None
