//! What `deploy/` says, run as the users and roles that it gives.

use devstack::Deployed;

use crate::{Running, complaint, guarded, support};

const MANIFEST: &str = include_str!("../../../../deploy/kubernetes/usage-flusher.yaml");
const UNIT: &str = include_str!("../../../../deploy/systemd/usage-flusher.service");

#[test]
fn what_the_deployment_files_run_works_as_the_user_and_role_that_they_give_it() {
    let servers = guarded();
    let folder = tempfile::tempdir().unwrap();
    let containers = Deployed::in_manifest(MANIFEST);
    assert_eq!(containers.len(), 3, "the migration, the partitions and the service");
    for deployed in containers.into_iter().chain(Deployed::in_unit(UNIT)) {
        assert_eq!(deployed.program, "usage-flusher");
        let secret = |name: &str, url: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, url).unwrap();
            Some(path.to_str().unwrap().to_owned())
        };
        let env = deployed.env_with(|name| match name {
            "TALLYWEIR_REDIS_URL_FILE" => secret("redis-url", servers.redis_url(&deployed.redis_user)),
            "TALLYWEIR_DATABASE_URL_FILE" => {
                secret("database-url", servers.database_url(&deployed.database_role))
            }
            // Given as a flag, any free port.
            "TALLYWEIR_LISTEN" => Some("127.0.0.1:0".to_owned()),
            _ => None,
        });
        let mut command = support::binary();
        command.envs(env).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        if deployed.words == ["run"] {
            assert_eq!(Running::start(command).stop()["signal"], "SIGTERM", "{deployed:?}");
        } else {
            let output = command.args(&deployed.words).output().unwrap();
            assert!(output.status.success(), "{deployed:?}: {}", complaint(&output));
        }
    }
}
