//! Users and folders: PostgreSQL refuses to run as root, so root hands a folder to somebody else.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::{DevstackError, Result};

/// An account of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// The user id this process acts with. `std` has no call for it; the owner of a new file tells it.
pub(crate) fn effective_uid() -> Result<u32, String> {
    tempfile::tempfile()
        .and_then(|file| file.metadata())
        .map(|meta| meta.uid())
        .map_err(|e| format!("cannot create a temporary file: {e}"))
}

/// The account for servers that must not run as root: `None` when we are not root anyway.
///
/// # Errors
///
/// [`DevstackError::Io`] when we are root and `/etc/passwd` names neither `postgres` nor `nobody`.
pub(crate) fn unprivileged() -> Result<Option<User>> {
    let uid =
        effective_uid().map_err(std::io::Error::other).map_err(DevstackError::io("learn the user id"))?;
    if uid != 0 {
        return Ok(None);
    }
    let passwd = fs::read_to_string("/etc/passwd").map_err(DevstackError::io("read /etc/passwd"))?;
    let user = account(&passwd, "postgres").or_else(|| account(&passwd, "nobody"));
    let missing =
        || std::io::Error::other("no account `postgres` or `nobody`, and PostgreSQL refuses to run as root");
    user.map(Some).ok_or_else(missing).map_err(DevstackError::io("choose a user for PostgreSQL"))
}

fn account(passwd: &str, name: &str) -> Option<User> {
    let fields =
        passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|f| f.first() == Some(&name))?;
    let number = |index: usize| fields.get(index)?.parse().ok();
    let user = User { uid: number(2)?, gid: number(3)? };
    // An account that is root under another name would not help.
    (user.uid != 0).then_some(user)
}

/// A new folder of mode 0700 that `user` (or, without one, this process) owns and can reach.
///
/// # Errors
///
/// [`DevstackError::Io`] when no temporary folder of the machine can hold it.
pub(crate) fn private_folder(user: Option<User>) -> Result<TempDir> {
    let mut bases = vec![std::env::temp_dir()];
    if let Some(user) = user {
        // `TMPDIR` may lie below a folder that only root can pass.
        bases.extend([PathBuf::from("/tmp"), PathBuf::from("/var/tmp")]);
        bases.retain(|base| reachable(base, user));
    }
    let base = bases.into_iter().next().ok_or_else(|| std::io::Error::other("none that the user can reach"));
    let base = base.map_err(DevstackError::io("find a temporary folder"))?;
    let folder = tempfile::Builder::new()
        .prefix("devstack-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(&base)
        .map_err(DevstackError::io(format!("create a folder in {}", base.display())))?;
    if let Some(User { uid, gid }) = user {
        let doing = format!("give {} to user {uid}", folder.path().display());
        chown(folder.path(), Some(uid), Some(gid)).map_err(DevstackError::io(doing))?;
    }
    Ok(folder)
}

/// Whether `user` may pass through `folder` and everything above it.
fn reachable(folder: &Path, user: User) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    folder.ancestors().all(|part| {
        fs::metadata(part).is_ok_and(|meta| {
            let bit = if meta.uid() == user.uid {
                0o100
            } else if meta.gid() == user.gid {
                0o010
            } else {
                0o001
            };
            meta.mode() & bit != 0
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
        nobody:x:65534:65533:nobody:/nonexistent:/usr/sbin/nologin\n\
        toor:x:0:0::/root:/bin/sh\n\
        broken:x:abc\n\
        postgres:x:101:104:PostgreSQL administrator,,,:/var/lib/postgresql:/bin/bash\n";

    #[test]
    fn accounts_are_read_from_passwd() {
        assert_eq!(account(PASSWD, "postgres"), Some(User { uid: 101, gid: 104 }));
        assert_eq!(account(PASSWD, "nobody"), Some(User { uid: 65534, gid: 65533 }));
        for name in ["post", "broken", "toor", ""] {
            assert_eq!(account(PASSWD, name), None, "{name}");
        }
    }

    #[test]
    fn a_folder_below_a_closed_one_is_not_reachable_by_a_stranger() {
        let closed = private_folder(None).unwrap();
        let inner = closed.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
        let meta = fs::metadata(closed.path()).unwrap();
        let stranger = User { uid: meta.uid() + 1, gid: meta.gid() + 1 };
        assert!(!reachable(&inner, stranger));
        fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o711)).unwrap();
        assert_eq!(reachable(&inner, stranger), reachable(closed.path().parent().unwrap(), stranger));
        assert!(!reachable(Path::new("/no/such/folder"), stranger));
    }

    #[test]
    fn a_private_folder_is_closed_to_others_and_belongs_to_the_server() {
        let user = unprivileged().unwrap();
        let folder = private_folder(user).unwrap();
        let meta = fs::metadata(folder.path()).unwrap();
        assert_eq!(meta.mode() & 0o777, 0o700);
        assert_eq!(meta.uid(), user.map_or_else(|| effective_uid().unwrap(), |u| u.uid));
    }
}
