//! Ways to commit a batch: row by row, one array a column, one array of rows, binary COPY, and the same work in bare SQL by
//! `psql`, their rounds alternating on one durable server.
//!
//! `cargo xtask bench commit` runs it; `docs/decisions/0009-a-batch-is-one-array-of-rows.md` explains the figures.

mod copy;
mod machine;
mod production;
mod program;
mod psql;
mod row_by_row;
mod rows;
mod staging;
mod sums;
mod unnest;
mod ways;
mod work;

use bench_frame::report;

fn main() -> anyhow::Result<()> {
    program::run()
}
