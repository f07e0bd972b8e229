"""Many calls at once, by threads as most clients have them."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import openai

from .caller import Caller


def burst(callers: list[Caller], calls: int, **request) -> Counter:
    """So many calls at once, spread over the callers: how many got through, and what refused the others."""

    def one(number: int) -> str:
        try:
            callers[number % len(callers)].chat(**request)
        except openai.APIStatusError as refused:
            return refused.code
        return "answered"

    with ThreadPoolExecutor(max_workers=16) as pool:
        return Counter(pool.map(one, range(calls)))
