"""The upstream that does as it is told, and the journal that it keeps of what it sent."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

import httpx2

from .process import Process


@dataclass(frozen=True)
class Sent:
    """What a mock has sent of one answer. `outcome` is None while it does, and for ever if it was killed then."""

    model: str
    prompt: int
    cached: int
    completion: int
    outcome: str | None


class Mock:
    def __init__(self, name: str, folder: Path):
        self.journal = folder / f"{name}.journal"
        # Bound once: a mock that is started again serves at the same address.
        self._process = Process(
            "mock-upstream", ["--journal", str(self.journal)], {}, folder / f"{name}.log", pipe_output=True
        )
        self.url = ""
        self.start()

    def start(self) -> None:
        listen = self.url.removeprefix("http://") or "127.0.0.1:0"
        self._process.start("--listen", listen)
        line = self._process.output.readline()
        if not line:
            raise RuntimeError(f"mock-upstream: {self._process.run_log()}")
        self.url = json.loads(line)["listening"]

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        self._process.stop()

    @contextmanager
    def told(self, what: str) -> Iterator[None]:
        """For all requests while the block runs, whatever they ask for themselves."""
        self.control({"mock": what})
        try:
            yield
        finally:
            self.control({})

    def control(self, what: dict) -> None:
        httpx2.post(f"{self.url}/control", json=what, timeout=10).raise_for_status()

    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.journal.read_text().splitlines()] if self.journal.exists() else []

    def sent(self) -> dict[str, list[Sent]]:
        """By request id. An id may come twice: a gateway may try once more."""
        found: dict[str, list[Sent]] = {}
        open_ones: dict[str, list[int]] = {}
        for line in self.lines():
            key = line["request_id"]
            entry = Sent(
                line["model"],
                line["prompt_tokens"],
                line["cached_tokens"],
                line["completion_tokens"],
                line.get("outcome"),
            )
            entries = found.setdefault(key, [])
            if line["event"] == "begin":
                open_ones.setdefault(key, []).append(len(entries))
                entries.append(entry)
            else:
                entries[open_ones[key].pop(0)] = entry
        return found

    def wait_for(self, predicate, within: float = 10.0) -> dict:
        """Waits for a line of the journal that fits, and returns it."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            for line in self.lines():
                if predicate(line):
                    return line
            time.sleep(0.01)
        raise TimeoutError("the mock's journal never said so")
