//! The committed query cache: what lets a build check SQL without a database.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;
use devstack::{Durability, PostgresServer};

use crate::process;

/// The table that sqlx keeps its migrations in; one query reads it.
const MIGRATIONS_TABLE: &str = "create table _sqlx_migrations (version bigint primary key, description text not null, \
     installed_on timestamptz not null default now(), success boolean not null, checksum bytea not null, \
     execution_time bigint not null)";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write .sqlx anew instead of checking it
    #[arg(long)]
    pub(crate) write: bool,
}

/// Migrates a fresh database, lets the query macros describe every query against it, and compares.
pub(crate) fn run(options: &Options) -> Result<()> {
    let postgres = PostgresServer::builder().durability(Durability::Fast).start()?;
    let database = postgres.database("queries")?;
    // By hand: the program that migrates cannot be built while the cache lacks a query.
    database.execute("make sqlx's table of migrations", MIGRATIONS_TABLE)?;
    for (name, statements) in read(&process::root().join("crates/iam-ledger/migrations"), ".up.sql")? {
        database.execute(&name, &statements)?;
    }

    let fresh = process::root().join("target/queries");
    if fresh.exists() {
        fs::remove_dir_all(&fresh).with_context(|| format!("emptying {}", fresh.display()))?;
    }
    fs::create_dir_all(&fresh).with_context(|| format!("creating {}", fresh.display()))?;
    // The flag means nothing to the code: it makes cargo run the macros although no source has changed.
    let args =
        ["rustc", "--quiet", "--locked", "--package", "iam-ledger", "--lib", "--profile", "check", "--"];
    let mut describe = process::cargo(&args);
    describe.args(["--cfg", &format!("described_at=\"{}\"", std::process::id())]);
    describe.env("DATABASE_URL", database.url()).env("SQLX_OFFLINE", "false").env("SQLX_OFFLINE_DIR", &fresh);
    process::run(&mut describe)?;

    let committed = process::root().join(".sqlx");
    let (described, cached) = (read(&fresh, ".json")?, read(&committed, ".json")?);
    if described.is_empty() {
        bail!("the query macros described nothing");
    }
    if options.write {
        fs::create_dir_all(&committed).with_context(|| format!("creating {}", committed.display()))?;
        for name in cached.keys().filter(|name| !described.contains_key(*name)) {
            fs::remove_file(committed.join(name)).with_context(|| format!("removing {name}"))?;
        }
        for (name, text) in &described {
            fs::write(committed.join(name), text).with_context(|| format!("writing {name}"))?;
        }
        eprintln!("{} queries written to .sqlx", described.len());
    } else if described != cached {
        bail!("the query cache .sqlx is out of date: run `cargo xtask queries --write` and commit it");
    } else {
        eprintln!("{} queries agree with .sqlx", described.len());
    }
    Ok(())
}

/// The files of a folder whose names end so, by name.
fn read(folder: &Path, ending: &str) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    if !folder.exists() {
        return Ok(files);
    }
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry.context("reading a folder")?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(ending) {
            files.insert(
                name,
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?,
            );
        }
    }
    Ok(files)
}
