"""Redis and PostgreSQL stopped and back, processes told to stop: no bill is lost, no limit is lifted."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from harness.caller import request
from harness.minute import in_one_minute
from harness.stack import Stack


def test_without_redis_nothing_is_admitted_and_what_was_under_way_is_billed_later(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    known = len(stack.mocks[0].lines())
    spooled = stack.gateways[0].metric("tallyweir_spool_spooled_total")
    with ThreadPoolExecutor(max_workers=2) as pool:
        plain = pool.submit(caller.chat, "A slow one", "slow", "latency_ms=1500", 5)
        streamed = pool.submit(caller.stream, "A long one", "slow", "interval_ms=60", 25)
        stack.mocks[0].wait_until_begun("slow", known, 2)
        with stack.servers.stopped("redis"):
            with pytest.raises(openai.InternalServerError) as refused:
                caller.chat(tokens=1)
            assert (refused.value.status_code, refused.value.code) == (503, "rate_limit_unavailable")
            # Both get their answers: the bills wait in the spool, fsynced.
            assert plain.result(20).usage.completion_tokens == 5
            assert len(streamed.result(20).texts) == 25
            assert stack.gateways[0].metric("tallyweir_spool_spooled_total") == spooled + 2
    stack.wait_ready()
    caller.chat(tokens=1)


def test_a_redis_that_hangs_is_given_up_in_time(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    caller.chat(tokens=1)
    pid = stack.redis.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        with pytest.raises(openai.InternalServerError) as refused:
            caller.chat(tokens=1)
        assert refused.value.code == "rate_limit_unavailable"
        assert time.monotonic() - started < 5
    finally:
        os.kill(pid, signal.SIGCONT)
    stack.wait_ready()
    caller.chat(tokens=1)


def test_limits_survive_a_crash_of_redis(stack: Stack):
    tenant = stack.tenant(keys={"key": {"rpm": 3}})
    caller = stack.caller(tenant.key())
    in_one_minute(15)
    for _ in range(3):
        caller.chat(tokens=1)
    stack.servers.restart_after_kill("redis")
    stack.wait_ready()
    with pytest.raises(openai.RateLimitError):
        caller.chat(tokens=1)


def test_without_postgresql_known_keys_without_a_budget_go_on_and_all_is_settled_later(stack: Stack):
    tenant = stack.tenant(keys={"known": {}, "unknown": {}, "budgeted": {"budget_usd": "1"}})
    known, budgeted = stack.caller(tenant.key("known")), stack.caller(tenant.key("budgeted"))
    known.chat(tokens=1)
    budgeted.chat(tokens=1)
    with stack.servers.stopped("postgres"):
        for _ in range(5):
            _, headers = known.chat_with_headers(tokens=2)
            # What cannot be told exactly is not told.
            assert "x-litellm-key-spend" not in headers
        known.stream(tokens=4)
        with pytest.raises(openai.InternalServerError) as refused:
            budgeted.chat(tokens=1)
        assert (refused.value.status_code, refused.value.code) == (503, "budget_unavailable")
        with pytest.raises(openai.InternalServerError) as refused:
            stack.caller(tenant.key("unknown")).chat(tokens=1)
        assert (refused.value.status_code, refused.value.code) == (503, "identity_unavailable")
    stack.wait_ready()
    for name in ("known", "unknown", "budgeted"):
        stack.caller(tenant.key(name), stack.gateways[1]).chat(tokens=1)
    # The gateway that lived through it hears of changes again.
    stack.admin("key", "block", tenant.key("known").id)
    deadline = time.monotonic() + 1
    with pytest.raises(openai.PermissionDeniedError):
        while time.monotonic() < deadline:
            known.chat(tokens=1)


def test_a_gateway_that_is_told_to_stop_finishes_the_stream_and_takes_nothing_new(stack: Stack):
    gateway = stack.another_gateway(grace_ms=10_000)
    tenant = stack.tenant()
    caller = stack.caller(tenant.key(), gateway)
    refused: list[Exception] = []

    def stop() -> None:
        gateway.process.signal(signal.SIGTERM)

        def knock() -> None:
            try:
                stack.caller(tenant.key(), gateway, timeout=5).chat(tokens=1)
            except openai.APIConnectionError as error:
                refused.append(error)
            except openai.InternalServerError as error:
                assert error.code == "shutting_down"
                refused.append(error)

        time.sleep(0.3)
        threading.Thread(target=knock).start()

    got = caller.stream(mock="interval_ms=40", tokens=50, on_first=stop)
    assert len(got.texts) == 50 and got.finish_reason
    assert gateway.process.wait() == 0
    assert len(refused) == 1


def test_a_gateway_whose_grace_is_over_cuts_the_stream_with_an_error_and_bills_it(stack: Stack):
    gateway = stack.another_gateway(grace_ms=500)
    tenant = stack.tenant()
    caller = stack.caller(tenant.key(), gateway)
    with pytest.raises(openai.APIError) as cut:
        caller.stream(mock="interval_ms=20", tokens=1000, on_first=lambda: gateway.process.signal(signal.SIGTERM))
    assert cut.value.code == "shutting_down"
    assert gateway.process.wait() == 0
    (part,) = caller.tally.parts.values()
    assert 1 <= part.received < 1000


def test_a_spool_outlives_its_gateway(stack: Stack):
    gateway = stack.another_gateway()
    tenant = stack.tenant()
    caller = stack.caller(tenant.key(), gateway)
    known = len(stack.mocks[0].lines())
    with ThreadPoolExecutor(max_workers=1) as pool:
        plain = pool.submit(caller.chat, "A slow one", "slow", "latency_ms=1000", 5)
        stack.mocks[0].wait_until_begun("slow", known)
        with stack.servers.stopped("redis"):
            assert plain.result(20).usage.completion_tokens == 5
            gateway.process.kill()
    gateway.start()
    gateway.wait_ready()
    stack.books.close(tenant.id, caller.tally)
    assert gateway.stop() == 0


def test_a_gateway_that_is_killed_in_mid_stream_leaves_the_hold_as_evidence(stack: Stack):
    gateway = stack.another_gateway(budget={"mode": "hold", "hold_seconds": 300})
    tenant = stack.tenant(keys={"key": {"budget_usd": "1"}})
    caller = stack.caller(tenant.key(), gateway)
    ids: list[str] = []
    with pytest.raises(openai.APIConnectionError):
        raw = caller.openai.chat.completions.with_raw_response.create(
            **request("A long one", "small", "interval_ms=20", 500, {"stream": True})
        )
        ids.append(raw.headers["x-request-id"])
        with raw.parse() as chunks:
            for chunk in chunks:
                if chunk.choices and chunk.choices[0].delta.content and gateway.process.runs():
                    gateway.process.kill()
    # Nobody is charged, and the money is not free before an operator has seen it or its time is over.
    assert stack.ledger.open_holds(tenant.id) == len(ids) == 1
    assert stack.ledger.rows(tenant.id) == []
