"""Budgets: exhausted, raised, held, and the zones that their periods may have."""

from __future__ import annotations

import time
from decimal import Decimal

import openai
import psycopg
import pytest

from harness.books import wait_until_drained
from harness.burst import burst
from harness.stack import Stack
from harness.tenants import Key


BUDGET = Decimal("0.0001")
TOKENS = 20


def spend_all(stack: Stack, key: Key) -> openai.RateLimitError:
    """Calls until the budget has no room for one more.

    A bill that is on its way from Redis to the ledger may count twice for a moment, and is never missed: a refusal that comes too
    early is possible then, an answer too many never. So only a refusal when nothing was on its way is the last one.
    """
    caller = stack.caller(key)
    while True:
        wait_until_drained(stack.env)
        answered = 0
        with pytest.raises(openai.RateLimitError) as refused:
            for _ in range(50):
                caller.chat(tokens=TOKENS)
                answered += 1
        if answered == 0:
            return refused.value


def cost_of_one(stack: Stack, key: Key) -> Decimal:
    return next(iter(stack.tally(key).charges.values())).cost


def spent(stack: Stack, key: Key) -> Decimal:
    return sum((charge.cost for charge in stack.tally(key).charges.values()), Decimal())


def test_an_exhausted_budget_is_named_and_not_retried_and_a_raised_one_works_again(stack: Stack):
    tenant = stack.tenant(keys={"key": {"budget_usd": str(BUDGET)}, "other": {}})
    key = tenant.key()
    refused = spend_all(stack, key)
    assert (refused.type, refused.code) == ("insufficient_quota", "budget_exceeded")
    assert f"key/{key.id}" in refused.message
    assert refused.response.headers["x-should-retry"] == "false"
    assert "retry-after" not in refused.response.headers
    # Not one call too many, and not one too few.
    assert spent(stack, key) <= BUDGET < spent(stack, key) + cost_of_one(stack, key)

    started = time.monotonic()
    with pytest.raises(openai.RateLimitError):
        stack.caller(key, max_retries=5).chat(tokens=TOKENS)
    assert time.monotonic() - started < 0.5, "the client's library retried what waiting cannot help"

    stack.caller(tenant.key("other")).chat(tokens=1)
    stack.admin("budget", f"key/{key.id}", "0.01")
    stack.caller(key, stack.gateways[1]).chat(tokens=1)


def test_a_budget_above_the_key_stops_every_key_below_it(stack: Stack):
    tenant = stack.tenant(
        teams={"team": {"budget_usd": str(BUDGET)}}, keys={"first": {"team": "team"}, "second": {"team": "team"}}
    )
    spend_all(stack, tenant.key("first"))
    caller = stack.caller(tenant.key("second"), stack.gateways[1])
    with pytest.raises(openai.RateLimitError) as refused:
        caller.chat()
    assert refused.value.code == "budget_exceeded"
    assert f"team/{tenant.key('first').id.replace('first', 'team')}" in refused.value.message


def test_a_budget_has_the_zone_of_a_place_and_no_offset(stack: Stack):
    tenant = stack.tenant(keys={"key": {"budget_usd": str(BUDGET), "budget_period": "daily"}})
    for zone in ("UTC+9", "<E2E>12:00:00"):
        with pytest.raises(psycopg.errors.CheckViolation):
            stack.ledger.change("update api_keys set budget_time_zone = %s where id = %s", zone, tenant.key().id)


def test_calls_at_the_same_time_cannot_overdraw_a_budget_that_is_held(stack: Stack):
    gateway = stack.another_gateway(budget={"mode": "hold", "hold_seconds": 60})
    tenant = stack.tenant(keys={"key": {"budget_usd": "0.001"}})
    caller = stack.caller(tenant.key(), gateway)
    outcomes = burst([caller], 60, mock="latency_ms=50", tokens=60)
    assert gateway.stop() == 0
    assert set(outcomes) == {"answered", "budget_exceeded"}, outcomes
    assert spent(stack, tenant.key()) <= Decimal("0.001")
    assert stack.ledger.open_holds(tenant.id) == 0
