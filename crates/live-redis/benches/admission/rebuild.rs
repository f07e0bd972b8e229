//! How long a change of the tree in mid-minute holds the server up.

use anyhow::{Result, ensure};

use crate::common::program::Effort;
use crate::common::report::{Bound, Figure, Section, Series};
use crate::common::server::{Server, field};
use crate::common::shape::Shape;
use crate::common::witness::Witness;

const NODES: usize = 100_000;
/// How many of the nodes were used in this minute.
const USED: [usize; 3] = [100, 10_000, 100_000];
/// The longest that Redis may be held up at a time.
const LONGEST_MILLIS: f64 = 200.0;
/// Fields of one command that fills a hash.
const PIECE: usize = 1_000;

pub(crate) async fn measure(server: &Server, effort: Effort) -> Result<Section> {
    let shape = Shape::of(NODES)?;
    let mut section = Section::new(
        "Rebuild after a change of the tree",
        "100,000 nodes, one admission with another version",
    );
    // The scripts are loaded by a rebuild that is not measured.
    once(server, &shape, USED[0]).await?;
    for used in USED {
        let (mut script, mut fields, mut waited) = (Series::default(), Series::default(), Series::default());
        for round in 1..=effort.rounds {
            let cost = once(server, &shape, used).await?;
            eprintln!(
                "rebuild {round}/{}: {used} nodes used: script {:.1} ms, HKEYS {:.1} ms, longest PING {:.1} ms",
                effort.rounds, cost.script, cost.fields, cost.waited
            );
            script.push(cost.script);
            fields.push(cost.fields);
            waited.push(cost.waited);
        }
        let bound = Bound::AtMost(LONGEST_MILLIS);
        section.push(Figure::new(format!("script, {used} nodes used"), "ms", script).required(bound));
        section
            .push(Figure::new(format!("HKEYS before it, {used} nodes used"), "ms", fields).required(bound));
        section.push(
            Figure::new(format!("longest PING meanwhile, {used} nodes used"), "ms", waited).required(bound),
        );
    }
    Ok(section)
}

/// Milliseconds.
struct Cost {
    script: f64,
    fields: f64,
    waited: f64,
}

async fn once(server: &Server, shape: &Shape, used: usize) -> Result<Cost> {
    let mut plain = server.plain.clone();
    redis::cmd("FLUSHALL").arg("SYNC").query_async::<()>(&mut plain).await?;
    let now = server.fresh_minute();
    let key = server.key(&shape.tree, now);
    // Another version, and some use of the first nodes; those of a tree come with their ancestors.
    redis::cmd("HSET").arg(&key).arg("v").arg(&[0_u8; 16][..]).query_async::<()>(&mut plain).await?;
    let packed: Vec<u8> = [3_u64, 900, 0, 0].iter().flat_map(|number| number.to_be_bytes()).collect();
    let nodes: Vec<usize> = (0..used).collect();
    for piece in nodes.chunks(PIECE) {
        let mut fill = redis::cmd("HSET");
        fill.arg(&key);
        for &node in piece {
            fill.arg(field(&shape.tree, node)).arg(&packed);
        }
        fill.query_async::<()>(&mut plain).await?;
    }

    let witness = Witness::start(server.url())?;
    server.reset_statistics().await?;
    let admission = server.single.admit_rate_plan(&shape.keys[0], 10, now).await?;
    ensure!(admission.is_admitted(), "limits are too low for the bench");
    let waited = witness.stop()?;
    // The call that only found out about the version is among them; it takes microseconds.
    let script = server.calls("evalsha").await?.micros / 1_000.0;
    let fields = server.calls("hkeys").await?.micros / 1_000.0;
    Ok(Cost { script, fields, waited })
}
