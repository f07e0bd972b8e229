"""Kills every process once on the way, and starts it again at once."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Callable

from harness.stack import Stack


@dataclass
class Killing:
    name: str
    killed: float = 0.0
    back: float = 0.0


class Killer:
    def __init__(self, stack: Stack, calls: int):
        self._stack = stack
        self._finished = 0
        self._reached = asyncio.Condition()
        first, second = stack.gateways
        self._steps: list[tuple[Killing, Callable[[], None]]] = [
            (Killing(first.name), first.restart_after_kill),
            (Killing("flusher"), self._flusher),
            (Killing("redis"), lambda: stack.servers.restart_after_kill("redis")),
            (Killing(second.name), second.restart_after_kill),
            (Killing("mock"), self._mock),
            (Killing("postgres"), lambda: stack.servers.restart_after_kill("postgres")),
        ]
        self._marks = [calls * (at + 1) // (len(self._steps) + 1) for at in range(len(self._steps))]
        self.killings = [killing for killing, _ in self._steps]

    def _flusher(self) -> None:
        self._stack.flusher.kill()
        self._stack.flusher.start()

    def _mock(self) -> None:
        self._stack.mocks[0].kill()
        self._stack.mocks[0].start()

    def done(self, calls: int) -> None:
        """Some calls have ended."""
        self._finished += calls
        asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        async with self._reached:
            self._reached.notify_all()

    async def run(self) -> None:
        for (killing, step), mark in zip(self._steps, self._marks):
            async with self._reached:
                await self._reached.wait_for(lambda: self._finished >= mark)
            killing.killed = time.time()
            await asyncio.to_thread(step)
            killing.back = time.time()
