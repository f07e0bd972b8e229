//! The committed inputs of a target.

use std::path::PathBuf;
use std::{fs, io};

use crate::Target;

/// One committed input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seed {
    /// What it shows.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

impl Target {
    /// Where its seeds are.
    #[must_use]
    pub fn corpus(self) -> PathBuf {
        fuzz_folder().join("corpus").join(self.name)
    }

    /// Its seeds, in the order of their names.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn seeds(self) -> io::Result<Vec<Seed>> {
        let mut seeds = Vec::new();
        for file in fs::read_dir(self.corpus())? {
            let file = file?;
            seeds.push(Seed {
                name: file.file_name().to_string_lossy().into_owned(),
                bytes: fs::read(file.path())?,
            });
        }
        seeds.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(seeds)
    }
}

/// The folder of the fuzz targets.
pub(crate) fn fuzz_folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz"))
}
