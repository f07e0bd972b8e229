//! A core for the client, another for the servers.

use std::process::Command;

/// Gives this process a core and the servers another, where the machine lets us. Left to the scheduler, the two share
/// a core in some runs and not in others, and the figures differ by half.
pub(crate) fn pin(servers: &[u32]) -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Neighbouring numbers are often two threads of one core.
    let apart = match cores {
        0 | 1 => return false,
        2 | 3 => "1",
        _ => "2",
    };
    let pin = |pid: u32, core: &str| {
        let arguments = ["--all-tasks", "--cpu-list", "--pid", core, &pid.to_string()];
        Command::new("taskset").args(arguments).output().is_ok_and(|output| output.status.success())
    };
    // In a container a server has another number here, which is somebody else's.
    let ours = |pid: u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.contains("redis") || name.contains("valkey")
    };
    servers.iter().all(|&server| ours(server) && pin(server, apart)) && pin(std::process::id(), "0")
}
