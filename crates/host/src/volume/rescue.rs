//! Files of a served volume that were removed, and the one command that puts all of them back.
//!
//! 1. A file without a name lives for as long as its server has it open: it is copied from `/proc/PID/fd`, while the server
//!    is stopped, and the server is killed once every copy is whole and durable. What is killed so is served again with every
//!    write. Where there is no room for a copy, the same command can be given again.
//! 2. The command names every file of the volume, also those that have their names: it is right for whatever else is
//!    removed before somebody runs it, and leaves alone what is there.

use std::fs;
use std::path::{Path, PathBuf};

use super::description::FILE_NAME;
use super::member::Place;
use crate::drive::OpenFile;

/// What the kernel writes behind the name of a file that was removed.
const DELETED: &str = " (deleted)";

/// What an arena's name begins and ends with.
use super::arenas::{ARENA_PREFIX, ARENA_SUFFIX};

/// A server whose files were removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deprived {
    /// Its process.
    pub process: u32,
    /// What puts its files back, and ends it.
    pub command: String,
}

/// The command that puts back those of `files`, which this process has open, that have no name any more; `None` where
/// something else is in the place of one. Paths are absolute.
pub(crate) fn command_of(files: &[OpenFile]) -> Option<String> {
    let is_taken =
        |file: &&OpenFile| file.is_at_its_path() != Some(true) && file.path().symlink_metadata().is_ok();
    if files.iter().any(|file| is_taken(&file)) {
        return None;
    }
    let files: Vec<(i32, &Path)> = files.iter().map(|file| (file.descriptor(), file.path())).collect();
    Some(command(std::process::id(), &files))
}

/// Finds the process that serves the volume that was in `folder`, where its description was removed there.
pub fn deprived_server(folder: &Path) -> Option<Deprived> {
    let folder = absolute(folder)?;
    let description = folder.join(FILE_NAME);
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find_map(|process| deprived(process, &folder, |path| *path == description))
}

/// What `process`, which serves the volume in `folder`, has open of files that were removed there.
pub fn deprived_process(process: u32, folder: &Path) -> Option<Deprived> {
    let folder = absolute(folder)?;
    deprived(process, &folder, |path| path.starts_with(&folder))
}

/// What `process` has open of a volume in `folder`, where a removed file of it `tells` that it serves that.
fn deprived(process: u32, folder: &Path, tells: impl Fn(&Path) -> bool) -> Option<Deprived> {
    let mut open = open_files(process);
    // Those before are standard input and output.
    open.retain(|(descriptor, ..)| *descriptor > 2);
    if !open.iter().any(|(_, path, is_removed)| *is_removed && tells(path)) {
        return None;
    }
    let mut files: Vec<(i32, &Path)> = Vec::new();
    for (descriptor, path, is_removed) in &open {
        let is_of_it = path.starts_with(folder) || (*is_removed && is_arena(path));
        if is_of_it && !files.iter().any(|(_, known)| known == path) {
            files.push((*descriptor, path));
        }
    }
    Some(Deprived { process, command: command(process, &files) })
}

fn command(process: u32, files: &[(i32, &Path)]) -> String {
    let quoted = |path: &Path| Place::from(path.to_owned()).quoted();
    let mut folders: Vec<&Path> = files.iter().filter_map(|(_, path)| path.parent()).collect();
    folders.sort_unstable();
    folders.dedup();
    let folders: Vec<String> = folders.into_iter().map(quoted).collect();
    let copies = files.iter().map(|(descriptor, path)| {
        let mut beside = path.as_os_str().to_owned();
        beside.push(BESIDE);
        let (path, beside) = (quoted(path), quoted(Path::new(&beside)));
        format!(
            "{{ test -e {path} || {{ cp /proc/{process}/fd/{descriptor} {beside} && sync {beside} && mv {beside} {path}; }}; }} && "
        )
    });
    let (copies, folders) = (copies.collect::<String>(), folders.join(" "));
    format!("kill -STOP {process} && mkdir -p {folders} && {copies}sync {folders} && kill -KILL {process}")
}

/// Behind the name of a copy that is not whole yet: the same command begins it anew, and takes no part of it for the file.
const BESIDE: &str = ".copied";

/// The regular files that a process has open: its descriptor, its path, and whether it was removed.
fn open_files(process: u32) -> Vec<(i32, PathBuf, bool)> {
    let folder = PathBuf::from(format!("/proc/{process}/fd"));
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let open = entries.flatten().filter_map(|entry| {
        let descriptor = entry.file_name().to_str()?.parse().ok()?;
        let shown = fs::read_link(entry.path()).ok()?;
        let text = shown.to_str()?;
        let (path, is_removed) = match text.strip_suffix(DELETED) {
            Some(path) => (PathBuf::from(path), true),
            None => (shown.clone(), false),
        };
        let is_file = path.is_absolute() && entry.path().metadata().ok()?.is_file();
        is_file.then_some((descriptor, path, is_removed))
    });
    let mut open: Vec<_> = open.collect();
    open.sort_unstable();
    open
}

fn is_arena(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| name.starts_with(ARENA_PREFIX) && name.ends_with(ARENA_SUFFIX))
}

/// As the kernel names it, though it is not there any more.
fn absolute(folder: &Path) -> Option<PathBuf> {
    if let Ok(found) = folder.canonicalize() {
        return Some(found);
    }
    let plain = std::path::absolute(folder).ok()?;
    let parent = plain.parent()?.canonicalize().ok()?;
    Some(parent.join(plain.file_name()?))
}
