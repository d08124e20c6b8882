//! Where results go: `NAME.json`, `NAME.csv` and `NAME.html` side by side, never over older ones that the
//! user did not ask to replace.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

const KINDS: [&str; 3] = ["json", "csv", "html"];

/// A free set of names for one command's results.
#[derive(Debug)]
pub(crate) struct Outputs {
    folder: PathBuf,
    stem: String,
    /// Folders made for these results, innermost first; they go again if the results never come.
    made_folders: Vec<PathBuf>,
}

impl Outputs {
    /// In `folder`, which is made if need be: older results there are an error unless `force`. Without a
    /// folder, in the current one, under the next free number where older results exist. A folder that cannot
    /// be written to is found out now, and not when there are results to lose.
    pub(crate) fn choose(name: &str, folder: Option<&Path>, force: bool) -> Result<Self, Failure> {
        let outputs = match folder {
            Some(folder) => Self::in_folder(name, folder)?,
            None => Self::here(name),
        };
        if let Some(older) = outputs.existing().filter(|_| !force) {
            let what = "older results are here; name another folder with --out, or replace them with --force";
            return Err(Failure::about(&older, what));
        }
        let trial = part_of(&outputs.path("json"));
        fs::File::create_new(&trial)
            .and_then(|_| fs::remove_file(&trial))
            .map_err(|error| Failure::about(&outputs.folder, unwritable(&error)))?;
        Ok(outputs)
    }

    fn in_folder(name: &str, folder: &Path) -> Result<Self, Failure> {
        let mut made_folders: Vec<PathBuf> =
            folder.ancestors().take_while(|above| !above.exists()).map(Path::to_owned).collect();
        made_folders.retain(|above| !above.as_os_str().is_empty());
        fs::create_dir_all(folder).map_err(|error| Failure::about(folder, unwritable(&error)))?;
        Ok(Self { folder: folder.to_owned(), stem: name.to_owned(), made_folders })
    }

    fn here(name: &str) -> Self {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let here = |stem: String| Self { folder: PathBuf::from("."), stem, made_folders: Vec::new() };
        let mut free = std::iter::once(name.to_owned()).chain(numbered).map(here);
        free.find(|outputs| outputs.existing().is_none()).expect("numbers do not run out")
    }

    fn existing(&self) -> Option<PathBuf> {
        KINDS.map(|kind| self.path(kind)).into_iter().find(|path| path.symlink_metadata().is_ok())
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

impl Drop for Outputs {
    fn drop(&mut self) {
        for folder in &self.made_folders {
            let _holds_results = fs::remove_dir(folder);
        }
    }
}

/// Whether two names mean the same file, one that exists or one that is to be.
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    let file = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    a == b || file(a).is_some_and(|a| file(b) == Some(a))
}

/// Writes a file under a name of its own first, so that a reader never sees half of it.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let part = part_of(path);
    let write = || {
        let mut file = fs::File::create_new(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    write().map_err(|error| {
        let _may_not_exist = fs::remove_file(&part);
        Failure::about(path, unwritable(&error))
    })
}

/// A name beside `path` that nobody else uses.
fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    part.into()
}

fn unwritable(error: &io::Error) -> String {
    format!("cannot write the results here: {error}; name another folder with --out")
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
