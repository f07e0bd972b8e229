"""What is claimed of the rules, for all integers. One lemma a function; its text names the code and the rule of the design.

A node has any number of children. One of them may be on the path (R is `child` now and `child0` with nothing used); the
others together hold `beside` of `beside0`. That these sums stay within their bounds is a lemma itself.
"""

from dataclasses import dataclass

from z3 import And, Bool, Implies, Ints

from rules import MAX_LIMIT, Node, Reference, least

REFERENCE = Reference()


@dataclass
class Lemma:
    name: str
    where: str
    claim: str
    given: list
    then: object


@dataclass
class Place:
    """A node on a path and what its children hold."""

    node: Node
    child: object
    child0: object
    beside: object
    beside0: object
    credit: object
    valid: list

    @property
    def below(self):
        """S(v) by its definition: the sum of R over the children."""
        return self.child + self.beside

    def reservation(self):
        """R(v) by its definition."""
        return REFERENCE.reservation(self.node.fixed, self.node.limit, self.node.used, self.below)


def place():
    limit, used, child, child0, beside, beside0, credit = Ints("limit used child child0 beside beside0 credit")
    node = Node(Bool("fixed"), limit, child0 + beside0, used, child0 + beside0 - (child + beside))
    valid = [limit >= 0, used >= 0, child >= 0, child <= child0, beside >= 0, beside <= beside0]
    # The nearest fixed node below holds no more than what the path's child passes up of it.
    valid += [credit >= 0, credit <= child]
    return Place(node, child, child0, beside, beside0, credit, valid)


def after(at, rules, change, delta):
    """The place once the counter has moved by `change` and R of its path child by `delta`."""
    moved = rules.moved(at.node, change, delta)
    node = Node(at.node.fixed, at.node.limit, at.node.promised, moved.used, moved.released)
    return Place(node, at.child + delta, at.child0, at.beside, at.beside0, at.credit, at.valid), moved


def all_lemmas(rules):
    at = place()
    node, valid = at.node, at.valid
    change, delta, demand = Ints("change delta demand")
    child_moves = [at.child + delta >= 0, at.child + delta <= at.child0]
    then, moved = after(at, rules, change, delta)
    held = rules.held(rules.below(node), at.child, at.credit)
    held_then = rules.held(rules.below(then.node), then.child, at.credit + delta)
    refuses = rules.refuses(node, held, demand)
    lemmas = []

    def lemma(name, where, claim, given, conclusion):
        lemmas.append(Lemma(name, where, claim, given, conclusion))

    counter = rules.counter(node.used, change)
    lemma("counter-never-negative", "adjustment.rs applied", "a counter stops at 0 on its way down and is exact otherwise",
          [node.used >= 0], And(counter >= 0, Implies(node.used + change >= 0, counter == node.used + change)))
    lemma("unused-in-bounds", "limits.rs unused", "R of a fixed node lies between 0 and its limit",
          valid, And(rules.unused(node.limit, node.used) >= 0, rules.unused(node.limit, node.used) <= node.limit))
    lemma("unused-is-the-reference's", "limits.rs unused", "both algorithms have one R of a fixed node",
          valid, rules.unused(node.limit, node.used) == REFERENCE.unused(node.limit, node.used))
    lemma("promise-is-R-of-an-unused-node", "promises.rs new", "S0 is S with nothing used, so `released` begins at 0",
          valid, rules.promise(node.fixed, node.limit, node.promised)
          == REFERENCE.reservation(node.fixed, node.limit, 0, node.promised))
    total, total0, one, one0 = Ints("total total0 one one0")
    lemma("sums-stay-in-bounds", "promises.rs new, reference.rs Reservations::new",
          "one more child keeps 0 <= S <= S0, by induction for any number of children",
          [total >= 0, total <= total0, one >= 0, one <= one0], And(total + one >= 0, total + one <= total0 + one0))
    lemma("R-within-its-promise", "reference.rs Reservations::new", "0 <= R(v) <= R0(v), for fixed and shared nodes",
          valid, And(at.reservation() >= 0,
                     at.reservation() <= rules.promise(node.fixed, node.limit, node.promised)))
    lemma("rebuild-releases-what-R-lost", "rebuild.rs rebuild", "what is added to the parent's `released` is R0 - R",
          valid, rules.shrunk(node) == rules.promise(node.fixed, node.limit, node.promised) - at.reservation())
    lemma("S-is-S0-minus-released", "incremental.rs ask_limits", "S(v) read from the window is the sum over the children",
          valid, rules.below(node) == at.below)
    lemma("step-keeps-S", "incremental.rs moved", "after a move of any size in either direction S = S0 - released still",
          valid + child_moves, rules.below(then.node) == then.below)
    lemma("step-passes-the-change-of-R", "incremental.rs moved",
          "what goes up is R after minus R before, for fixed and shared nodes, which is the next node's premise",
          valid + child_moves, moved.up == then.reservation() - at.reservation())
    lemma("released-within-bounds", "incremental.rs moved",
          "0 <= released <= S0 after every move: no valid window is ever called stale half-way",
          valid + child_moves, And(moved.released >= 0, moved.released <= node.promised))
    lemma("next-child-within-its-promise", "incremental.rs moved", "R stays within 0..R0 for the parent's step",
          valid + child_moves, And(at.reservation() + moved.up >= 0, at.reservation() + moved.up
                                   <= rules.promise(node.fixed, node.limit, node.promised)))
    lemma("held-is-the-reference's", "incremental.rs ask_limits, reference.rs ask_limits",
          "what is held for siblings is the same number in both algorithms",
          valid, held == REFERENCE.held(at.below, at.child, at.credit))
    lemma("verdict-is-the-reference's", "incremental.rs ask_limits, reference.rs ask_limits",
          "both refuse the same demands",
          valid + [demand >= 0], refuses == REFERENCE.refuses(
              node.fixed, node.limit, node.used, REFERENCE.held(at.below, at.child, at.credit), demand))
    lemma("walk-carries-R", "incremental.rs ask_limits", "what the walk hands to the next node is R(v) of the reference",
          valid, rules.from_child(node) == at.reservation())
    lemma("walk-carries-credit", "incremental.rs ask_limits", "and the credit is that of the reference",
          valid, rules.credit(node, at.credit) == REFERENCE.credit(node.fixed, at.reservation(), at.credit))
    lemma("credit-within-R", "incremental.rs ask_limits", "0 <= credit <= R of the path's child, for the next node too",
          valid, And(rules.credit(node, at.credit) >= 0, rules.credit(node, at.credit) <= rules.from_child(node)))
    lemma("nothing-underflows", "incremental.rs ask_limits", "beside and held are never negative",
          valid, And(rules.below(node) >= 0, rules.below(node) - at.child >= 0, held >= 0))
    fits = [node.used <= MAX_LIMIT, node.promised <= MAX_LIMIT, node.limit <= MAX_LIMIT, demand >= 0, demand <= MAX_LIMIT]
    lemma("sums-fit-64-bits", "incremental.rs ask_limits, moved", "three numbers below 2^53 fit u64, a difference of two i64",
          valid + fits, And(node.used + held + demand < 2**63, held <= MAX_LIMIT,
                            rules.unused(node.limit, node.used) <= MAX_LIMIT))
    lemma("moves-keep-what-is-held", "incremental.rs module text",
          "admissions, settlements and refunds of one path leave what is held against it as it is",
          valid + child_moves + [at.credit + delta >= 0], held_then == held)
    next_credit = rules.credit(then.node, at.credit + delta) - rules.credit(node, at.credit)
    lemma("credit-moves-with-R", "incremental.rs module text", "R of the child and credit move by one amount at every step",
          valid + child_moves + [at.credit + delta >= 0], next_credit == moved.up)
    flat = [node.promised == 0, node.released == 0]
    lemma("flat-holds-nothing", "incremental.rs ask_limits", "independent roots hold nothing for each other",
          flat, rules.held(rules.below(node), 0, 0) == 0)
    # An admission: every counter rises by the demand; the nearest fixed node below gives what it has of it.
    drawn = -least(demand, at.credit)
    admitted, _ = after(at, rules, demand, drawn)
    lemma("admission-draws-on-credit", "incremental.rs moved",
          "an admission takes from R what it demands, up to the credit, at every step: the premise of the lemmas below",
          valid + [demand >= 0], rules.moved(node, demand, drawn).up == -least(demand, rules.credit(node, at.credit)))
    passes = [node.fixed, demand >= 0, refuses == False]  # noqa: E712 - a term, not a truth value
    lemma("admission-has-room", "incremental.rs admit_in",
          "where a limit admits, the counter stays within it: the write after the check cannot meet a full counter",
          valid + passes, And(admitted.node.used <= node.limit, admitted.node.used == node.used + demand))
    lemma("admission-spares-siblings", "reference.rs ask_limits",
          "after an admission, usage and what the siblings hold still fit the limit",
          valid + passes, admitted.node.used + at.beside <= node.limit)
    lemma("promises-stay-keepable", "reference.rs ask_limits",
          "a fixed node whose usage and promises fit its limit is left so by every admission",
          valid + passes + [node.used + at.below <= node.limit], admitted.node.used + rules.below(admitted.node) <= node.limit)
    lemma("zero-refuses", "reference.rs ask_limits", "a limit of 0 refuses a demand of 0 too",
          valid + [node.fixed, node.limit == 0, demand >= 0], refuses)
    back, _ = after(admitted, rules, -demand, -drawn)
    lemma("refund-undoes-admission", "incremental.rs moved", "giving an admission back restores the window and R exactly",
          valid + [demand >= 0], And(back.node.used == node.used, back.node.released == node.released,
                                     back.reservation() == at.reservation()))
    return lemmas

