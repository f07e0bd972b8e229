"""The table that ties the formulas to the code: paths, and what the formulas make of them.

The Rust test beside it (crates/rate-plan/tests/proved.rs) gives the same paths to `rebuild`, `check`, `check_on_path` and
`adjust_on_path`. A formula that is changed here alone, or code that is changed there alone, fails one of the two.
"""

import json
import random
from pathlib import Path

from z3 import is_int_value, is_true, simplify

from rules import MAX_LIMIT, Incremental, Node

TABLE = Path(__file__).with_name("vectors.jsonl")
ROWS = 160


def number(term):
    value = simplify(term) if not isinstance(term, int) else term
    assert isinstance(value, int) or is_int_value(value), value
    return value if isinstance(value, int) else value.as_long()


def truth(term):
    return is_true(simplify(term))


def outcome(path, demand, change):
    """What the formulas make of a path, leaf to root."""
    rules = Incremental()
    windows, verdict, moved = [], "admitted", []
    from_child, promised_child, credit, shrunk, up = 0, 0, 0, 0, 0
    for at, step in enumerate(path):
        fixed, limit = step["limit"] is not None, step["limit"] or 0
        sibling = Node(True, step["sibling"], 0, step["sibling_used"], 0)
        promised = promised_child + number(rules.promise(True, step["sibling"], 0))
        released = shrunk + number(rules.shrunk(sibling))
        node = Node(fixed, limit, promised, step["used"], released)
        windows.append(released)
        held = number(rules.held(rules.below(node), from_child, credit))
        if verdict == "admitted" and truth(rules.refuses(node, held, demand)):
            verdict = {"node": at, "held": held}
        then = rules.moved(node, change, up)
        moved.append([number(then.used), number(then.released)])
        from_child, credit = number(rules.from_child(node)), number(rules.credit(node, credit))
        promised_child, shrunk = number(rules.promise(fixed, limit, promised)), number(rules.shrunk(node))
        up = number(then.up)
    return {"released": windows, "verdict": verdict, "moved": moved}


def row(dice):
    largest = dice.choice([3, 12, 1000, 2**40])
    path = []
    for _ in range(dice.randint(1, 5)):
        limit = None if dice.random() < 0.35 else dice.randint(0, 3 * largest)
        path.append({"limit": limit, "used": dice.randint(0, largest), "sibling": dice.choice([0, dice.randint(0, largest)]),
                     "sibling_used": dice.randint(0, largest)})
    demand, change = dice.randint(0, largest), dice.randint(-2 * largest, largest)
    return {"path": path, "demand": demand, "change": change}


def edges():
    most = {"limit": MAX_LIMIT, "used": 0, "sibling": 0, "sibling_used": 0}
    yield {"path": [most], "demand": MAX_LIMIT, "change": MAX_LIMIT}
    yield {"path": [most, most], "demand": MAX_LIMIT, "change": MAX_LIMIT}
    yield {"path": [{**most, "used": MAX_LIMIT}], "demand": 0, "change": -MAX_LIMIT}
    yield {"path": [{**most, "limit": 0}], "demand": 0, "change": 0}
    yield {"path": [{**most, "limit": None, "sibling": MAX_LIMIT, "sibling_used": MAX_LIMIT}, most], "demand": 1, "change": -1}


def table():
    dice = random.Random(5)
    rows = list(edges()) + [row(dice) for _ in range(ROWS)]
    return "".join(json.dumps({**case, **outcome(**case)}) + "\n" for case in rows)


def stale():
    return TABLE.read_text() != table()
