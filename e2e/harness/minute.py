"""Limits are per minute of the clock, which no test can turn."""

from __future__ import annotations

import time


def seconds_left() -> float:
    return 60 - time.time() % 60


def in_one_minute(seconds: float) -> None:
    """Returns when at least so much of the current minute is left."""
    if seconds_left() < seconds:
        time.sleep(seconds_left() + 0.05)
