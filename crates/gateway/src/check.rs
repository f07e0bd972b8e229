//! The command `check`: what a configuration means.

use std::process::ExitCode;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};

use crate::cli::CheckOptions;
use crate::config::Config;

/// What a configuration that is none ends with.
const NO_CONFIGURATION: u8 = 2;

pub(crate) fn run(options: &CheckOptions) -> ExitCode {
    match Config::read(&options.config) {
        Ok(config) => {
            println!("{}", table(&config));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {}: {error}", options.config.display());
            ExitCode::from(NO_CONFIGURATION)
        }
    }
}

fn table(config: &Config) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header([
        "model",
        "kind",
        "tokenizer",
        "deployment",
        "upstream",
        "key",
        "input",
        "cached input",
        "output",
    ]);
    for model in &config.models {
        for deployment in &model.deployments {
            let key = if deployment.authorization.is_some() { "set" } else { "none" };
            table.add_row([
                model.name.to_string(),
                model.kind.to_string(),
                model.tokenizer.to_string(),
                deployment.id.to_string(),
                format!("{} as {}", deployment.url, deployment.upstream_model),
                key.to_owned(),
                deployment.prices.input.to_string(),
                deployment.prices.cached_input.to_string(),
                deployment.prices.output.to_string(),
            ]);
        }
    }
    table
}
