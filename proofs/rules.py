"""The arithmetic of admission, as terms that z3 reasons about and that numbers can be put into.

`Incremental` is crates/rate-plan/src/incremental.rs with what it calls; `Reference` is crates/rate-plan/src/reference.rs.
Each formula names its function there. crates/rate-plan/tests/proved.rs checks on vectors.jsonl that the two say the same.
"""

from dataclasses import dataclass

from z3 import And, If, Or

# rate_plan::MAX_LIMIT: up to here every integer is exact in the doubles of a Redis script.
MAX_LIMIT = 2**53 - 1


def positive(number):
    """u64::saturating_sub and saturating_add_signed: they stop at 0."""
    return If(number > 0, number, 0)


def least(one, other):
    return If(one < other, one, other)


@dataclass
class Node:
    """One node of a path in one dimension: configuration, counter, and what is kept beside it."""

    fixed: object
    limit: object  # of a fixed node; without meaning for a shared one
    promised: object  # S0
    used: object  # u
    released: object


@dataclass
class Moved:
    used: object
    released: object
    up: object  # by how much the node's own R has changed


class Reference:
    """R and S of every node from the counters alone, each time anew."""

    def unused(self, limit, used):
        """Limits::unused"""
        return positive(limit - used)

    def reservation(self, fixed, limit, used, below):
        """Reservations::new, `at`: R(v)"""
        return If(fixed, self.unused(limit, used), below)

    def held(self, below, from_child, credit):
        """ask_limits: what a fixed node holds for others than this request"""
        return below - from_child + positive(from_child - credit)

    def refuses(self, fixed, limit, used, held, demand):
        """ask_limits: the left side against the limit"""
        return And(fixed, Or(limit == 0, used + held + demand > limit))

    def credit(self, fixed, reservation, before):
        """ask_limits: R of the nearest fixed node below the next one"""
        return If(fixed, reservation, before)


class Incremental:
    """The same from the windows of the path."""

    def unused(self, limit, used):
        """Limits::unused"""
        return positive(limit - used)

    def promise(self, fixed, limit, promised):
        """Promises::new, `passed_up`: R0 of a node, what it adds to the S0 of its parent"""
        return If(fixed, limit, promised)

    def shrunk(self, node):
        """rebuild: what a node adds to `released` of its parent"""
        return If(node.fixed, least(node.limit, node.used), node.released)

    def below(self, node):
        """ask_limits: S(v)"""
        return node.promised - node.released

    def held(self, below, from_child, credit):
        """ask_limits: what does not come from the path, and what of the path's R is not this request's own"""
        return (below - from_child) + positive(from_child - credit)

    def refuses(self, node, held, demand):
        """ask_limits: the left side against the limit"""
        return And(node.fixed, Or(node.limit == 0, node.used + held + demand > node.limit))

    def from_child(self, node):
        """ask_limits: R of this node, for the next one"""
        return If(node.fixed, self.unused(node.limit, node.used), self.below(node))

    def credit(self, node, before):
        """ask_limits: R of the nearest fixed node, for the next one"""
        return If(node.fixed, self.unused(node.limit, node.used), before)

    def counter(self, used, change):
        """Adjustment::applied"""
        return positive(used + change)

    def moved(self, node, change, from_child):
        """moved: counter, `released`, and the change of R that goes up"""
        used = self.counter(node.used, change)
        difference = self.unused(node.limit, used) - self.unused(node.limit, node.used)
        return Moved(used, node.released - from_child, If(node.fixed, difference, from_child))
