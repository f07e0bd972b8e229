"""What a client writes down of one call."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field


@dataclass
class Attempt:
    """One exchange as the transport saw it: the client's library may need several for one call."""

    request_id: str | None = None
    status: int | None = None


@dataclass
class Call:
    key: str
    gateway: int
    model: str
    prompt: str
    stream: bool
    tokens: int
    # Between two tokens of a stream.
    interval_ms: int = 2
    # Asked for at the end of a stream.
    usage_wanted: bool = False
    # Leaves after so many tokens.
    leave_after: int | None = None
    # The value of the header; another call of the trial has the same.
    idempotency: str | None = None

    attempts: list[Attempt] = field(default_factory=list)
    started: float = 0.0
    ended: float = 0.0
    # complete, left, cut (a stream broke), refused, conflict or broken (no answer at all).
    outcome: str = ""
    # Of a refusal: its code, with scope and dimension where limits refused.
    refusal: str = ""
    # A cut stream that ended with an error event was cut by a gateway that lives.
    cut_by_gateway: bool = False
    received: int = 0
    # What the answer's usage said: prompt, cached, completion.
    usage: tuple[int, int, int] | None = None

    @property
    def request_id(self) -> str | None:
        """Of the exchange that decided the call."""
        return self.attempts[-1].request_id if self.attempts else None

    def claimed_id(self) -> str:
        """The bill's id that the idempotency key makes."""
        digest = hashlib.sha256(self.idempotency.encode()).hexdigest()
        return f"{self.key}/{digest}"
