"""How far a collection is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How far a collection is."""

    total: int
    succeeded: int = 0
    failed: int = 0
    canceled: int = 0

    @property
    def ended(self) -> int:
        """Jobs that have ended, however."""
        return self.succeeded + self.failed + self.canceled

    @property
    def pending(self) -> int:
        """Jobs that have not ended yet."""
        return self.total - self.ended

    def __str__(self) -> str:
        parts = [f"{self.ended} of {self.total}"]
        parts += [f"{count} {name}" for name, count in (("failed", self.failed), ("canceled", self.canceled)) if count]
        return ", ".join(parts)


OnProgress = Callable[[Progress], object]
