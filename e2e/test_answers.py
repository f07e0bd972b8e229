"""What a client gets when all is well, and that it is billed to the last digit."""

from __future__ import annotations

import asyncio
import time
from decimal import Decimal

import openai

from harness.caller import cached_tokens, request
from harness.stack import Stack


def test_a_plain_answer_says_its_id_its_usage_and_where_the_client_stands(stack: Stack):
    tenant = stack.tenant(keys={"key": {"rpm": 100, "tpm": 100_000}})
    answer, headers = stack.caller(tenant.key()).chat_with_headers(tokens=7)
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert len(answer.choices[0].message.content.split()) == 7
    assert answer.usage.completion_tokens == 7
    assert headers["x-tallyweir-deployment"] == "small-a"
    assert headers["x-ratelimit-limit-requests"] == "100"
    assert headers["x-ratelimit-remaining-requests"] == "99"
    assert int(headers["x-ratelimit-remaining-tokens"]) < 100_000
    assert "ratelimit" in headers and "ratelimit-policy" in headers


def test_a_key_is_told_what_it_has_spent_before_the_call_at_hand(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    spent = Decimal()
    for tokens in (5, 7):
        caller.chat(tokens=tokens)
        # Settled, so that no bill is seen both in the queue and in the ledger.
        stack.books.close(tenant.id, caller.tally)
        spent = sum((charge.cost for charge in caller.tally.charges.values()), Decimal())
        # A read serves for a tenth of a second.
        time.sleep(0.15)
        _, headers = caller.chat_with_headers(model="free", tokens=1)
        assert Decimal(headers["x-litellm-key-spend"]) == spent


def test_cached_tokens_have_a_price_of_their_own_and_every_digit_counts(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    prompt = "Tell me about tolls, and take your time. " * 4
    for cached in (0, 1, 13):
        answer = caller.chat(prompt, model="odd", mock=f"cached={cached}", tokens=3)
        assert cached_tokens(answer.usage) == cached


def test_a_stream_without_usage_brings_none_and_is_billed_exactly(stack: Stack):
    tenant = stack.tenant()
    for more in ({}, {"stream_options": {"include_usage": False}}, {"stream_options": None}):
        got = stack.caller(tenant.key()).stream(tokens=11, **more)
        assert got.usage is None
        assert len(got.texts) == 11
        assert got.finish_reason in ("stop", "length")


def test_a_stream_with_usage_ends_with_it(stack: Stack):
    tenant = stack.tenant()
    got = stack.caller(tenant.key()).stream(tokens=11, stream_options={"include_usage": True})
    assert got.usage.completion_tokens == len(got.texts) == 11


def test_an_upstream_that_tells_no_usage_is_billed_by_the_gateways_own_count(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    got = caller.stream(mock="no_usage", tokens=9)
    assert len(got.texts) == 9


def test_concurrent_async_clients_are_each_billed_for_their_own(stack: Stack):
    tenant = stack.tenant(keys={"first": {}, "second": {}})
    callers = {name: stack.caller(tenant.key(name)) for name in ("first", "second")}

    async def one(name: str, number: int) -> None:
        caller = callers[name]
        gateway = stack.gateways[number % 2]
        async with openai.AsyncOpenAI(
            api_key=caller.key.secret, base_url=f"{gateway.url}/v1", max_retries=0
        ) as client:
            raw = await client.chat.completions.with_raw_response.create(
                **request(f"Question {number}", "small", None, number % 9 + 1, {})
            )
            caller.count_usage(raw.headers["x-request-id"], "small", raw.parse().usage)

    async def all_of_them() -> None:
        names = ("first", "second")
        await asyncio.gather(*(one(names[number % 3 % 2], number) for number in range(40)))

    asyncio.run(all_of_them())
    assert len(callers["first"].tally.charges) == 40


def test_embeddings_are_billed_for_their_input_whatever_its_form(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    answer = caller.embed(["A barrier across a road.", "A fee for passing it."])
    assert [item.index for item in answer.data] == [0, 1]
    assert answer.usage.prompt_tokens > 2
    assert caller.embed("A fee").usage.prompt_tokens == 2
    assert caller.embed([11, 22, 33]).usage.prompt_tokens == 3
    assert caller.embed([[11, 22, 33], [44]]).usage.prompt_tokens == 4


def test_a_free_model_is_recorded_and_costs_nothing(stack: Stack):
    tenant = stack.tenant()
    stack.caller(tenant.key()).chat(model="free", tokens=4)


def test_the_list_of_models_names_what_is_configured(stack: Stack):
    tenant = stack.tenant()
    models = stack.caller(tenant.key()).openai.models.list()
    assert [model.id for model in models.data] == [model.name for model in stack.configuration.models]
