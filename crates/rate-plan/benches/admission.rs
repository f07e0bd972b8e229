//! What one decision costs in memory, by the size of the tree: the reference reads all of it, the incremental
//! algorithm the path. Run with `cargo bench -p rate-plan`.

#![allow(missing_docs, reason = "criterion's macros define undocumented functions")]

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rate_plan::{
    Limits, Node, NodeWindow, RatePlan, RateTree, Scope, Usage, Window, admit, admit_on_path, rebuild,
};

/// One organization with teams, their projects and the projects' keys: (1 + teams * (1 + projects * (1 + keys)) nodes.
struct Shape {
    teams: usize,
    projects: usize,
    keys: usize,
}

/// 4, 34, 331, 1,321 and 10,000 nodes, each with paths of four.
const SHAPES: [Shape; 5] = [
    Shape { teams: 1, projects: 1, keys: 1 },
    Shape { teams: 3, projects: 2, keys: 4 },
    Shape { teams: 10, projects: 4, keys: 7 },
    Shape { teams: 40, projects: 4, keys: 7 },
    Shape { teams: 99, projects: 4, keys: 24 },
];

type Outcome<T> = Result<T, Box<dyn Error>>;

fn tree(shape: &Shape) -> Outcome<Arc<RateTree>> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut add = |kind: &str, parent: Option<usize>, limit: Option<u64>| -> Outcome<usize> {
        let scope = Scope::new(kind, nodes.len().to_string())?;
        nodes.push(Node { scope, parent, limits: Limits { rpm: limit, tpm: limit } });
        Ok(nodes.len() - 1)
    };
    let organization = add("organization", None, Some(1 << 50))?;
    for _ in 0..shape.teams {
        let team = add("team", Some(organization), Some(1 << 40))?;
        for _ in 0..shape.projects {
            let project = add("project", Some(team), None)?;
            for _ in 0..shape.keys {
                add("key", Some(project), Some(1 << 30))?;
            }
        }
    }
    Ok(Arc::new(RateTree::new(nodes)?))
}

fn bench(c: &mut Criterion) -> Outcome<()> {
    let mut group = c.benchmark_group("admission");
    for shape in &SHAPES {
        let tree = tree(shape)?;
        let plan: RatePlan = tree.plan(tree.len() - 1)?;
        let size = tree.len();

        let mut usage = vec![Usage::default(); size];
        group.bench_function(BenchmarkId::new("reference", size), |b| {
            b.iter(|| admit(black_box(&plan), &mut usage, black_box(0)));
        });
        let mut windows = [NodeWindow::default(); 4];
        group.bench_function(BenchmarkId::new("incremental", size), |b| {
            b.iter(|| admit_on_path(black_box(&plan), &mut windows, black_box(0)));
        });
        let mut window = Window::new(Arc::clone(&tree));
        group.bench_function(BenchmarkId::new("window", size), |b| {
            b.iter(|| window.admit(black_box(&plan), black_box(0)));
        });
        group.bench_function(BenchmarkId::new("rebuild", size), |b| {
            b.iter(|| rebuild(black_box(&tree), |node| window.nodes()[node].used));
        });
    }
    group.finish();
    Ok(())
}

fn admission(c: &mut Criterion) {
    if let Err(error) = bench(c) {
        panic!("{error}");
    }
}

criterion_group!(benches, admission);
criterion_main!(benches);
