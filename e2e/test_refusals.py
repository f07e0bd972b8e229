"""What a client is refused, as the exceptions of its own library."""

from __future__ import annotations

import openai
import pytest

from harness.caller import request
from harness.stack import Stack
from harness.tally import Part


def error_of(error: openai.APIStatusError) -> dict:
    """The error object, whole: every refusal has the same four fields."""
    assert set(error.body) == {"message", "type", "param", "code"}, error.body
    assert error.request_id
    return error.body


def test_a_wrong_secret_is_an_authentication_error(stack: Stack):
    tenant = stack.tenant()
    key = tenant.key()
    for secret in ("wrong", key.secret + "x", key.secret[:-1]):
        client = openai.OpenAI(api_key=secret, base_url=f"{stack.gateways[0].url}/v1", max_retries=0)
        with pytest.raises(openai.AuthenticationError) as refused:
            client.models.list()
        error = error_of(refused.value)
        assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
        assert key.secret not in error["message"] and secret not in error["message"].split()


@pytest.mark.parametrize("kind", ["organizations", "teams", "api_keys"])
def test_what_is_blocked_is_named_in_a_permission_error(stack: Stack, kind: str):
    tenant = stack.tenant(teams={"team": {}}, keys={"key": {"team": "team"}})
    key = tenant.key()
    blocked = {
        "organizations": f"organization/{tenant.id}",
        "teams": f"team/{key.id.replace('key', 'team')}",
        "api_keys": f"key/{key.id}",
    }[kind]
    stack.ledger.change(f"update {kind} set blocked = true where id = %s", blocked.split("/")[1])
    caller = stack.caller(key)
    with pytest.raises(openai.PermissionDeniedError) as refused:
        caller.chat()
    error = error_of(refused.value)
    assert error["code"] == "blocked"
    assert blocked in error["message"]


def test_a_model_that_there_is_not_or_not_for_this_use_is_not_found(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    for model, call in (
        ("no-such-model", lambda: caller.chat(model="no-such-model")),
        ("vector", lambda: caller.chat(model="vector")),
        ("small", lambda: caller.embed(["hello"], model="small")),
    ):
        with pytest.raises(openai.NotFoundError) as refused:
            call()
        error = error_of(refused.value)
        assert (error["code"], error["param"]) == ("model_not_found", "model")
        assert model in error["message"]


def test_a_rate_limit_names_scope_and_dimension_and_says_when_to_come_back(stack: Stack):
    tenant = stack.tenant(organization={"rpm": 100}, keys={"key": {"rpm": 1}})
    caller = stack.caller(tenant.key())
    with pytest.raises(openai.RateLimitError) as refused:
        # The minute may turn once between two of them.
        for _ in range(3):
            caller.chat(tokens=1)
    error = error_of(refused.value)
    assert (error["type"], error["code"]) == ("rate_limit", "rate_limit_exceeded")
    assert f"key/{caller.key.id}" in error["message"] and "rpm" in error["message"]
    headers = refused.value.response.headers
    assert 1 <= int(headers["retry-after"]) <= 60
    assert headers["x-ratelimit-limit-requests"] == "1"
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert '"requests";r=0' in headers["ratelimit"]
    assert "x-should-retry" not in headers


def test_a_limit_of_zero_blocks_and_no_wait_is_offered(stack: Stack):
    tenant = stack.tenant(keys={"key": {"rpm": 0}})
    caller = stack.caller(tenant.key(), max_retries=5)
    with pytest.raises(openai.PermissionDeniedError) as refused:
        caller.chat(tokens=1)
    assert error_of(refused.value)["code"] == "blocked"
    assert f"key/{caller.key.id}" in refused.value.message
    assert "retry-after" not in refused.value.response.headers


def test_a_request_that_can_never_fit_is_a_bad_request_and_not_a_rate_limit(stack: Stack):
    tenant = stack.tenant(keys={"key": {"tpm": 50}})
    caller = stack.caller(tenant.key())
    with pytest.raises(openai.BadRequestError) as refused:
        caller.chat(max_tokens=60)
    error = error_of(refused.value)
    assert error["code"] == "request_exceeds_limit"
    assert "50" in error["message"]
    assert "retry-after" not in refused.value.response.headers


def test_an_idempotency_key_is_dispatched_and_billed_once(stack: Stack):
    tenant = stack.tenant(keys={"key": {}, "other": {}})
    caller, other = stack.caller(tenant.key()), stack.caller(tenant.key("other"), stack.gateways[1])
    header = {"Idempotency-Key": "order 4711"}
    caller.chat(extra_headers=header)
    for gateway in stack.gateways:
        client = stack.caller(tenant.key(), gateway)
        with pytest.raises(openai.ConflictError) as refused:
            client.openai.chat.completions.create(
                model="small", messages=[{"role": "user", "content": "Another"}], extra_headers=header
            )
        error = error_of(refused.value)
        assert error["code"] == "idempotency_key_reused"
        assert refused.value.response.headers["x-should-retry"] == "false"
    # Another key's header is another's.
    other.chat(extra_headers=header)


def test_a_refused_request_gives_its_idempotency_key_back(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    header = {"Idempotency-Key": "try again"}
    failing = request("Will it?", "refusing", "status=503", None, {"extra_headers": header})
    with pytest.raises(openai.InternalServerError):
        # Not by the tally: the id is the same for the one that is answered.
        caller.openai.chat.completions.create(**failing)
    caller.chat(model="refusing", extra_headers=header)


def test_a_client_that_waits_no_longer_is_told_so_by_its_own_library_and_billed_once(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key(), timeout=0.3)
    known = len(stack.mocks[0].lines())
    with pytest.raises(openai.APITimeoutError):
        caller.chat(prompt="Are you there?", model="slow", mock="latency_ms=1500", tokens=5)
    # The upstream's answer was produced all the same.
    (ended,) = stack.mocks[0].wait_until_ended("slow", known)
    caller.tally.part(Part(ended["request_id"], caller.key.id, "slow", 0, whole=False))
