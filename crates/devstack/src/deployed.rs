//! Programs as deployment files run them: command line, environment and users, read from Kubernetes manifests and systemd units.

use std::collections::BTreeMap;

/// How one container or unit runs a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployed {
    /// The program's name.
    pub program: String,
    /// Its arguments.
    pub words: Vec<String>,
    /// Its environment, as the file says it: paths are those of the container or unit.
    pub env: BTreeMap<String, String>,
    /// The user of Redis in the URL that the file's comments tell to put into the secret; empty where there is none.
    pub redis_user: String,
    /// The role of PostgreSQL, likewise.
    pub database_role: String,
}

impl Deployed {
    /// The containers of a manifest that run an image of ours. A document is expected to have one container.
    pub fn in_manifest(manifest: &str) -> Vec<Self> {
        manifest.split("\n---\n").filter_map(|document| Self::in_document(document, manifest)).collect()
    }

    fn in_document(document: &str, manifest: &str) -> Option<Self> {
        let field = |name: &str| {
            let mut lines = document.lines().map(str::trim);
            lines.find_map(|line| line.trim_start_matches("- ").strip_prefix(name)).map(str::trim)
        };
        let program = field("image: tallyweir/")?.split(':').next()?.to_owned();
        let words = field("args:")?.trim_matches(['[', ']']).split(',');
        let words = words.map(|word| word.trim().trim_matches('"').to_owned()).collect();
        let mut env = BTreeMap::new();
        let mut lines = document.lines().map(str::trim).filter(|line| !line.starts_with('#')).peekable();
        while let Some(line) = lines.next() {
            let value = lines.peek().and_then(|next| next.strip_prefix("value:"));
            if let (Some(name), Some(value)) = (line.strip_prefix("- name: "), value) {
                env.insert(name.to_owned(), value.trim().trim_matches('"').to_owned());
            }
        }
        // What the comments tell to put into the secret that is mounted.
        let secret = format!("secret generic {} ", field("secretName:")?);
        let told = manifest.split(&secret).nth(1)?.split("secret generic").next()?;
        Some(Self::with_users(program, words, env, told))
    }

    /// What a unit starts.
    pub fn in_unit(unit: &str) -> Option<Self> {
        let mut start = unit.lines().find_map(|line| line.strip_prefix("ExecStart="))?.split(' ');
        let program = start.next()?.rsplit('/').next()?.to_owned();
        let words = start.map(str::to_owned).collect();
        let settings = unit.lines().filter_map(|line| line.strip_prefix("Environment=")?.split_once('='));
        let env = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Some(Self::with_users(program, words, env, unit))
    }

    fn with_users(program: String, words: Vec<String>, env: BTreeMap<String, String>, told: &str) -> Self {
        let user = |scheme: &str| {
            let rest = told.split(scheme).nth(1).unwrap_or_default();
            rest.split(':').next().unwrap_or_default().to_owned()
        };
        let (redis_user, database_role) = (user("rediss://"), user("postgres://"));
        Self { program, words, env, redis_user, database_role }
    }

    /// The environment with other values for some variables.
    ///
    /// # Panics
    ///
    /// When a variable is left whose value is a path of the container or unit: the test would not run what is deployed.
    pub fn env_with(&self, replace: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
        let each = self.env.iter().map(|(name, value)| {
            let given = replace(name);
            let place = value.starts_with(['/', '%']);
            assert!(given.is_some() || !place, "{name}={value} stands for a file of the deployment");
            (name.clone(), given.unwrap_or_else(|| value.clone()))
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_and_a_unit_tell_what_they_run_and_as_whom() {
        let manifest = "# kubectl create secret generic s --from-literal=redis-url=rediss://r:... \\\n\
                        #   --from-literal=database-url='postgres://d:...'\n# kubectl create secret generic t\n\
                        kind: Service\n---\nspec:\n  - name: urls\n    secretName: s\n  - image: tallyweir/program:1\n    \
                        args: [\"run\", \"--json\"]\n    env:\n      - name: A\n        value: \"1\"\n";
        let expected = Deployed {
            program: "program".into(),
            words: vec!["run".into(), "--json".into()],
            env: BTreeMap::from([("A".into(), "1".into())]),
            redis_user: "r".into(),
            database_role: "d".into(),
        };
        assert_eq!(Deployed::in_manifest(manifest), std::slice::from_ref(&expected));
        let unit = "# rediss://r:...\n# postgres://d:...\nExecStart=/usr/local/bin/program run --json\nEnvironment=A=1\n";
        assert_eq!(Deployed::in_unit(unit), Some(expected));
    }
}
