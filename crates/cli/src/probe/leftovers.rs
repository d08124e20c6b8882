//! What killed probes left in the folders that are to be probed.

use std::fmt::Write as _;

use evenkeel_measure::probe::Place;
use evenkeel_measure::probe::leftovers::{Leftover, Leftovers};
use evenkeel_measure::report::format;

use crate::failure::Failure;
use crate::stdout::{say, shown};

/// Files that are named.
const NAMED_MAX: usize = 20;

/// Removes what killed probes left at `place`, and says which files these were; with `dry_run`, which they would be.
pub(super) fn clear(place: &Place, dry_run: bool) -> Result<(), Failure> {
    let Place::Folder(folder) = place else { return Ok(()) };
    let found = Leftovers::find(folder).map_err(|error| Failure::about(folder, error))?;
    let mut text = String::new();
    let removed = if dry_run { "Would remove" } else { "Removed" };
    text.push_str(&named(
        &format!("{removed} what a killed probe left in {}", shown(folder.display())),
        &found.files,
    ));
    let kept = format!(
        "Left alone in {}, as it may be another probe's (remove it where that is gone)",
        shown(folder.display())
    );
    text.push_str(&named(&kept, &found.unsure));
    if !dry_run {
        let failed = |(path, error): (std::path::PathBuf, std::io::Error)| {
            Failure::about(&path, format!("a killed probe left it, and it cannot be removed: {error}"))
        };
        found.remove().map_err(failed)?;
    }
    if text.is_empty() { Ok(()) } else { say(&text) }
}

/// A line for these files, then one for each of the first of them; empty where there are none.
fn named(what: &str, files: &[Leftover]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let (count, bytes) = (format::counted(files.len() as u64, "file"), format::bytes_f64(bytes as f64));
    let mut text = format!("{what}: {count}, {bytes}\n");
    for file in files.iter().take(NAMED_MAX) {
        writeln!(text, "  {}", shown(file.path.display())).expect("a string takes all");
    }
    if files.len() > NAMED_MAX {
        writeln!(text, "  and {} more", files.len() - NAMED_MAX).expect("a string takes all");
    }
    text
}
