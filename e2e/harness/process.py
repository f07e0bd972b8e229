"""Programs of the project as processes that never outlive the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

_TARGET = Path(__file__).parents[2] / "target"
# `cargo xtask e2e` builds them and says where.
PROGRAMS = Path(os.environ.get("E2E_PROGRAMS", _TARGET / "debug"))
RUN = Path(os.environ.get("E2E_RUN", _TARGET / "e2e/run"))

# A destructor does not run when Python is killed; what always happens is that its end of this pipe is closed.
_LEASH = """
trap '' HUP INT TERM
pids=
while read -r pid; do pids="$pids $pid"; done
for pid in $pids; do kill -s KILL "$pid" 2>/dev/null; done
"""
_leash: subprocess.Popen | None = None


def _guard(pid: int) -> None:
    global _leash
    if _leash is None:
        _leash = subprocess.Popen(["sh", "-c", _LEASH], stdin=subprocess.PIPE, start_new_session=True)
    _leash.stdin.write(f"{pid}\n".encode())
    _leash.stdin.flush()


def program(name: str) -> str:
    return str(PROGRAMS / name)


def environment(given: dict[str, str]) -> dict[str, str]:
    """The caller's environment without settings of ours that would reach the programs by accident."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TALLYWEIR_")}
    return {**kept, **given}


def run(name: str, *arguments: str, env: dict[str, str]) -> str:
    """Runs a command to its end and returns what it printed; an error unless it succeeds."""
    done = subprocess.run(
        [program(name), *arguments], env=environment(env), capture_output=True, text=True, timeout=60
    )
    if done.returncode != 0:
        raise RuntimeError(f"{name} {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Process:
    """A program that runs until it is stopped, with a log file. It can be killed and started again."""

    def __init__(self, name: str, arguments: list[str], env: dict[str, str], log: Path, pipe_output: bool = False):
        self.name = name
        self.log = log
        self._arguments = arguments
        self._env = environment(env)
        self._pipe_output = pipe_output
        self._popen: subprocess.Popen | None = None
        self._run_start = 0

    def start(self, *more: str) -> None:
        if self._popen is not None and self._popen.stdout is not None:
            self._popen.stdout.close()
        with self.log.open("ab") as log:
            self._run_start = log.tell()
            self._popen = subprocess.Popen(
                [program(self.name), *self._arguments, *more],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if self._pipe_output else log,
                stderr=log,
                # Ctrl-C is for the tests, which then stop what they have started.
                start_new_session=True,
            )
        _guard(self._popen.pid)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def output(self):
        return self._popen.stdout

    def runs(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    def run_log(self) -> str:
        """What the current run has logged."""
        with self.log.open("rb") as log:
            log.seek(self._run_start)
            return log.read().decode(errors="replace")

    def wait_for_log(self, find, within: float = 20.0):
        """Waits until `find` finds something in the log of this run, and returns that."""
        deadline = time.monotonic() + within
        while True:
            found = find(self.run_log())
            if found is not None:
                return found
            if not self.runs():
                raise RuntimeError(f"{self.name} ended ({self._popen.returncode}):\n{self.run_log()[-2000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} did not get ready:\n{self.run_log()[-2000:]}")
            time.sleep(0.01)

    def signal(self, what: signal.Signals) -> None:
        self._popen.send_signal(what)

    def kill(self) -> None:
        """SIGKILL, as in a crash."""
        self._popen.kill()
        self._popen.wait()

    def wait(self, within: float = 15.0) -> int:
        """The exit code of a process that was told to stop."""
        return self._popen.wait(within)

    def stop(self, within: float = 15.0) -> int | None:
        """SIGTERM; the exit code."""
        if self.runs():
            self._popen.terminate()
        try:
            return self._popen.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            if self._popen.stdout is not None:
                self._popen.stdout.close()
