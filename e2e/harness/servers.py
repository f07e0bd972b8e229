"""Private Redis and PostgreSQL servers, which tests stop, kill and start again."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from .process import environment, program


class Servers:
    """`devstack --control`. Its servers end with its standard input, so with us."""

    def __init__(self, log: Path):
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [program("devstack"), "--control", "redis:always", "postgres:durable"],
                env=environment({}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self.urls = {}
        for _ in range(2):
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError(f"devstack: {log.read_text()}")
            name, url, _ = line.split()
            self.urls[name] = url

    def tell(self, command: str) -> str:
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if answer.split(" ")[0] != "ok":
            raise RuntimeError(f"{command}: {answer or 'devstack is gone'}")
        return answer.removeprefix("ok").strip()

    def restart_after_kill(self, name: str) -> None:
        self.tell(f"kill {name}")
        self.tell(f"start {name}")

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """Without this server for as long as the block runs."""
        self.tell(f"stop {name}")
        try:
            yield
        finally:
            self.tell(f"start {name}")

    def end(self, keep: bool) -> None:
        if keep:
            for name, url in self.urls.items():
                print(f"\nkept for you: {name} {url}\n  to end it: {self.tell(f'keep {name}')}")
        # The end of its input ends it.
        with self._process:
            self._process.stdin.close()
            self._process.wait(30)
