//! The command: makes a run, or is one of its gateways.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use chaos::{Durability, GatewayOptions, Options, Sabotage};
use clap::{Args, Parser, Subcommand};

/// Faults on real servers under load, then an independent check of the books.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    run: RunArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// How long faults are made, in seconds (1 to 86400); from 60 on, every kind occurs
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Decides the faults, their order and what is sent [default: the time]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// What Redis keeps when it is killed
    #[arg(long, default_value = "always")]
    durability: Durability,
    /// Print one JSON object as the last line instead of the report for people
    #[arg(long)]
    json: bool,
    /// Keep journals and logs even when all is well
    #[arg(long)]
    keep: bool,
    /// The usage-flusher program [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    flusher: Option<PathBuf>,
    /// Gateway processes (1 to 16)
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=16))]
    gateways: u32,
    /// Flusher processes (1 to 16)
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=16))]
    flushers: u32,
    /// Requests that each gateway has under way (1 to 256)
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    tasks: u32,
    /// Plant a falsehood, to see that the check bites; may be repeated
    #[arg(long, hide = true)]
    sabotage: Vec<Sabotage>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// One of a run's gateways
    #[command(hide = true)]
    Gateway(GatewayArgs),
}

#[derive(Debug, Args)]
struct GatewayArgs {
    #[arg(long)]
    name: String,
    #[arg(long)]
    life: u32,
    #[arg(long)]
    folder: PathBuf,
    #[arg(long)]
    prefix: String,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    tasks: u32,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Some(Command::Gateway(args)) => gateway(args).map(|()| true),
        None => run(cli.run),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        // The report has said why.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: RunArgs) -> Result<bool> {
    let this = std::env::current_exe().context("finding this program")?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let options = Options {
        duration: Duration::from_secs(args.seconds),
        seed: args.seed.unwrap_or(now.as_secs()),
        durability: args.durability,
        flusher: args.flusher.unwrap_or_else(|| this.with_file_name("usage-flusher")),
        gateway: this,
        flushers: args.flushers,
        gateways: args.gateways,
        tasks: args.tasks,
        sabotage: args.sabotage,
        keep: args.keep,
    };
    eprintln!("seed {}", options.seed);
    let report = chaos::run(&options)?;
    if args.json {
        println!("{}", report.to_json());
    } else {
        println!("{report}");
    }
    Ok(report.passed())
}

fn gateway(args: GatewayArgs) -> Result<()> {
    let redis_url = std::env::var("TALLYWEIR_REDIS_URL").context("TALLYWEIR_REDIS_URL")?;
    let GatewayArgs { name, life, folder, prefix, seed, tasks } = args;
    let options = GatewayOptions { name, life, folder, redis_url, prefix, seed, tasks };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let served = runtime.block_on(chaos::gateway(options));
    // Standard input is read by a thread that nothing ends.
    runtime.shutdown_background();
    served
}
