"""The trial's figures, for people and as one line of JSON."""

from __future__ import annotations

import json
from decimal import Decimal

from .call import Call
from .judge import Verdict
from .killer import Killing


def figures(
    verdict: Verdict, calls: list[Call], seconds: float, killings: list[Killing], ledger_usd: Decimal, rows: int
) -> dict:
    requests = len(calls)
    idempotent = [call.idempotency for call in calls if call.idempotency]
    return {
        "requests": requests,
        "repeated_ids": len(idempotent) - len(set(idempotent)),
        "leaving_early": sum(call.leave_after is not None for call in calls),
        "seconds": round(seconds, 1),
        "requests_per_second": round(requests / seconds, 1),
        "killed": [killing.name for killing in killings if killing.back],
        "calls": dict(sorted(verdict.calls.items())),
        "charged": dict(sorted(verdict.charged.items())),
        "charged_usd": {kind: str(usd) for kind, usd in sorted(verdict.usd.items())},
        "refused": dict(sorted(verdict.refusals.items())),
        "exchanges_without_answer": verdict.lost_exchanges,
        "bills_known_to_no_client": verdict.orphans,
        "ledger_rows": rows,
        "ledger_usd": str(ledger_usd),
        "fullest_minute": {scope: list(used) for scope, used in sorted(verdict.fullest.items())},
        "faults": len(verdict.faults),
    }


def show(figures: dict, limits: dict[str, tuple[int | None, int | None]]) -> None:
    print(f"\n\n{figures['requests']} requests in {figures['seconds']} s ({figures['requests_per_second']}/s)")
    print(f"{figures['repeated_ids']} repeat an idempotency key, {figures['leaving_early']} leave in mid-stream")
    print(f"killed and started again: {', '.join(figures['killed'])}\n")
    line = "{:<28} {:>8} {:>9} {:>18}"
    print(line.format("calls", "number", "charged", "USD"))
    for kind in sorted({*figures["calls"], *figures["charged"]}):
        charged, usd = figures["charged"].get(kind, 0), figures["charged_usd"].get(kind, "0")
        print(line.format(kind, figures["calls"].get(kind, "-"), charged, usd))
    print(line.format("ledger", "", figures["ledger_rows"], figures["ledger_usd"]))
    print(f"\n{'refused by':<28} {'number':>8}")
    for refusal, number in figures["refused"].items():
        print(f"{refusal:<28} {number:>8}")
    print(f"\n{'limit per minute':<28} {'requests':>16} {'tokens':>16}")
    for scope, (requests, tokens) in figures["fullest_minute"].items():
        rpm, tpm = (limit if limit is not None else "-" for limit in limits[scope])
        print(f"{scope:<28} {f'{requests} of {rpm}':>16} {f'{tokens} of {tpm}':>16}")
    print("\n" + json.dumps(figures))
