"""Secrets change, keys do not; what is blocked is refused at once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from harness.stack import Stack
from harness.tenants import Key


def test_a_secret_is_replaced_under_load_without_a_failed_call_and_the_spend_stays_with_the_key(stack: Stack):
    tenant = stack.tenant()
    key = tenant.key()
    old, grace = key.secret, 2
    refused_at: list[float] = []
    stop, rotated = threading.Event(), threading.Event()

    def with_the_new_one(number: int) -> int:
        """Uses what is current; any refusal ends the thread and fails the test."""
        calls = 0
        while not stop.is_set():
            current = Key(key.id, key.secret, key.organization)
            stack.caller(current, stack.gateways[number % 2]).chat(tokens=1)
            calls += rotated.is_set()
        return calls

    def with_the_old_one() -> int:
        """Does not know of the change, until it is refused."""
        calls = 0
        caller = stack.caller(Key(key.id, old, key.organization))
        while not stop.is_set():
            try:
                caller.chat(tokens=1)
                calls += rotated.is_set()
            except openai.AuthenticationError:
                refused_at.append(time.monotonic())
                return calls
        return calls

    with ThreadPoolExecutor(max_workers=5) as pool:
        current = [pool.submit(with_the_new_one, number) for number in range(4)]
        left_behind = pool.submit(with_the_old_one)
        time.sleep(0.3)
        key.secret = stack.admin("key", "rotate", key.id, "--grace-seconds", str(grace))["secret"]
        changed = time.monotonic()
        rotated.set()
        try:
            deadline = changed + grace + 5
            while not refused_at and time.monotonic() < deadline:
                assert not any(one.done() for one in current), "a call with the current secret failed"
                time.sleep(0.02)
        finally:
            stop.set()
        assert all(one.result() > 0 for one in current)
        assert left_behind.result() > 0, "the old secret was refused within its grace"
    assert key.secret != old
    assert refused_at and grace - 1 <= refused_at[0] - changed <= grace + 2
    assert {charge.key for charge in stack.tally(key).charges.values()} == {key.id}


def test_a_blocked_key_is_refused_within_a_second_by_every_gateway_and_works_again_as_soon(stack: Stack):
    tenant = stack.tenant()
    key = tenant.key()
    callers = [stack.caller(key, gateway) for gateway in stack.gateways]
    for caller in callers:
        caller.chat(tokens=1)
    for command, answered in (("block", False), ("unblock", True)):
        stack.admin("key", command, key.id)
        since = time.monotonic()
        for caller in callers:
            while True:
                try:
                    caller.chat(tokens=1)
                    now_answered = True
                except openai.PermissionDeniedError as refused:
                    assert refused.code == "blocked" and f"key/{key.id}" in refused.message
                    now_answered = False
                if now_answered == answered:
                    break
                assert time.monotonic() - since < 1, f"{command} took longer than a second"


def test_a_tenant_that_is_described_again_keeps_its_secrets_to_itself(stack: Stack):
    tenant = stack.tenant()
    again = stack.admin("tenant", str(stack.folder / f"{tenant.id}.toml"))
    assert [key.get("secret") for key in again["keys"]] in ([], [None])
    assert tenant.key().secret not in str(again)
    stack.caller(tenant.key()).chat(tokens=1)


def test_a_deleted_key_is_unknown(stack: Stack):
    tenant = stack.tenant()
    caller = stack.caller(tenant.key())
    caller.chat(tokens=1)
    stack.ledger.change("delete from api_keys where id = %s", caller.key.id)
    deadline = time.monotonic() + 1
    with pytest.raises(openai.AuthenticationError):
        while time.monotonic() < deadline:
            caller.chat(tokens=1)
