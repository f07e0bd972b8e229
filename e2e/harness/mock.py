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

    def wait_for(self, predicate, known: int = 0, within: float = 10.0) -> dict:
        """Waits for a line of the journal that fits, behind the first `known`, and returns it."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            for line in self.lines()[known:]:
                if predicate(line):
                    return line
            time.sleep(0.01)
        raise TimeoutError("the mock's journal never said so")

    def wait_until_begun(self, model: str, known: int, number: int = 1) -> list[dict]:
        """Waits for so many requests for a model, behind the first `known` lines."""
        return self._wait_until("begin", model, known, number)

    def wait_until_ended(self, model: str, known: int, number: int = 1) -> list[dict]:
        """The same for the ends of their answers."""
        return self._wait_until("end", model, known, number)

    def _wait_until(self, event: str, model: str, known: int, number: int) -> list[dict]:
        found: list[dict] = []

        def enough(line: dict) -> bool:
            if line["event"] == event and line["model"] == model and line not in found:
                found.append(line)
            return len(found) >= number

        self.wait_for(enough, known)
        return found
