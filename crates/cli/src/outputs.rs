//! Where results go: `NAME.json`, `NAME.csv` and `NAME.html` side by side, never over older ones that the
//! user did not ask to replace.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

const KINDS: [&str; 3] = ["json", "csv", "html"];

/// A free set of names for one command's results.
#[derive(Debug)]
pub(crate) struct Outputs {
    folder: PathBuf,
    stem: String,
}

impl Outputs {
    /// In `folder`, which is made if need be: older results there are an error unless `force`. Without a
    /// folder, in the current one, under the next free number where older results exist.
    pub(crate) fn choose(name: &str, folder: Option<&Path>, force: bool) -> Result<Self, Failure> {
        let Some(folder) = folder else {
            let numbered = (2..).map(|number| format!("{name}-{number}"));
            let here = |stem: String| Self {
                folder: PathBuf::from("."),
                stem,
            };
            let mut free = std::iter::once(name.to_owned()).chain(numbered).map(here);
            return Ok(free
                .find(|outputs| outputs.existing().is_none())
                .expect("numbers do not run out"));
        };
        fs::create_dir_all(folder)
            .map_err(|error| Failure::about(folder, format!("cannot make it: {error}")))?;
        let outputs = Self {
            folder: folder.to_owned(),
            stem: name.to_owned(),
        };
        match outputs.existing() {
            Some(older) if !force => Err(Failure::about(
                &older,
                "older results are here; name another folder with --out, or replace them with --force",
            )),
            _ => Ok(outputs),
        }
    }

    fn existing(&self) -> Option<PathBuf> {
        KINDS
            .map(|kind| self.path(kind))
            .into_iter()
            .find(|path| path.symlink_metadata().is_ok())
    }

    fn path(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.stem))
    }

    /// Writes all three; answers where they are.
    pub(crate) fn write(&self, json: &str, csv: &str, html: &str) -> Result<[PathBuf; 3], Failure> {
        let paths = KINDS.map(|kind| self.path(kind));
        for (path, text) in paths.iter().zip([json, csv, html]) {
            write_whole(path, text)?;
        }
        Ok(paths)
    }
}

/// Writes a file under a name of its own first, so that a reader never sees half of it.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let write = || {
        let mut file = fs::File::create(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    write().map_err(|error| {
        let _may_not_exist = fs::remove_file(&part);
        Failure::about(
            path,
            format!("cannot write the results: {error}; name another folder with --out"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_results_are_kept_unless_replacing_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let outputs = Outputs::choose("probe", Some(folder.path()), false).unwrap();
        outputs.write("{}", "a", "<p>").unwrap();
        assert_eq!(fs::read(folder.path().join("probe.json")).unwrap(), b"{}");
        assert!(Outputs::choose("probe", Some(folder.path()), false).is_err());
        assert!(Outputs::choose("probe", Some(folder.path()), true).is_ok());
    }
}
