"""A gateway process."""

from __future__ import annotations

import json
import time
from pathlib import Path

import httpx2

from .process import Process


class Gateway:
    def __init__(self, name: str, config: Path, env: dict[str, str], folder: Path, grace_ms: int = 4000):
        self.name = name
        spool = folder / f"{name}.spool"
        arguments = ["run", "--config", str(config), "--spool", str(spool)]
        arguments += ["--shutdown-grace-ms", str(grace_ms), "--log-format", "json"]
        self.process = Process("tallyweir-gateway", arguments, env, folder / f"{name}.log")
        self.url = ""
        self.start()

    def start(self) -> None:
        """Starts it, again at the same address, and waits until it serves."""
        self.process.start("--listen", self.url.removeprefix("http://") or "127.0.0.1:0")
        self.url = f"http://{self.process.wait_for_log(_listening)}"

    def restart_after_kill(self) -> None:
        self.process.kill()
        self.start()

    def get(self, path: str) -> httpx2.Response:
        return httpx2.get(self.url + path, timeout=10)

    def wait_ready(self, within: float = 20.0) -> None:
        """Waits until it says itself that it can serve: after an outage, its connections come back by themselves."""
        deadline = time.monotonic() + within
        while True:
            answer = self.get("/readyz")
            if answer.status_code == 200:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} is not ready: {answer.text}")
            time.sleep(0.02)

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels; 0 when it was never touched."""
        total = 0.0
        for line in self.get("/metrics").text.splitlines():
            if line.split("{")[0].split(" ")[0] == name:
                total += float(line.rsplit(" ", 1)[1])
        return total

    def stop(self) -> int | None:
        return self.process.stop()


def _listening(log: str) -> str | None:
    for line in log.splitlines():
        # A line that is being written is read again.
        if '"listening"' in line and line.endswith("}"):
            entry = json.loads(line)
            fields = entry.get("fields", entry)
            if fields.get("message") == "listening":
                return fields["address"]
    return None
