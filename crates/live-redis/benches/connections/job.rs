//! What every side has to do: a script and arguments for it that a command line can carry.

use anyhow::{Context, Result};
use rate_plan::{Dimension, RatePlan};
use redis::{Script, ScriptInvocation};

use crate::common::server::field;

/// A script call that is the same each time.
pub(crate) struct Job {
    script: Script,
    key: String,
    arguments: Vec<String>,
}

impl Job {
    /// The counter of a minute, as `hit_rpm` calls it.
    pub(crate) fn hit() -> Self {
        Self {
            script: Script::new(include_str!("../../lua/hit.lua")),
            key: "baseline:{0}:rpm".to_owned(),
            arguments: vec!["1".to_owned(), "120000".to_owned()],
        }
    }

    /// One admission, as `admit_rate_plan` calls it when it batches nothing.
    ///
    /// `redis-benchmark` ends every argument at its first NUL byte, its standard input included, so the packed limits
    /// stand in the script as a constant, and text of the same length goes over the wire in their place. The version
    /// is whatever the first call brings; here, text of the length that versions have. All else is the script itself.
    pub(crate) fn admission(plan: &RatePlan) -> Result<Self> {
        let source = include_str!("../../lua/admit_one.lua");
        let rest = source.strip_prefix("#!lua\n").context("admit_one.lua names another engine")?;
        let (tree, path) = (plan.tree(), plan.path().as_slice());
        let mut terms = Vec::new();
        for &node in path {
            let limits = tree.nodes()[node].limits;
            for limit in [limits.rpm, limits.tpm] {
                terms.extend(limit.map_or(-1, u64::cast_signed).to_be_bytes());
            }
            for dimension in Dimension::ALL {
                terms.extend(tree.promised(node, dimension).to_be_bytes());
            }
        }
        let constant = terms.iter().fold(String::new(), |text, byte| text + &format!("\\{byte:03}"));
        let script = Script::new(&format!("#!lua\nARGV[2] = '{constant}'\n{rest}"));
        let mut arguments = vec!["v".repeat(65), "t".repeat(terms.len()), "500".to_owned(), String::new()];
        arguments.extend(path.iter().map(|&node| field(tree, node)));
        Ok(Self { script, key: "baseline:{0}:rate".to_owned(), arguments })
    }

    pub(crate) fn script(&self) -> &Script {
        &self.script
    }

    pub(crate) fn invocation(&self) -> ScriptInvocation<'_> {
        let mut invocation = self.script.key(&self.key);
        for argument in &self.arguments {
            invocation.arg(argument);
        }
        invocation
    }

    /// The words of the command.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec!["EVALSHA".to_owned(), self.script.get_hash().to_owned(), "1".to_owned()];
        words.push(self.key.clone());
        words.extend(self.arguments.iter().cloned());
        words
    }
}
