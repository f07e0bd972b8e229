//! A primary and its standby, and changes of their parts.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{DevstackError, Result};
use crate::guard::Signal;
use crate::install::Source;
use crate::instance::{Instance, Place};
use crate::port::PortLease;
use crate::postgres::{PostgresServer, Start, probe, write_secret};
use crate::process::{Launch, ServerProcess, log_end};
use crate::service::Service;
use crate::{sql, user};

const COPY_WITHIN: Duration = Duration::from_secs(120);

/// What makes a server a standby when it starts.
const SIGNAL_FILE: &str = "standby.signal";

impl PostgresServer {
    /// Makes a streaming standby of this server: a copy on a port of its own that follows it, answers reads and refuses writes. It
    /// has the same databases, users and passwords.
    ///
    /// # Errors
    ///
    /// [`DevstackError`]: this server does not run or is a container, or the copy or its server failed.
    pub fn standby(&self) -> Result<Self> {
        let Source::Program(program) = &self.start.source else {
            return Err(wrong("a container", "make a standby of it"));
        };
        let user = self.start.user;
        let mut process = ServerProcess::new(user::private_folder(user)?, Signal::Quit)?;
        let passwords = process.folder().join("passwords");
        write_secret(&passwords, user, &format!("*:*:*:*:{}", self.start.password))
            .map_err(DevstackError::io("write the password for pg_basebackup"))?;
        let source =
            format!("host=127.0.0.1 port={} user=postgres passfile={}", self.port(), passwords.display());
        let mut args: Vec<OsString> = vec!["-D".into(), process.folder().join("data").into()];
        args.extend(["-d".into(), source.into()]);
        args.extend(["-R", "--wal-method=stream", "--checkpoint=fast", "--no-sync"].map(OsString::from));
        process.launch(&Launch {
            program: program.sibling("pg_basebackup"),
            args,
            user,
            ..Launch::default()
        })?;
        let status = process.wait(COPY_WITHIN);
        let (service, log) = (Service::Postgres, log_end(&process.run_log()));
        match status {
            Some(status) if status.success() => {}
            Some(status) => {
                return Err(DevstackError::Exited {
                    service,
                    status: format!("pg_basebackup: {status}"),
                    log,
                });
            }
            None => {
                let last = "pg_basebackup still runs".into();
                return Err(DevstackError::NotReady { service, within: COPY_WITHIN, last, log });
            }
        }
        let start = Start {
            source: Source::Program(program.clone()),
            user,
            password: self.start.password.clone(),
            options: self.start.options.clone(),
        };
        let mut instance = Instance { service, place: Place::Process(process) };
        let folder = instance.folder().map(PathBuf::from);
        let within = start.options.ready_within;
        let plan = |port| start.plan(folder.as_deref(), port);
        let port = instance.start(PortLease::take, plan, within, |port, _| probe(port, &start.url(port)))?;
        let url = start.url(port.number());
        Ok(Self { instance, port, url, start })
    }

    /// Makes a standby a primary, and waits until it is one. Its sessions stay.
    ///
    /// # Errors
    ///
    /// [`DevstackError::Sql`] when it is none, does not run, or was too slow.
    pub fn promote(&self) -> Result<()> {
        sql::text(&self.url, "promote", "SELECT CASE WHEN pg_promote(true, 60) THEN 'yes' END").map(drop)
    }

    /// Makes a primary a standby, on the same port and data: it is stopped and started again, and follows nobody.
    ///
    /// # Errors
    ///
    /// As [`PostgresServer::stop`] and [`PostgresServer::start_again`]; [`DevstackError::WrongState`] in a container.
    pub fn demote(&mut self) -> Result<()> {
        let folder = self.folder().map(PathBuf::from).ok_or_else(|| wrong("a container", "demote it"))?;
        self.stop()?;
        let file = folder.join("data").join(SIGNAL_FILE);
        fs::write(&file, "").map_err(DevstackError::io(format!("write {}", file.display())))?;
        if let Some(user) = self.start.user {
            let doing = format!("give {} to its server", file.display());
            std::os::unix::fs::chown(&file, Some(user.uid), Some(user.gid))
                .map_err(DevstackError::io(doing))?;
        }
        self.start_again()
    }
}

fn wrong(state: &'static str, operation: &'static str) -> DevstackError {
    DevstackError::WrongState { service: Service::Postgres, state, operation }
}
