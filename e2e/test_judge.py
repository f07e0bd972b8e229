"""The judge of the trial must bite: each falsehood that is planted here is found."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import Callable

import pytest

from conftest import SCENARIOS
from harness.ledger import Row
from harness.mock import Sent
from trial.call import Attempt, Call
from trial.judge import Judge, Verdict
from trial.killer import Killing


class World:
    """Six calls of one key, as they should be, and what the ledger and a mock have of them."""

    def __init__(self):
        self.calls = [
            self._call("whole", "complete", usage=(10, 2, 5)),
            self._call("counted", "complete", stream=True, received=7),
            self._call("left", "left", stream=True, received=3),
            self._call("refused", "refused", status=503),
            self._call("twice", "complete", usage=(10, 0, 4), idempotency="i"),
            self._call("twice", "conflict", status=409, idempotency="i"),
        ]
        twice = self.calls[4].claimed_id()
        for call in self.calls[4:]:
            call.attempts[0].request_id = twice
        self.rows = [
            self._row("whole", 5, 2, "success"),
            self._row("counted", 7, 0, "success"),
            self._row("left", 6, 0, "partial"),
            self._row(twice, 4, 0, "success"),
        ]
        self.sent = {
            row.request_id: [Sent("small", 10, row.cached, 8 if row.status == "partial" else row.completion, "complete")]
            for row in self.rows
        }
        self.killings = {0: [Killing("gateway", 5000.0, 5001.0)]}

    @staticmethod
    def _call(request_id: str, outcome: str, status: int = 200, stream: bool = False, **more) -> Call:
        call = Call("k", 0, "small", "p", stream, 32, started=1000.0, ended=1001.0, outcome=outcome, **more)
        call.attempts.append(Attempt(request_id, status))
        return call

    @staticmethod
    def _row(request_id: str, completion: int, cached: int, status: str) -> Row:
        cost = SCENARIOS.cost("small", 10, cached, completion)
        at = datetime.fromtimestamp(1000, timezone.utc)
        return Row(request_id, "o", "k", "small", 10, cached, completion, status, cost, ["organization/o", "key/k"], at)

    def change(self, at: int, **what) -> None:
        self.rows[at] = replace(self.rows[at], **what)

    def judged(self, rpm: int | None = 4, tpm: int | None = 62) -> Verdict:
        """By default with limits that are just kept."""
        judge = Judge(self.calls, self.rows, self.sent, self.killings, SCENARIOS)
        return judge.judge({"organization/o": (rpm, tpm)})


def orphan(world: World) -> None:
    row = replace(world.rows[0], request_id="unknown")
    world.rows.append(row)
    world.sent["unknown"] = world.sent["whole"]


def killed_then(world: World) -> None:
    world.killings = {0: [Killing("gateway", 1001.5, 1002.0)]}


def test_what_agrees_has_no_faults():
    verdict = World().judged()
    assert verdict.faults == []
    assert (verdict.calls["complete"], verdict.charged["complete"], verdict.charged["left"]) == (3, 3, 1)
    assert sum(verdict.usd.values()) == sum(row.cost for row in World().rows)


FALSEHOODS: dict[str, Callable[[World], object]] = {
    "an answer is not charged": lambda world: world.rows.pop(0),
    "a charge is there twice": lambda world: world.rows.append(world.rows[0]),
    "a cost is wrong in the twelfth digit": lambda world: world.change(0, cost=world.rows[0].cost + Decimal("1e-12")),
    "a cost is another call's": lambda world: world.change(0, cost=world.rows[1].cost),
    "a token more than the client counted": lambda world: world.change(0, completion=6),
    "cached tokens are forgotten": lambda world: world.change(0, cached=0),
    "another key is charged": lambda world: world.change(0, key="l"),
    "another model is charged": lambda world: world.change(1, model="odd"),
    "a whole answer is said to be partial": lambda world: world.change(0, status="partial"),
    "a stream without usage is charged for more": lambda world: world.change(1, completion=8),
    "who left is not charged": lambda world: world.rows.pop(2),
    "who left is charged for less than it got": lambda world: world.change(2, completion=2),
    "who left is charged for more than was sent": lambda world: world.change(2, completion=9),
    "the prompt is not what the upstream had": lambda world: world.change(2, prompt=11),
    "a refused call is charged": lambda world: world.change(2, request_id="refused"),
    "a charge was never dispatched": lambda world: world.sent.pop("left"),
    "a charge that no client knows": orphan,
    "two answers have the same id": lambda world: setattr(world.calls[5], "outcome", "complete"),
    "a call has no outcome": lambda world: setattr(world.calls[0], "outcome", ""),
}

@pytest.mark.parametrize("falsehood", FALSEHOODS, ids=str)
def test_a_falsehood_is_found(falsehood: str):
    world = World()
    FALSEHOODS[falsehood](world)
    assert world.judged(rpm=None, tpm=None).faults


def test_a_minute_with_more_requests_or_tokens_than_a_scope_may_have_is_found():
    assert World().judged().fullest == {"organization/o": (4, 62)}
    for limits in ({"rpm": 3}, {"tpm": 61}):
        (fault,) = World().judged(**limits).faults
        assert "organization/o had 4 requests and 62 tokens" in fault


def test_only_a_killed_gateway_may_forget_who_left_and_never_a_whole_answer():
    world = World()
    killed_then(world)
    world.rows.pop(2)
    assert world.judged().faults == []
    world.rows.pop(0)
    assert len(world.judged().faults) == 1


def test_a_bill_that_no_client_knows_needs_an_exchange_that_ended_without_an_answer():
    world = World()
    orphan(world)
    world.calls[3].attempts.insert(0, Attempt())
    verdict = world.judged(rpm=None, tpm=None)
    assert (verdict.faults, verdict.orphans) == ([], 1)
