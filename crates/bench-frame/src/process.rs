//! What the kernel says of a process: its memory and its processor time.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

/// In what the kernel counts processor time for programs, whatever its own clock: a constant of its interface.
const TICK: Duration = Duration::from_millis(10);
/// Places in `/proc/PID/stat` behind the name.
const PARENT: usize = 1;
const USER_TIME: usize = 11;
const OWN_TIMES: usize = 2;
const WITH_CHILDREN: usize = 4;

/// Another process, or this one. Reads `/proc`.
#[derive(Debug, Clone, Copy)]
pub struct Process(u32);

impl Process {
    /// The process of this id.
    #[must_use]
    pub const fn new(id: u32) -> Self {
        Self(id)
    }

    /// Resident memory now, in MiB.
    ///
    /// # Errors
    ///
    /// When the process is gone.
    pub fn rss(self) -> Result<f64> {
        self.status("VmRSS:")
    }

    /// The most that it ever was, in MiB. The kernel brings it up to date now and then only.
    ///
    /// # Errors
    ///
    /// When the process is gone.
    pub fn peak_rss(self) -> Result<f64> {
        self.status("VmHWM:")
    }

    fn status(self, field: &str) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.0))?;
        let line = text.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|line| line.split_whitespace().next());
        let kib = kib.with_context(|| format!("process {} is gone", self.0))?;
        Ok(kib.parse::<f64>()? / 1_024.0)
    }

    /// Processor time of all its threads since its start, in steps of 10 ms.
    ///
    /// # Errors
    ///
    /// When the process is gone.
    pub fn cpu(self) -> Result<Duration> {
        times(&stat(Path::new(&format!("/proc/{}", self.0)))?, OWN_TIMES)
    }

    /// The same of one of its threads, by name; of several of one name, of all together. Threads that have ended are none of them.
    ///
    /// # Errors
    ///
    /// When the process is gone.
    pub fn cpu_of_threads(self, name: &str) -> Result<Duration> {
        let mut sum = Duration::ZERO;
        for thread in fs::read_dir(format!("/proc/{}/task", self.0))? {
            // What has ended meanwhile has no such files.
            let Ok(folder) = thread.map(|thread| thread.path()) else { continue };
            let Ok(comm) = fs::read_to_string(folder.join("comm")) else { continue };
            let Ok(stat) = stat(&folder) else { continue };
            if comm.trim_end() == name {
                sum += times(&stat, OWN_TIMES)?;
            }
        }
        Ok(sum)
    }

    /// The same of the process and of all that it ever started, ended ones included, one generation deep.
    ///
    /// # Errors
    ///
    /// When the process is gone.
    pub fn cpu_with_children(self) -> Result<Duration> {
        let mut sum = times(&stat(Path::new(&format!("/proc/{}", self.0)))?, WITH_CHILDREN)?;
        let parent = self.0.to_string();
        for process in fs::read_dir("/proc")? {
            // What is no process, or has ended meanwhile, has no such file.
            let Ok(stat) = stat(&process?.path()) else { continue };
            if stat.split(' ').nth(PARENT) == Some(&*parent) {
                sum += times(&stat, WITH_CHILDREN)?;
            }
        }
        Ok(sum)
    }
}

/// The fields behind the name, which is in parentheses and may hold anything.
fn stat(folder: &Path) -> Result<String> {
    let text = fs::read_to_string(folder.join("stat"))?;
    let (_, fields) = text.rsplit_once(") ").context("/proc/PID/stat has no name")?;
    Ok(fields.to_owned())
}

fn times(stat: &str, count: usize) -> Result<Duration> {
    let mut times = stat.split(' ').skip(USER_TIME).map(str::parse::<u32>);
    let mut sum = Duration::ZERO;
    for _ in 0..count {
        sum += TICK * times.next().context("/proc/PID/stat ends early")??;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn times_are_those_behind_the_name() {
        let fields = "S 7 0 0 0 -1 0 0 0 0 0 3 4 5 6 20 0";
        assert_eq!(times(fields, OWN_TIMES).unwrap(), Duration::from_millis(70));
        assert_eq!(times(fields, WITH_CHILDREN).unwrap(), Duration::from_millis(180));
        assert!(times("S 7", OWN_TIMES).is_err());
    }

    #[test]
    fn this_process_has_memory_and_threads() {
        let this = Process::new(std::process::id());
        assert!(this.rss().unwrap() > 0.1 && this.peak_rss().unwrap() > 0.1);
        assert!(this.cpu_with_children().unwrap() >= this.cpu().unwrap());
        assert_eq!(this.cpu_of_threads("no such thread").unwrap(), Duration::ZERO);
    }

    #[test]
    fn threads_and_processes_that_end_meanwhile_are_no_errors() {
        let this = Process::new(std::process::id());
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    thread::spawn(|| ()).join().unwrap();
                }
            });
            let reads: Vec<_> =
                (0..500).map(|_| this.cpu_of_threads("x").and(this.cpu_with_children())).collect();
            done.store(true, Ordering::Relaxed);
            assert!(reads.iter().all(Result::is_ok), "{reads:?}");
        });
    }
}
