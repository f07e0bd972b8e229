"""Limits per minute, which all gateways share, and the client library's own retries."""

from __future__ import annotations

import time

import openai
import pytest

from harness.burst import burst
from harness.minute import in_one_minute, seconds_left
from harness.stack import Stack


def test_two_gateways_admit_together_exactly_what_one_may(stack: Stack):
    tenant = stack.tenant(organization={"rpm": 23}, keys={"first": {}, "second": {"rpm": 9}})
    callers = [stack.caller(tenant.key("first"), gateway) for gateway in stack.gateways]
    seconds = [stack.caller(tenant.key("second"), gateway) for gateway in stack.gateways]
    in_one_minute(15)
    outcomes = burst(seconds, 30, tokens=1)
    assert outcomes == {"answered": 9, "rate_limit_exceeded": 21}
    outcomes = burst(callers, 50, tokens=1)
    assert outcomes == {"answered": 14, "rate_limit_exceeded": 36}


def test_an_answer_gives_back_the_tokens_that_it_did_not_use(stack: Stack):
    # An estimate is the prompt and the most that the answer may have: 14 + 64 or so, of which 15 are used.
    tenant = stack.tenant(keys={"key": {"tpm": 300}})
    caller = stack.caller(tenant.key())
    in_one_minute(15)
    answered = 0
    with pytest.raises(openai.RateLimitError) as refused:
        for _ in range(100):
            caller.chat(mock="tokens=1", max_tokens=64)
            answered += 1
    used = sum(charge.prompt + charge.completion for charge in caller.tally.charges.values())
    assert used <= 300
    # Unsettled, the fourth estimate would not have fitted any more.
    assert answered > 10
    assert "tpm" in refused.value.message


def test_a_refused_request_and_an_upstream_that_fails_use_nothing_up(stack: Stack):
    tenant = stack.tenant(keys={"key": {"rpm": 3}})
    caller = stack.caller(tenant.key())
    in_one_minute(15)
    for _ in range(2):
        with pytest.raises(openai.NotFoundError):
            caller.chat(model="no-such-model")
        with pytest.raises(openai.InternalServerError):
            caller.chat(model="failing", mock="status=500")
    assert burst([caller], 5, tokens=1) == {"answered": 3, "rate_limit_exceeded": 2}


def test_the_clients_own_retries_wait_as_long_as_they_are_told_and_get_through(stack: Stack):
    tenant = stack.tenant(keys={"key": {"rpm": 1}})
    patient = stack.caller(tenant.key(), max_retries=2, timeout=70)
    # With less of the minute left, the test is shorter, and with hardly any it shows nothing.
    in_one_minute(3)
    patient.chat(tokens=1)
    left, started = seconds_left(), time.monotonic()
    patient.chat(tokens=1)
    waited = time.monotonic() - started
    assert left - 1 <= waited <= left + 5


def test_a_new_limit_is_in_force_within_a_second(stack: Stack):
    tenant = stack.tenant(keys={"key": {"rpm": 1}})
    caller = stack.caller(tenant.key())
    in_one_minute(15)
    assert burst([caller], 3, tokens=1) == {"answered": 1, "rate_limit_exceeded": 2}
    stack.ledger.change("update api_keys set rpm_limit = 4 where id = %s", caller.key.id)
    time.sleep(1)
    assert burst([caller], 6, tokens=1) == {"answered": 3, "rate_limit_exceeded": 3}
