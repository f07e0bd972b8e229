"""What no client library would send, by plain HTTP. Each is a clear error, and nothing is billed."""

from __future__ import annotations

import json
import socket
import time

import httpx2
import pytest

from harness.stack import Stack

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "hello"}]


def post(stack: Stack, body: bytes | dict | list, secret: str | None, path: str = CHAT, **headers: str):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"content-type": "application/json", **headers}
    if secret is not None:
        sent.setdefault("authorization", f"Bearer {secret}")
    return httpx2.post(stack.gateways[0].url + path, content=content, headers=sent, timeout=20)


def refused(stack: Stack, tenant, answer: httpx2.Response, status: int) -> dict:
    assert answer.status_code == status, (answer.status_code, answer.text)
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    stack.tally(tenant.key()).refusal(answer.headers["x-request-id"])
    return error


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b'{"model": "small", "model": 3}',
        b"[" * 100_000,
        {"messages": MESSAGES},
        {"model": None, "messages": MESSAGES},
        {"model": "small"},
        {"model": "small", "messages": "hello"},
        {"model": "small", "messages": []},
        {"model": "small", "messages": [3]},
        {"model": "small", "messages": MESSAGES, "max_tokens": -1},
        {"model": "small", "messages": MESSAGES, "max_tokens": 1.5},
        {"model": "small", "messages": MESSAGES, "max_tokens": 10**30},
        {"model": "small", "messages": MESSAGES, "max_completion_tokens": "many"},
        {"model": "small", "messages": MESSAGES, "stream": "yes"},
        {"model": "small", "messages": MESSAGES, "n": 0},
    ],
    ids=lambda body: (body if isinstance(body, bytes) else json.dumps(body).encode())[:60].decode(errors="replace"),
)
def test_a_body_that_is_no_request_is_a_bad_request(stack: Stack, body):
    tenant = stack.tenant()
    answer = post(stack, body, tenant.key().secret)
    error = refused(stack, tenant, answer, 400)
    assert error["type"] == "invalid_request_error"


def test_embeddings_of_nothing_are_bad_requests(stack: Stack):
    tenant = stack.tenant()
    for body in ({"model": "vector"}, {"model": "vector", "input": {}}, {"model": "vector", "input": None}):
        answer = post(stack, body, tenant.key().secret, path="/v1/embeddings")
        refused(stack, tenant, answer, 400)


def test_a_body_of_two_mebibytes_is_too_large_whether_its_length_is_told_or_not(stack: Stack):
    tenant = stack.tenant()
    body = json.dumps({"model": "small", "messages": [{"role": "user", "content": "a" * 2 * 1024 * 1024}]}).encode()
    refused(stack, tenant, post(stack, body, tenant.key().secret), 413)
    pieces = (body[at : at + 65536] for at in range(0, len(body), 65536))
    headers = {"authorization": f"Bearer {tenant.key().secret}", "content-type": "application/json"}
    answer = httpx2.post(stack.gateways[0].url + CHAT, content=pieces, headers=headers, timeout=20)
    refused(stack, tenant, answer, 413)


def test_no_secret_and_other_schemes_are_unauthorized(stack: Stack):
    tenant = stack.tenant()
    secret = tenant.key().secret
    body = {"model": "small", "messages": MESSAGES}
    answers = [post(stack, body, None)]
    for value in ("", "Bearer", f"Basic {secret}", secret, f"Bearer {secret} {secret}"):
        answers.append(post(stack, body, None, authorization=value))
    for answer in answers:
        error = refused(stack, tenant, answer, 401)
        assert error["code"] == "invalid_api_key"
        assert secret not in answer.text


def test_a_path_or_method_that_is_not_served_is_said_to_be_so(stack: Stack):
    tenant = stack.tenant()
    headers = {"authorization": f"Bearer {tenant.key().secret}"}
    url = stack.gateways[0].url
    refused(stack, tenant, httpx2.get(f"{url}/v1/no/such/path", headers=headers), 404)
    refused(stack, tenant, httpx2.delete(f"{url}{CHAT}", headers=headers), 405)


def test_headers_beyond_their_bound_are_refused(stack: Stack):
    tenant = stack.tenant()
    body = {"model": "small", "messages": MESSAGES}
    answer = post(stack, body, tenant.key().secret, **{"x-filler": "a" * 32_768})
    assert answer.status_code == 431


def test_a_client_that_sends_its_body_too_slowly_is_not_waited_for(stack: Stack):
    tenant = stack.tenant()
    host, port = stack.gateways[0].url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=15) as slow:
        head = (
            f"POST {CHAT} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {tenant.key().secret}\r\n"
            "content-type: application/json\r\ncontent-length: 100\r\n\r\n{"
        )
        started = time.monotonic()
        slow.sendall(head.encode())
        status = slow.recv(4096).decode().split("\r\n")[0]
        assert "408" in status, status
        assert time.monotonic() - started < 8


def test_what_clients_sent_is_in_no_log(stack: Stack):
    tenant = stack.tenant()
    secret = tenant.key().secret
    canary = "canary-in-a-prompt"
    stack.caller(tenant.key()).chat(prompt=canary, tokens=2)
    stack.caller(tenant.key()).stream(prompt=canary, tokens=2)
    refused(stack, tenant, post(stack, f'{{"{canary}'.encode(), secret), 400)
    refused(stack, tenant, post(stack, {"model": "small", "messages": canary}, secret), 400)
    for gateway in stack.gateways:
        log = gateway.process.log.read_text()
        assert canary not in log and secret not in log
