"""Upstreams that fail in every way, and clients that leave."""

from __future__ import annotations

import json
import socket
import time

import openai
import pytest

from harness.caller import request
from harness.stack import Stack
from harness.tally import Part


@pytest.mark.parametrize("gateway", [0, 1])
def test_a_client_that_leaves_in_mid_stream_pays_once_for_what_was_produced(stack: Stack, gateway: int):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key(), stack.gateways[gateway])
    for received in (1, 5):
        got = caller.stream(mock="interval_ms=5", tokens=400, leave_after=received)
        assert len(got.texts) == received
        # The upstream was told to stop: it did not go on to the end.
        line = stack.mocks[0].wait_for(
            lambda line: line["request_id"] == got.request_id and line["event"] == "end"
        )
        assert line["outcome"] == "client_gone"
        assert received <= line["completion_tokens"] < 400


@pytest.mark.parametrize("prompt", ["<|endoftext|> and <|im_start|>", "naïve 😀 漢字 \u200b\u0000", " " * 300 + "\n\n\t", ""])
def test_a_prompt_of_odd_characters_is_counted_as_the_upstream_counts_it(stack: Stack, prompt: str):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    # By the gateway itself, since no usage comes any more; the books compare with the mock's journal.
    caller.stream(prompt, mock="interval_ms=5", tokens=400, leave_after=2)
    caller.stream(prompt, mock="no_usage", tokens=2)


def test_a_client_that_takes_nothing_is_not_waited_for_and_pays_for_what_was_produced(stack: Stack):
    tenant = stack.tenant()
    key = tenant.key()
    host, port = stack.gateways[0].url.removeprefix("http://").split(":")
    arguments = request("Tell me everything", "small", "interval_ms=0", 100_000, {"stream": True})
    body = json.dumps(arguments).encode()
    with socket.socket() as idle:
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        idle.settimeout(20)
        idle.connect((host, int(port)))
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key.secret}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        idle.sendall(head.encode() + body)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += idle.recv(512)
        headers = dict(line.split(": ", 1) for line in answer.decode().split("\r\n\r\n")[0].split("\r\n")[1:])
        request_id = headers["x-request-id"]
        stack.tally(key).part(Part(request_id, key.id, "small", 0, whole=False))
        # The bill comes while the connection is still open and nothing is read from it.
        stack.books.close(tenant.id, stack.tally(key))
    (row,) = stack.ledger.rows(tenant.id)
    assert row.status == "partial" and row.completion < 100_000


def test_an_error_of_the_upstream_that_is_the_clients_own_is_passed_on(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    for status, error in ((400, openai.BadRequestError), (422, openai.UnprocessableEntityError)):
        with pytest.raises(error) as refused:
            caller.chat(model="refusing", mock=f"status={status}")
        assert refused.value.status_code == status


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    ("model", "mock", "status", "code"),
    [
        ("failing", "status=500", 502, "upstream_error"),
        ("garbled", "garbage", 502, "upstream_error"),
        ("mute", "nothing", 502, "upstream_error"),
        ("hung", "hang", 504, "upstream_timeout"),
    ],
)
def test_an_upstream_that_answers_nothing_of_use_is_a_gateway_error_and_costs_nothing(
    stack: Stack, model: str, mock: str, status: int, code: str, stream: bool
):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    with pytest.raises(openai.InternalServerError) as refused:
        (caller.stream if stream else caller.chat)(model=model, mock=mock)
    assert (refused.value.status_code, refused.value.code) == (status, code)
    # Neither the upstream's address nor its words.
    assert "127.0.0.1" not in refused.value.message


def test_half_a_plain_answer_is_a_gateway_error(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    with pytest.raises(openai.InternalServerError) as refused:
        caller.chat(model="halved", mock="half")
    assert (refused.value.status_code, refused.value.code) == (502, "upstream_error")


def test_half_a_stream_is_an_error_at_its_end_and_charged_for_that_half(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    with pytest.raises(openai.APIError) as broken:
        caller.stream(model="halved", mock="half", tokens=20)
    assert broken.value.code == "upstream_error"
    (part,) = caller.tally.parts.values()
    assert part.received == 10


def test_a_stream_that_falls_silent_is_ended_in_time_and_charged_for_its_prompt(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    started = time.monotonic()
    with pytest.raises(openai.APIError) as silent:
        caller.stream(model="halved", mock="interval_ms=20000", tokens=5)
    assert silent.value.code == "upstream_timeout"
    assert time.monotonic() - started < 10
    # The role came at once and no token ever did.
    (part,) = caller.tally.parts.values()
    assert part.received == 0


def test_a_deployment_that_fails_is_replaced_by_the_other_and_then_left_alone(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    tried_at_all = 0
    for failing, working in ((0, "paired-b"), (1, "paired-a")):
        mock = stack.mocks[failing]
        tried_before = len(mock.lines())
        with mock.told("status=503"):
            for _ in range(8):
                _, headers = caller.chat_with_headers(model="paired", tokens=1)
                assert headers["x-tallyweir-deployment"] == working
        tried = [line for line in mock.lines()[tried_before:] if line["event"] == "begin"]
        assert len(tried) <= 4, "a deployment that failed three times was still asked"
        tried_at_all += len(tried)
        # Until its cooldown is over: the next round needs both.
        time.sleep(2.1)
    assert tried_at_all, "no deployment that failed was ever asked"


def test_with_every_deployment_failing_each_is_asked_once_and_nothing_is_charged(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    with stack.mocks[0].told("nothing"), stack.mocks[1].told("nothing"):
        with pytest.raises(openai.InternalServerError) as refused:
            caller.chat(model="paired")
    assert refused.value.status_code == 502
    asked = [
        line
        for mock in stack.mocks
        for line in mock.lines()
        if line["request_id"] == refused.value.request_id and line["event"] == "begin"
    ]
    assert len(asked) <= 2
