"""The trial: fifty clients over two gateways, every process killed once, and the books afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from dataclasses import asdict
from decimal import Decimal

import pytest

from conftest import end
from harness.books import DRAINED_WITHIN, wait_until_drained
from harness.configuration import CHEAP, ODD, Configuration, Model
from harness.prices import Price
from harness.process import RUN
from harness.stack import Stack
from harness.tenants import Tenant
from trial.call import Call
from trial.crowd import CLIENTS, Client, plan
from trial.judge import Judge
from trial.killer import Killer
from trial.report import figures, show

REQUESTS = int(os.environ.get("E2E_REQUESTS", "1500"))
SEED = 8

TRIAL = Configuration(
    models=(
        Model("small", mocks=(0, 1), price=CHEAP),
        Model("odd", mocks=(1, 0), price=ODD),
        Model("vector", mocks=(1,), kind="embedding", price=Price("0.02", "0", "0")),
    ),
    routing={"allowed_failures": 3, "cooldown_seconds": 2, "affinity_seconds": 60},
)
# Requests and tokens per minute of the second organization, which a fifth of the clients belongs to. They are so low that they
# bind over however many minutes the calls are spread.
LIMITS = {"organization": (90, None), "team": (None, 800), "slow": (20, None)}


@pytest.fixture
def trial(request: pytest.FixtureRequest):
    stack = Stack(RUN / "trial", TRIAL)
    yield stack
    end(stack, request)


def clients(stack: Stack, wide: Tenant, tight: Tenant) -> list[Client]:
    random_ = random.Random(SEED)
    made = []
    for number in range(CLIENTS):
        limited = number % 5 == 4
        keys = list((tight if limited else wide).keys.values())
        key, gateway = keys[number % len(keys)], number % 2
        calls = REQUESTS // CLIENTS + (number < REQUESTS % CLIENTS)
        made.append(
            Client(key, gateway, stack.gateways[gateway].url, limited, plan(key, gateway, calls, random_))
        )
    return made


async def crowd(everybody: list[Client], killer: Killer) -> None:
    kills = asyncio.create_task(killer.run())
    await asyncio.gather(*(client.run(killer.done) for client in everybody))
    await kills


def test_ledger_and_clients_agree_although_every_process_is_killed_once(trial: Stack, capsys):
    wide = trial.tenant(
        teams={"a": {}, "b": {}},
        keys={
            "one": {"team": "a"},
            "two": {"team": "a"},
            "three": {"team": "b"},
            "budgeted": {"team": "b", "budget_usd": "1000"},
        },
    )
    tight = trial.tenant(
        organization={"rpm": LIMITS["organization"][0]},
        teams={"counted": {"tpm": LIMITS["team"][1]}},
        keys={"slow": {"rpm": LIMITS["slow"][0]}, "free": {}, "tokens": {"team": "counted"}},
    )
    limits = {
        f"organization/{tight.id}": LIMITS["organization"],
        f"key/{tight.key('slow').id}": LIMITS["slow"],
        f"team/{tight.key('tokens').id.replace('tokens', 'counted')}": LIMITS["team"],
    }
    everybody = clients(trial, wide, tight)
    killer = Killer(trial, REQUESTS)
    started = time.monotonic()
    asyncio.run(crowd(everybody, killer))
    seconds = time.monotonic() - started

    calls = [call for client in everybody for together in client.plan for call in together]
    assert len(calls) == REQUESTS
    _write_journal(trial, calls)
    trial.wait_ready()
    rows = settled_rows(trial, (wide, tight), calls)
    first, second, *_ = (killing for killing in killer.killings if killing.name.startswith("gateway"))
    sent: dict[str, list] = {}
    for mock in trial.mocks:
        for request_id, entries in mock.sent().items():
            sent.setdefault(request_id, []).extend(entries)
    verdict = Judge(calls, rows, sent, {0: [first], 1: [second]}, TRIAL).judge(limits)

    ledger_usd = sum((row.cost for row in rows), Decimal())
    result = figures(verdict, calls, seconds, killer.killings, ledger_usd, len(rows))
    with capsys.disabled():
        show(result, limits)
    assert not verdict.faults, "\n".join(verdict.faults[:20])
    assert sum(verdict.usd.values()) == ledger_usd
    assert len(result["killed"]) == 6
    assert verdict.refusals["key rpm"] and verdict.refusals["team tpm"], verdict.refusals
    assert verdict.calls["complete"] > REQUESTS // 2


def settled_rows(stack: Stack, tenants: tuple[Tenant, ...], calls: list[Call]) -> list:
    """Everything that was charged, when nothing waits anywhere any more: neither in Redis nor in a gateway's spool."""
    deadline = time.monotonic() + DRAINED_WITHIN
    whole = {call.request_id for call in calls if call.outcome == "complete"}
    while True:
        wait_until_drained(stack.env)
        rows = [row for tenant in tenants for row in stack.ledger.rows(tenant.id)]
        if whole <= {row.request_id for row in rows} and not any(spooled(stack)):
            # What left a spool in the meantime.
            wait_until_drained(stack.env)
            return [row for tenant in tenants for row in stack.ledger.rows(tenant.id)]
        if time.monotonic() > deadline:
            return rows
        time.sleep(0.1)


def spooled(stack: Stack) -> list[float]:
    return [gateway.metric("tallyweir_spool_events") for gateway in stack.gateways]


def _write_journal(stack: Stack, calls: list[Call]) -> None:
    with (stack.folder / "clients.journal").open("w") as journal:
        for call in calls:
            journal.write(json.dumps(asdict(call)) + "\n")
