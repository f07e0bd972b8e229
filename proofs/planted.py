"""Mistakes that the lemmas must refute: each changes one formula, and names a lemma that falls with it."""

from z3 import And, If

from rules import Incremental, Moved


class CreditForgotten(Incremental):
    def held(self, below, from_child, credit):
        return below


class CreditOfSharedNodes(Incremental):
    def credit(self, node, before):
        return If(node.fixed, self.unused(node.limit, node.used), self.below(node))


class CreditOfTheTopmost(Incremental):
    def credit(self, node, before):
        return If(before > 0, before, super().credit(node, before))


class ReleasedGrowsWithR(Incremental):
    def moved(self, node, change, from_child):
        right = super().moved(node, change, from_child)
        return Moved(right.used, node.released + from_child, right.up)


class SharedNodesPassNothingUp(Incremental):
    def moved(self, node, change, from_child):
        right = super().moved(node, change, from_child)
        return Moved(right.used, right.released, If(node.fixed, right.up, 0))


class FixedNodesPassTheDemandUp(Incremental):
    def moved(self, node, change, from_child):
        right = super().moved(node, change, from_child)
        return Moved(right.used, right.released, If(node.fixed, -change, right.up))


class CountersFallBelowZero(Incremental):
    def counter(self, used, change):
        return used + change


class UnusedFallsBelowZero(Incremental):
    def unused(self, limit, used):
        return limit - used


class RebuildReleasesTheUsage(Incremental):
    def shrunk(self, node):
        return If(node.fixed, node.used, node.released)


class SharedNodesPromiseNothing(Incremental):
    def promise(self, fixed, limit, promised):
        return If(fixed, limit, 0)


class TheLastUnitIsRefused(Incremental):
    def refuses(self, node, held, demand):
        return super().refuses(node, held, demand + 1)


class ZeroAdmitsZero(Incremental):
    def refuses(self, node, held, demand):
        return And(node.fixed, node.used + held + demand > node.limit)


PLANTED = {
    "credit-forgotten": (CreditForgotten, "held-is-the-reference's"),
    "credit-of-shared-nodes": (CreditOfSharedNodes, "walk-carries-credit"),
    "credit-of-the-topmost": (CreditOfTheTopmost, "walk-carries-credit"),
    "released-grows-with-R": (ReleasedGrowsWithR, "step-keeps-S"),
    "shared-nodes-pass-nothing-up": (SharedNodesPassNothingUp, "step-passes-the-change-of-R"),
    "fixed-nodes-pass-the-demand-up": (FixedNodesPassTheDemandUp, "step-passes-the-change-of-R"),
    "counters-fall-below-zero": (CountersFallBelowZero, "counter-never-negative"),
    "unused-falls-below-zero": (UnusedFallsBelowZero, "unused-in-bounds"),
    "rebuild-releases-the-usage": (RebuildReleasesTheUsage, "rebuild-releases-what-R-lost"),
    "shared-nodes-promise-nothing": (SharedNodesPromiseNothing, "promise-is-R-of-an-unused-node"),
    "the-last-unit-is-refused": (TheLastUnitIsRefused, "verdict-is-the-reference's"),
    "zero-admits-zero": (ZeroAdmitsZero, "zero-refuses"),
}
