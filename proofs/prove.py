"""Proves the step of incremental admission for all integers. Run by `cargo xtask proofs`.

Exits with 1 and a counterexample when a lemma does not hold, when its premises contradict each other (it would prove
nothing), when a planted mistake is not refuted, or when the table of vectors is not what the formulas give.
"""

import argparse
import sys
import time

from z3 import And, Not, Solver, sat, unsat

import planted
import vectors
from lemmas import all_lemmas
from rules import Incremental

TIMEOUT_MS = 60_000


def solve(terms):
    solver = Solver()
    solver.set("timeout", TIMEOUT_MS)
    solver.add(*terms)
    return solver.check(), solver


def counterexample(lemma):
    """None when the lemma is proved, else why it is not."""
    if solve(lemma.given)[0] != sat:
        return "its premises cannot be met: it says nothing"
    answer, solver = solve([*lemma.given, Not(And(lemma.then))])
    if answer == unsat:
        return None
    return str(solver.model()).replace("\n", "") if answer == sat else f"unknown: {solver.reason_unknown()}"


def prove(rules):
    """Prints each lemma; answers the names of those that do not hold."""
    failed = []
    for lemma in all_lemmas(rules):
        why = counterexample(lemma)
        print(f"{lemma.name:32} {lemma.where:52} {'proved' if why is None else f'REFUTED: {why}'}")
        if why is not None:
            print(f"    {lemma.claim}")
            failed.append(lemma.name)
    return failed


def self_check():
    """Answers the planted mistakes that their lemma did not notice."""
    unnoticed = []
    for name, (rules, expected) in planted.PLANTED.items():
        lemma = next(lemma for lemma in all_lemmas(rules()) if lemma.name == expected)
        why = counterexample(lemma)
        print(f"planted {name:32} {'NOT NOTICED' if why is None else f'refutes {expected}'}")
        if why is None or why.startswith(("its premises", "unknown")):
            unnoticed.append(name)
    return unnoticed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--planted", choices=planted.PLANTED, help="prove with this mistake in a formula: must fail")
    parser.add_argument("--write-vectors", action="store_true", help="write vectors.jsonl anew")
    options = parser.parse_args()
    started = time.monotonic()
    if options.write_vectors:
        vectors.TABLE.write_text(vectors.table())
        return 0
    if options.planted:
        return 1 if prove(planted.PLANTED[options.planted][0]()) else 0
    failed, unnoticed = prove(Incremental()), self_check()
    if vectors.stale():
        failed.append("vectors.jsonl (write it anew with --write-vectors, then run crates/rate-plan/tests/proved.rs)")
    for name in failed + unnoticed:
        print(f"error: {name}", file=sys.stderr)
    print(f"{len(all_lemmas(Incremental()))} lemmas, {len(planted.PLANTED)} planted mistakes, {time.monotonic() - started:.1f} s")
    return 1 if failed or unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
