//! Finding or making the file, and refusing one that is not whole.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use redb::{Builder, DatabaseError};

use crate::store::{Changed, FORMAT, Index, Store, disk, guarded};
use crate::{SpoolOpenError, SpoolOptions, StorageError};

/// Opens the file, making it if there is none, and reads all of it.
pub(crate) fn open(path: &Path, options: &SpoolOptions) -> Result<(Store, Changed, Index), SpoolOpenError> {
    options.check()?;
    let io = |source| SpoolOpenError::Io { path: path.to_owned(), source };
    if !path.try_exists().map_err(io)? {
        create(path).map_err(|error| lift(path, error))?;
    }
    // An empty file would be taken for a new one.
    if fs::metadata(path).map_err(io)?.len() == 0 {
        return Err(SpoolOpenError::Damaged { path: path.to_owned(), what: "it is empty".into() });
    }
    // A torn file is repaired here, to the last commit that is whole; every page's checksum is compared.
    let opened = guarded(|| {
        let mut builder = Builder::new();
        builder.set_cache_size(options.cache_bytes).set_check_integrity_on_open(true);
        Ok(builder.open(path))
    });
    let database = match opened.map_err(|error| lift(path, error))? {
        Ok(database) => database,
        Err(DatabaseError::DatabaseAlreadyOpen) => return Err(SpoolOpenError::InUse(path.to_owned())),
        Err(DatabaseError::Storage(redb::StorageError::Io(source)))
            if !matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
        {
            return Err(io(source));
        }
        Err(error) => {
            return Err(SpoolOpenError::Damaged { path: path.to_owned(), what: error.to_string() });
        }
    };
    let store = Store::new(database);
    let found = store.format().map_err(|error| lift(path, error))?;
    if found > FORMAT {
        return Err(SpoolOpenError::NewerFormat { path: path.to_owned(), found, known: FORMAT });
    }
    let (contents, index) = store.verify().map_err(|error| lift(path, error))?;
    Ok((store, contents, index))
}

fn lift(path: &Path, error: StorageError) -> SpoolOpenError {
    match error {
        StorageError::Disk(what) => {
            SpoolOpenError::Io { path: path.to_owned(), source: io::Error::other(what) }
        }
        error => SpoolOpenError::Damaged { path: path.to_owned(), what: error.to_string() },
    }
}

/// Makes a whole file under another name and gives it its own only if nothing has it: a process that dies half-way leaves
/// no half file, and two that start together leave one.
fn create(path: &Path) -> Result<(), StorageError> {
    let broken = |error: io::Error| StorageError::Disk(error.to_string());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let draft = Draft(path.with_file_name(name));
    // Of a process that had this number before.
    draft.remove();
    guarded(|| Store::lay_out(&Builder::new().create(&draft.0).map_err(disk)?))?;
    match fs::hard_link(&draft.0, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(broken(error)),
        _ => {}
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The name must be as durable as what is written under it.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(broken)
}

/// A file that is to vanish.
struct Draft(PathBuf);

impl Draft {
    fn remove(&self) {
        // Most often there is none; if it cannot be removed, creating it says why.
        let _ = fs::remove_file(&self.0);
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        self.remove();
    }
}
