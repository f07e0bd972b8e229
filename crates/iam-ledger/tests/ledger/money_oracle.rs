//! Random trees in the database, decided by the ledger and by two oracles: the rule written out over the whole tree, and the
//! reference algorithm of rates with small budgets as limits.

use std::sync::Arc;

use iam_ledger::{InFlight, NewIdentity};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rate_plan::{Decision, Limits, Node, RateTree, Scope, Usage};
use spend_queue::{ScopeRef, SpendEvent, Usd};

use crate::hot::Hot;
use crate::support::{Fixture, commit_time};

const TREES: usize = 40;

/// A scope of the tree, in picodollars.
#[derive(Clone)]
struct Money {
    scope: ScopeRef,
    parent: Option<usize>,
    budget: Option<i128>,
    settled: i128,
    hot: i128,
    held: i128,
}

impl Money {
    fn used(&self, rule: InFlight) -> i128 {
        self.settled
            + match rule {
                InFlight::Covered => self.hot.max(self.held),
                InFlight::Separate => self.hot + self.held,
            }
    }
}

/// What the rule says of one node of the path.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    used: i128,
    held_for_others: i128,
}

/// Reservations of the whole tree, then the path with child and credit, as the rule of rates reads.
fn oracle(tree: &[Money], leaf: usize, rule: InFlight) -> Vec<(usize, Expected)> {
    fn reservation(tree: &[Money], node: usize, rule: InFlight) -> i128 {
        match tree[node].budget {
            Some(budget) => (budget - tree[node].used(rule)).max(0),
            None => below(tree, node, rule),
        }
    }
    fn below(tree: &[Money], node: usize, rule: InFlight) -> i128 {
        (0..tree.len())
            .filter(|child| tree[*child].parent == Some(node))
            .map(|child| reservation(tree, child, rule))
            .sum()
    }
    let (mut path, mut child, mut credit, mut at) = (Vec::new(), None, 0, Some(leaf));
    while let Some(node) = at {
        let from_child = child.map_or(0, |child| reservation(tree, child, rule));
        let held = below(tree, node, rule) - from_child + (from_child - credit).max(0);
        if tree[node].budget.is_some() {
            credit = reservation(tree, node, rule);
        }
        path.push((node, Expected { used: tree[node].used(rule), held_for_others: held }));
        (child, at) = (Some(node), tree[node].parent);
    }
    path
}

/// An organization (or a user without one) with up to thirty scopes below.
fn random_tree(rng: &mut ChaCha8Rng, n: usize) -> (Vec<Money>, Vec<NewIdentity>) {
    let mut tree: Vec<Money> = Vec::new();
    let mut identities = Vec::new();
    let mut add = |rng: &mut ChaCha8Rng, identity: NewIdentity, parent: Option<usize>| {
        let large = if parent.is_none() { 2000 } else { 100 };
        let budget =
            rng.random_bool(0.55).then(|| if rng.random_bool(0.05) { 0 } else { rng.random_range(0..large) });
        let mut amount = || if rng.random_bool(0.5) { rng.random_range(1..60) } else { 0 };
        let scope = ScopeRef::new(identity.kind.as_str(), &*identity.id).unwrap();
        tree.push(Money { scope, parent, budget, settled: amount(), hot: amount(), held: amount() });
        identities.push(identity);
        tree.len() - 1
    };
    let id = |kind: &str, k: usize| format!("{kind}-{n}-{k}");
    if n % 5 == 4 {
        let root = add(rng, NewIdentity::user(id("solo", 0), ""), None);
        for k in 0..rng.random_range(1..6) {
            add(rng, NewIdentity::key(id("sk", k), "").of_user(id("solo", 0)), Some(root));
        }
        return (tree, identities);
    }
    let organization = id("o", 0);
    let root = add(rng, NewIdentity::organization(&*organization, ""), None);
    let teams: Vec<_> = (0..rng.random_range(0..4))
        .map(|k| add(rng, NewIdentity::team(id("t", k), "").of_organization(&*organization), Some(root)))
        .collect();
    let mut owners = Vec::new();
    for k in 0..rng.random_range(0..8) {
        let team = (!teams.is_empty() && rng.random_bool(0.7)).then(|| rng.random_range(0..teams.len()));
        let user = rng.random_bool(0.6);
        let name = id(if user { "u" } else { "p" }, k);
        let identity = if user { NewIdentity::user(&*name, "") } else { NewIdentity::project(&*name, "") };
        let identity = identity.of_organization(&*organization);
        let identity = match team {
            Some(team) => identity.of_team(id("t", team)),
            None => identity,
        };
        let at = add(rng, identity, Some(team.map_or(root, |team| teams[team])));
        owners.push((user, name, at));
    }
    for k in 0..rng.random_range(1..14) {
        let key = NewIdentity::key(id("k", k), "").of_organization(&*organization);
        let of_team = (!teams.is_empty() && rng.random_bool(0.4)).then(|| rng.random_range(0..teams.len()));
        let owner = (!owners.is_empty() && rng.random_bool(0.7))
            .then(|| owners[rng.random_range(0..owners.len())].clone());
        let (key, parent) = match owner {
            Some((true, name, at)) => (key.of_user(name), at),
            Some((false, name, at)) => (key.of_project(name), at),
            None => match of_team {
                Some(team) => (key.of_team(id("t", team)), teams[team]),
                None => (key, root),
            },
        };
        add(rng, key, Some(parent));
    }
    (tree, identities)
}

async fn store(fixture: &Fixture, tree: &[Money], identities: &[NewIdentity]) -> Hot {
    fixture.ledger.create_all(identities).await.unwrap();
    for Money { scope, settled, held, budget, .. } in tree {
        let id = format!("{scope}");
        if let Some(budget) = budget {
            // By hand: the rule must hold of what an allocation check would have refused, too.
            let table =
                if scope.kind() == "key" { "api_keys".to_owned() } else { format!("{}s", scope.kind()) };
            let set = format!("update {table} set budget_usd = $1::bigint * 0.000000000001 where id = $2");
            sqlx::query(sqlx::AssertSqlSafe(set))
                .bind(i64::try_from(*budget).unwrap())
                .bind(scope.id())
                .execute(&fixture.sql)
                .await
                .unwrap();
        }
        if *settled > 0 {
            sqlx::query(
                "insert into scope_spend values ($1, $2, '1970-01-01Z', $3::bigint * 0.000000000001, 1)",
            )
            .bind(scope.kind())
            .bind(scope.id())
            .bind(i64::try_from(*settled).unwrap())
            .execute(&fixture.sql)
            .await
            .unwrap();
        }
        if *held > 0 {
            sqlx::query("with h as (insert into holds values ($1, $2, $3, null, $4::bigint * 0.000000000001, 'held', '2026-03-01Z', '2026-04-01Z') \
                         returning *) insert into hold_reservations select request_id, kind, id, amount_usd, expires_at from h")
                .bind(&id).bind(scope.kind()).bind(scope.id()).bind(i64::try_from(*held).unwrap())
                .execute(&fixture.sql).await.unwrap();
        }
    }
    let events = tree.iter().filter(|money| money.hot > 0).map(|money| {
        let mut event = SpendEvent::new(money.scope.to_string(), "m", vec![money.scope.clone()]);
        event.cost = Some(Usd::from_picos(money.hot));
        event
    });
    Hot::of(events.collect())
}

#[tokio::test]
async fn the_ledger_decides_random_trees_as_the_rule_written_out_and_as_the_reference_of_rates() {
    let fixture = Fixture::new().await;
    let mut rng = ChaCha8Rng::seed_from_u64(20260305);
    let (mut levels, mut decisions, mut refused) = (0, 0, 0);
    for n in 0..TREES {
        let (tree, identities) = random_tree(&mut rng, n);
        let hot = store(&fixture, &tree, &identities).await;
        for leaf in 0..tree.len() {
            let rule = if rng.random_bool(0.5) { InFlight::Covered } else { InFlight::Separate };
            let quota =
                fixture.ledger.quota_path_with(&tree[leaf].scope, &hot, rule, commit_time()).await.unwrap();
            let bound = fixture.ledger.quota_lower_bound(&tree[leaf].scope, &hot, rule, commit_time()).await;
            for (bound, level) in bound.unwrap().levels.iter().zip(&quota.levels) {
                assert!(
                    bound.remaining <= level.remaining && bound.used == level.used,
                    "{bound:?} {level:?}"
                );
            }
            let expected = oracle(&tree, leaf, rule);
            assert_eq!(quota.levels.len(), expected.len(), "{}", tree[leaf].scope);
            for (level, (node, expected)) in quota.levels.iter().zip(&expected) {
                let money = &tree[*node];
                assert_eq!(level.scope, money.scope);
                assert_eq!(level.budget.map(Usd::picos), money.budget);
                if let Some(budget) = money.budget {
                    let got = Expected { used: level.used.picos(), held_for_others: level.reserved.picos() };
                    assert_eq!(got, *expected, "tree {n}, {} of {}", money.scope, tree[leaf].scope);
                    let left = (budget - expected.used - expected.held_for_others).max(0);
                    assert_eq!(level.remaining.map(Usd::picos), Some(left));
                    levels += 1;
                }
            }

            let nodes = tree.iter().map(|money| Node {
                scope: Scope::new(money.scope.kind(), money.scope.id()).unwrap(),
                parent: money.parent,
                limits: Limits { rpm: None, tpm: money.budget.map(|budget| u64::try_from(budget).unwrap()) },
            });
            let plan = Arc::new(RateTree::new(nodes.collect()).unwrap()).plan(leaf).unwrap();
            let usage: Vec<_> = tree
                .iter()
                .map(|money| Usage { rpm: 0, tpm: u64::try_from(money.used(rule)).unwrap() })
                .collect();
            for demand in [1, 7, 40, 150] {
                let ours = quota.refusing(Usd::from_picos(demand.into()));
                match rate_plan::check(&plan, &usage, demand).unwrap() {
                    Decision::Admitted(_) => assert_eq!(ours, None, "tree {n}, {}", tree[leaf].scope),
                    Decision::Rejected(rejection) => {
                        let level = ours.unwrap();
                        assert_eq!(level.scope, tree[rejection.node].scope);
                        assert_eq!(level.used.picos(), i128::from(rejection.used));
                        assert_eq!(level.reserved.picos(), i128::from(rejection.held_for_siblings));
                        refused += 1;
                    }
                }
                decisions += 1;
            }
        }
    }
    println!(
        "{TREES} trees, {levels} budgeted levels, {decisions} decisions, {refused} refused: no difference"
    );
    assert!(levels > 500 && refused > 200 && decisions - refused > 200);
}
