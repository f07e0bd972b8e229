"""Fixtures: one stack for all scenarios, an organization of its own for each, and the books closed after every one."""

from __future__ import annotations

import os

import pytest

from harness.configuration import ODD, Configuration, Model
from harness.prices import Price
from harness.process import RUN
from harness.stack import Stack

KEEP = os.environ.get("E2E_KEEP") == "1"

# A model for each kind of trouble, so that one test's cooldown is no other's.
SCENARIOS = Configuration(
    models=(
        Model("small"),
        Model("odd", price=ODD),
        Model("vector", kind="embedding", price=Price("0.02", "0", "0")),
        Model("free", price=Price("0", "0", "0")),
        Model("paired", mocks=(0, 1)),
        *(Model(name) for name in ("failing", "garbled", "halved", "mute", "hung", "refusing", "slow")),
    ),
    routing={"allowed_failures": 3, "cooldown_seconds": 2, "affinity_seconds": 60},
    limits={
        "read_timeout_seconds": 2,
        "upstream_connect_timeout_seconds": 1,
        "upstream_timeout_seconds": 4,
        "upstream_idle_timeout_seconds": 2,
    },
)


def end(stack: Stack, request: pytest.FixtureRequest) -> None:
    """Everything must end cleanly, too. What is kept for a person is shown to that person."""
    captured = request.config.pluginmanager.getplugin("capturemanager")
    with captured.global_and_fixture_disabled():
        codes = stack.end(KEEP)
    assert set(codes.values()) == {0}, codes


@pytest.fixture(scope="session")
def running(request: pytest.FixtureRequest):
    """Started by the first test that needs it."""
    stack = Stack(RUN / "scenarios", SCENARIOS)
    yield stack
    end(stack, request)


@pytest.fixture
def stack(running: Stack):
    """The stack, with the books closed after the test."""
    yield running
    running.wait_ready()
    running.close_books()
