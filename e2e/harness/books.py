"""The check after every test: what the clients counted is what the ledger has, to the last digit, and the audit agrees."""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections import defaultdict
from decimal import Decimal

from .configuration import Configuration
from .ledger import Ledger, Row
from .mock import Mock, Sent
from .process import environment, program
from .tally import Tally

DRAINED_WITHIN = 30.0


def audit(env: dict[str, str]) -> dict:
    """`usage-flusher audit`, whose own exit code must say what its report says."""
    done = subprocess.run(
        [program("usage-flusher"), "audit", "--json", "--log-format", "text"],
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout, f"usage-flusher audit: {done.stderr}"
    report = json.loads(done.stdout)
    assert done.returncode == {"exact": 0, "differs": 1, "nothing_to_compare": 3}[report["verdict"]], done
    return report


def wait_until_drained(env: dict[str, str]) -> None:
    """Until nothing waits in Redis and in spools any more; the audit must find no other difference on the way."""
    deadline = time.monotonic() + DRAINED_WITHIN
    while True:
        report = audit(env)
        checks = {difference["check"] for difference in report["differences"]}
        assert checks <= {"spools"}, json.dumps(report, indent=1)
        if report["pending_entries"] == 0 and not checks:
            return
        assert time.monotonic() < deadline, f"not drained: {report}"
        time.sleep(0.05)


class Books:
    def __init__(self, env: dict[str, str], ledger: Ledger, configuration: Configuration, mocks: list[Mock]):
        self._env = env
        self._ledger = ledger
        self._configuration = configuration
        self._mocks = mocks

    def close(self, organization: str, tally: Tally) -> None:
        """Waits until all that must be charged has been, then compares everything."""
        self._wait_for(organization, tally.expected())
        wait_until_drained(self._env)
        rows = {row.request_id: row for row in self._ledger.rows(organization)}
        unexplained = set(rows) - tally.expected() - tally.perhaps
        assert not unexplained, [rows[one] for one in unexplained]
        assert not tally.refused & set(rows), "refused and charged all the same"
        for charge in tally.charges.values():
            row = rows[charge.request_id]
            has = (row.key, row.model, row.prompt, row.cached, row.completion, row.status, row.cost)
            wanted = (
                charge.key,
                charge.model,
                charge.prompt,
                charge.cached,
                charge.completion,
                charge.status,
                charge.cost,
            )
            assert has == wanted, f"{charge.request_id}: the ledger has {has}, its client counted {wanted}"
        self._check_parts(tally, rows)
        self._check_sums(organization, list(rows.values()))

    def _wait_for(self, organization: str, ids: set[str]) -> None:
        deadline = time.monotonic() + DRAINED_WITHIN
        while missing := ids - self._ledger.ids(organization):
            assert time.monotonic() < deadline, f"never charged: {sorted(missing)[:5]} and {len(missing)} in all"
            time.sleep(0.02)

    def _check_parts(self, tally: Tally, rows: dict[str, Row]) -> None:
        """Bounds by the mocks' journals, which no code of the gateway writes."""
        ids = set(tally.parts) | (tally.perhaps & set(rows))
        if not ids:
            return
        sent = self._sent(ids)
        for part in tally.parts.values():
            row = rows[part.request_id]
            assert (row.key, row.model) == (part.key, part.model), row
            self._check_against_journal(row, sent, part.received)
            if part.whole:
                assert (row.completion, row.status) == (part.received, "success"), row
        for request_id in tally.perhaps & set(rows):
            self._check_against_journal(rows[request_id], sent, 0)

    def _sent(self, ids: set[str]) -> dict[str, list[Sent]]:
        """What the mocks sent under these ids. A mock may notice a moment after the gateway that it is to stop."""
        deadline = time.monotonic() + 5
        while True:
            sent: dict[str, list[Sent]] = {}
            for mock in self._mocks:
                for request_id, entries in mock.sent().items():
                    sent.setdefault(request_id, []).extend(entries)
            ended = all(entry.outcome is not None for one in ids for entry in sent.get(one, []))
            if ended or time.monotonic() > deadline:
                return sent
            time.sleep(0.02)

    def _check_against_journal(self, row: Row, sent: dict[str, list[Sent]], received: int) -> None:
        entries = sent.get(row.request_id)
        assert entries, f"{row.request_id} was charged and never dispatched"
        # A mock that was killed did not say how much it had sent.
        most = max(math.inf if entry.outcome is None else entry.completion for entry in entries)
        assert received <= row.completion <= most, f"client got {received}, ledger {row.completion}, mock sent {most}"
        assert row.prompt in {entry.prompt for entry in entries}, (row, entries)
        assert row.cost == self._configuration.cost(row.model, row.prompt, row.cached, row.completion), row

    def _check_sums(self, organization: str, rows: list[Row]) -> None:
        """The totals that budgets and reports are read from are the sums of the events."""
        wanted: dict[str, Decimal] = defaultdict(Decimal)
        for row in rows:
            for scope in row.scopes:
                wanted[scope] += row.cost
            assert f"organization/{organization}" in row.scopes and f"key/{row.key}" in row.scopes, row
        assert self._ledger.settled(list(wanted)) == {scope: cost for scope, cost in wanted.items() if cost}
        assert self._ledger.by_day(organization) == (
            len(rows),
            sum(row.prompt for row in rows),
            sum(row.completion for row in rows),
            sum((row.cost for row in rows), Decimal()),
        )
