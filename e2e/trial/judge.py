"""Compares what the clients wrote down with the ledger. It believes the mocks about what they sent, and nobody else."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from decimal import Decimal

from harness.configuration import Configuration
from harness.ledger import Row
from harness.mock import Sent

from .call import Call
from .killer import Killing

# A gateway that is killed so soon after a client left may not have written the bill of what it cut.
BILL_WITHIN = 2.0


@dataclass
class Verdict:
    faults: list[str] = field(default_factory=list)
    # How many calls were of each kind, and how many of them are in the ledger.
    calls: Counter = field(default_factory=Counter)
    charged: Counter = field(default_factory=Counter)
    usd: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    refusals: Counter = field(default_factory=Counter)
    # Exchanges that ended without an answer, and bills that only they can explain.
    lost_exchanges: int = 0
    orphans: int = 0
    # Requests and tokens of the fullest minute of each limited scope.
    fullest: dict[str, tuple[int, int]] = field(default_factory=dict)

    def fault(self, text: str) -> None:
        self.faults.append(text)


class Judge:
    def __init__(
        self,
        calls: list[Call],
        rows: list[Row],
        sent: dict[str, list[Sent]],
        killings: dict[int, list[Killing]],
        configuration: Configuration,
    ):
        self._calls = calls
        self._rows = {row.request_id: row for row in rows}
        self._sent = sent
        # By index of the gateway.
        self._killings = killings
        self._configuration = configuration
        self._explained: set[str] = set()
        # Ids that need not, but may, be charged.
        self._possible: dict[str, Call] = {}
        self.verdict = Verdict()
        if len(self._rows) != len(rows):
            self.verdict.fault("a request has several rows")

    def judge(self, limits: dict[str, tuple[int | None, int | None]]) -> Verdict:
        for call in self._calls:
            self._judge_attempts(call)
            self._judge_call(call)
        self._judge_possible()
        self._judge_orphans()
        self._judge_limits(limits)
        return self.verdict

    def _judge_attempts(self, call: Call) -> None:
        """Exchanges that the client's library repeated, and those that refused."""
        for at, attempt in enumerate(call.attempts):
            if attempt.status is None:
                self.verdict.lost_exchanges += 1
                if call.idempotency:
                    self._possible.setdefault(call.claimed_id(), call)
            elif attempt.status >= 400:
                # A conflict may be told under the id that it conflicts with.
                if attempt.status != 409 and attempt.request_id in self._rows:
                    claimed = call.idempotency and attempt.request_id == call.claimed_id()
                    if not claimed:
                        self.verdict.fault(f"{attempt.request_id}: answered {attempt.status} and charged")
            elif at + 1 < len(call.attempts) or call.outcome == "broken":
                # Its headers came and the rest did not.
                self._possible.setdefault(attempt.request_id, call)

    def _judge_call(self, call: Call) -> None:
        kind = call.outcome or "unfinished"
        if kind == "refused":
            self.verdict.refusals[call.refusal] += 1
        elif kind == "complete":
            self._judge_complete(call)
        elif kind in ("left", "cut"):
            kind = self._judge_part(call, kind)
        elif kind == "unfinished":
            self.verdict.fault(f"a call of {call.key} has no outcome")
        self.verdict.calls[kind] += 1

    def _explain(self, kind: str, row: Row) -> None:
        if row.request_id in self._explained:
            self.verdict.fault(f"{row.request_id}: two calls are told the same id")
        self._explained.add(row.request_id)
        self.verdict.charged[kind] += 1
        self.verdict.usd[kind] += row.cost

    def _judge_complete(self, call: Call) -> None:
        row = self._rows.get(call.request_id)
        if row is None:
            self.verdict.fault(f"{call.request_id}: answered whole and not charged")
            return
        self._explain("complete", row)
        if call.usage is not None:
            wanted = (*call.usage, self._configuration.cost(call.model, *call.usage))
            has = (row.prompt, row.cached, row.completion, row.cost)
        else:
            # A stream without usage: its tokens were counted by the client, its prompt by the mock.
            wanted = (call.received, self._cost(row))
            has = (row.completion, row.cost)
            self._check_bounds("complete", call, row)
        if (row.key, row.model, row.status) != (call.key, call.model, "success") or has != wanted:
            self.verdict.fault(f"{call.request_id}: the ledger has {row}, its client counted {wanted}")

    def _judge_part(self, call: Call, kind: str) -> str:
        """Returns the kind, with a word for those that a killed gateway may have forgotten."""
        killed = any(
            killing.killed - BILL_WITHIN <= call.ended <= killing.back + 1 for killing in self._killings[call.gateway]
        )
        if killed:
            kind += ", gateway killed"
        row = self._rows.get(call.request_id)
        if row is not None:
            self._explain(kind, row)
            self._check_bounds(kind, call, row)
        elif not killed:
            self.verdict.fault(f"{call.request_id}: {kind} after {call.received} tokens and not charged")
        return kind

    def _judge_possible(self) -> None:
        for request_id, call in self._possible.items():
            row = self._rows.get(request_id)
            if row is None or request_id in self._explained:
                continue
            self._explain("lost", row)
            self._check_bounds("lost", call, row, received=0)

    def _judge_orphans(self) -> None:
        """Bills whose id no client was told. Each needs an exchange of the same key that ended without an answer, and an
        upstream that knows it."""
        lost = Counter(
            call.key
            for call in self._calls
            for attempt in call.attempts
            if attempt.status is None and not call.idempotency
        )
        for request_id in set(self._rows) - self._explained:
            row = self._rows[request_id]
            self.verdict.orphans += 1
            self._explain("lost", row)
            self._check_dispatched(row)
            lost[row.key] -= 1
            if lost[row.key] < 0:
                self.verdict.fault(f"{request_id}: charged to {row.key} and no client knows of it")

    def _check_bounds(self, kind: str, call: Call, row: Row, received: int | None = None) -> None:
        least = call.received if received is None else received
        most = self._check_dispatched(row)
        most = call.tokens if math.isinf(most) else most
        if (row.key, row.model) != (call.key, call.model) or not least <= row.completion <= most:
            self.verdict.fault(f"{kind}: client {call} got at least {least}, mock sent {most}, the ledger has {row}")

    def _check_dispatched(self, row: Row) -> float:
        """The most that an upstream sent of it; without bound when the upstream was killed meanwhile."""
        entries = self._sent.get(row.request_id, [])
        if row.prompt not in {entry.prompt for entry in entries} or row.cost != self._cost(row):
            self.verdict.fault(f"{row} is not what an upstream was asked for: {entries}")
            return 0
        return max(math.inf if entry.outcome is None else entry.completion for entry in entries)

    def _cost(self, row: Row) -> Decimal:
        return self._configuration.cost(row.model, row.prompt, row.cached, row.completion)

    def _judge_limits(self, limits: dict[str, tuple[int | None, int | None]]) -> None:
        """In no minute more than a scope may; what was admitted and never billed only makes these sums smaller."""
        used: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
        for row in self._rows.values():
            for scope in row.scopes:
                sums = used[scope, row.minute]
                sums[0] += 1
                sums[1] += row.prompt + row.completion
        for (scope, minute), (requests, tokens) in used.items():
            rpm, tpm = limits.get(scope, (None, None))
            if (rpm is not None and requests > rpm) or (tpm is not None and tokens > tpm):
                self.verdict.fault(f"{scope} had {requests} requests and {tokens} tokens in minute {minute}")
            if scope in limits:
                best = self.verdict.fullest.get(scope, (0, 0))
                self.verdict.fullest[scope] = (max(best[0], requests), max(best[1], tokens))
