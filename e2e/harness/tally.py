"""What clients counted: the other side of the books, kept by what they saw and nothing else."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Charge:
    """What one call must be in the ledger."""

    request_id: str
    key: str
    model: str
    prompt: int
    cached: int
    completion: int
    status: str
    cost: Decimal


@dataclass(frozen=True)
class Part:
    """A call of which the client knows the tokens that it got and no usage: charged once, for those at least and for what the
    mock sent at most; for exactly those if it saw the end."""

    request_id: str
    key: str
    model: str
    received: int
    whole: bool


class Tally:
    """Of one test. Threads may share it."""

    def __init__(self):
        self._lock = threading.Lock()
        self.charges: dict[str, Charge] = {}
        self.parts: dict[str, Part] = {}
        self.refused: set[str] = set()
        # Ids of calls that may have been charged, as an outage has it, and need not have been.
        self.perhaps: set[str] = set()

    def whole(self, charge: Charge) -> None:
        with self._lock:
            assert charge.request_id not in self.charges, f"two answers are called {charge.request_id}"
            self.charges[charge.request_id] = charge

    def part(self, part: Part) -> None:
        with self._lock:
            self.parts[part.request_id] = part

    def refusal(self, request_id: str | None) -> None:
        assert request_id, "a refusal has an x-request-id too"
        with self._lock:
            self.refused.add(request_id)

    def maybe(self, request_id: str) -> None:
        with self._lock:
            self.perhaps.add(request_id)

    def expected(self) -> set[str]:
        return set(self.charges) | set(self.parts)
