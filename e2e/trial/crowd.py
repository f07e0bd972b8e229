"""Fifty clients of the official library at once."""

from __future__ import annotations

import asyncio
import random
import re
import time
from contextvars import ContextVar
from dataclasses import dataclass

import httpx2
import openai

from harness.caller import cached_tokens
from harness.tenants import Key

from .call import Attempt, Call

CLIENTS = 50
TIMEOUT = 30.0
_current: ContextVar[Call] = ContextVar("call")


class Recording(httpx2.AsyncHTTPTransport):
    """Notes every exchange of the call at hand, those that the library repeats included."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        attempt = Attempt()
        _current.get().attempts.append(attempt)
        response = await super().handle_async_request(request)
        attempt.status = response.status_code
        attempt.request_id = response.headers.get("x-request-id")
        return response


@dataclass
class Client:
    """One client: its key, its gateway, and the calls that it will make. Pairs with the same idempotency key follow each other,
    and are made at the same time where `together` says so."""

    key: Key
    gateway: int
    url: str
    # Clients of limited keys do not wait for the next minute; the others retry as the library does by default.
    limited: bool
    plan: list[list[Call]]

    async def run(self, done) -> None:
        async with httpx2.AsyncClient(transport=Recording(), timeout=TIMEOUT) as http:
            options = {"max_retries": 0} if self.limited else {}
            client = openai.AsyncOpenAI(
                api_key=self.key.secret, base_url=f"{self.url}/v1", http_client=http, timeout=TIMEOUT, **options
            )
            for calls in self.plan:
                await asyncio.gather(*(self._one(client, call) for call in calls))
                done(len(calls))

    async def _one(self, client: openai.AsyncOpenAI, call: Call) -> None:
        # `gather` gives each call a context of its own.
        _current.set(call)
        call.started = time.time()
        try:
            if call.model == "vector":
                await _embed(client, call)
            elif call.stream:
                await _stream(client, call)
            else:
                await _plain(client, call)
        except openai.ConflictError:
            call.outcome = "conflict"
        except openai.APIStatusError as error:
            call.outcome, call.refusal = "refused", _refusal(error)
        except openai.APIConnectionError:
            call.outcome = call.outcome or "broken"
        call.ended = time.time()


def _headers(call: Call) -> dict[str, str]:
    return {"Idempotency-Key": call.idempotency} if call.idempotency else {}


def _chat(call: Call) -> dict:
    return {
        "model": call.model,
        "messages": [{"role": "user", "content": call.prompt}],
        "max_tokens": call.tokens,
        "metadata": {"mock": f"tokens={call.tokens},interval_ms={call.interval_ms}"},
        "extra_headers": _headers(call),
    }


async def _plain(client: openai.AsyncOpenAI, call: Call) -> None:
    answer = await client.chat.completions.create(**_chat(call))
    assert answer._request_id == call.request_id
    call.usage = (answer.usage.prompt_tokens, cached_tokens(answer.usage), answer.usage.completion_tokens)
    call.outcome = "complete"


async def _embed(client: openai.AsyncOpenAI, call: Call) -> None:
    answer = await client.embeddings.create(model=call.model, input=call.prompt, extra_headers=_headers(call))
    call.usage = (answer.usage.prompt_tokens, 0, 0)
    call.outcome = "complete"


async def _stream(client: openai.AsyncOpenAI, call: Call) -> None:
    more = {"stream_options": {"include_usage": True}} if call.usage_wanted else {}
    stream = await client.chat.completions.create(**_chat(call), stream=True, **more)
    finished = False
    try:
        async for chunk in stream:
            if chunk.usage is not None:
                call.usage = (chunk.usage.prompt_tokens, cached_tokens(chunk.usage), chunk.usage.completion_tokens)
            for choice in chunk.choices:
                call.received += bool(choice.delta.content)
                finished = finished or choice.finish_reason is not None
            if call.leave_after is not None and call.received >= call.leave_after and not finished:
                await stream.close()
                call.outcome = "left"
                return
    except openai.APIConnectionError:
        call.outcome = "cut"
        return
    except openai.APIError:
        call.outcome, call.cut_by_gateway = "cut", True
        return
    call.outcome = "complete" if finished and (call.usage is not None) == call.usage_wanted else "cut"


def _refusal(error: openai.APIStatusError) -> str:
    scope = re.search(r"\b(organization|team|key)/", error.message)
    dimension = re.search(r"\b(rpm|tpm)", error.message, re.IGNORECASE)
    if error.code == "rate_limit_exceeded" and scope and dimension:
        return f"{scope[1]} {dimension[1].lower()}"
    return str(error.code)


def plan(key: Key, gateway: int, calls: int, random_: random.Random) -> list[list[Call]]:
    """So many calls: a tenth embeddings, the rest half plain and half streams, of which some take their time, so that they are
    under way when something is killed; 5% repeat the idempotency key of the call before them, half of them at the same time as
    that; 5% leave in mid-stream."""
    words = "the road to the market has a gate and a fee for every cart that goes through it".split()
    planned: list[list[Call]] = []
    left = calls
    while left:
        prompt = " ".join(random_.choices(words, k=random_.randint(3, 40)))
        tokens = random_.randint(1, 32)
        draw = random_.random()

        def call(**more) -> Call:
            more.setdefault("model", random_.choice(("small", "odd")))
            more.setdefault("stream", False)
            more.setdefault("interval_ms", random_.choice((1, 2, 2, 25)))
            return Call(key=key.id, gateway=gateway, prompt=prompt, tokens=tokens, **more)

        # A draw is 1.05 calls in the mean.
        if draw < 0.055 and left >= 2:
            header = f"{random_.getrandbits(64):016x}"
            model, stream = random_.choice(("small", "odd")), random_.random() < 0.5
            pair = [call(model=model, stream=stream, idempotency=header) for _ in range(2)]
            planned += [pair] if random_.random() < 0.5 else [[one] for one in pair]
            left -= 2
            continue
        if draw < 0.11:
            tokens = random_.randint(16, 48)
            planned.append([call(stream=True, leave_after=random_.randint(1, 8))])
        elif draw < 0.21:
            planned.append([call(model="vector")])
        elif draw < 0.60:
            planned.append([call()])
        else:
            planned.append([call(stream=True, usage_wanted=random_.random() < 0.5)])
        left -= 1
    return planned
