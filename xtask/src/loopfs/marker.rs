//! The marker: a file in the folder that lists what `up` made there, so that `down` removes that and no more.
//!
//! Each line is written before its step is taken. Whatever ends `up`, and whenever, what it may have left behind
//! is on the list; `down` passes over what was listed and never came to be.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::args::FileSystem;
use crate::run::{Failure, Outcome, context};

/// The marker's name.
pub(super) const NAME: &str = ".evenkeel-loopfs";

/// The marker's first line.
const HEAD: &str = "# Made by `cargo xtask loopfs up`; `cargo xtask loopfs down` removes what this lists.";

/// Something that `up` makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The folder itself.
    Folder,
    /// The image file.
    Image(FileSystem, PathBuf),
    /// The loop device of the image file.
    Loop(FileSystem),
    /// The folder that is mounted on.
    MountPoint(FileSystem),
    /// The mount.
    Mount(FileSystem),
}

impl Step {
    /// The file system that it belongs to.
    pub(super) fn file_system(&self) -> Option<FileSystem> {
        match self {
            Self::Folder => None,
            Self::Image(fs, _) | Self::Loop(fs) | Self::MountPoint(fs) | Self::Mount(fs) => Some(*fs),
        }
    }

    /// Its line. Fails for a path that does not fit a line of text.
    fn line(&self) -> Outcome<String> {
        Ok(match self {
            Self::Folder => "folder".to_owned(),
            Self::Image(fs, path) => match path.to_str() {
                Some(text) if !text.contains('\n') => format!("image {} {text}", fs.name()),
                _ => {
                    return Err(Failure::Usage(format!("{} is no plain line of text", path.display())));
                }
            },
            Self::Loop(fs) => format!("loop {}", fs.name()),
            Self::MountPoint(fs) => format!("mount-point {}", fs.name()),
            Self::Mount(fs) => format!("mount {}", fs.name()),
        })
    }

    /// Reads a line.
    fn from_line(line: &str) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let (kind, fs, path) = (words.next()?, words.next(), words.next());
        let known = fs.and_then(FileSystem::from_name);
        match (kind, fs, path) {
            ("folder", None, None) => Some(Self::Folder),
            ("image", Some(_), Some(path)) if path.starts_with('/') => Some(Self::Image(known?, path.into())),
            ("loop", Some(_), None) => Some(Self::Loop(known?)),
            ("mount-point", Some(_), None) => Some(Self::MountPoint(known?)),
            ("mount", Some(_), None) => Some(Self::Mount(known?)),
            _ => None,
        }
    }
}

/// A marker, and the steps that it lists.
#[derive(Debug)]
pub(super) struct Marker {
    /// The marker's file; `None` if it is only imagined, for a dry run.
    file: Option<PathBuf>,
    /// The steps, in the order in which they were taken.
    pub(super) steps: Vec<Step>,
}

impl Marker {
    /// Writes a new marker into the folder, or only imagines it.
    pub(super) fn create(dir: &Path, dry_run: bool) -> Outcome<Self> {
        let file = dir.join(NAME);
        if dry_run {
            return Ok(Self { file: None, steps: Vec::new() });
        }
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file);
        written
            .and_then(|mut f| writeln!(f, "{HEAD}"))
            .map_err(context(format!("cannot write {}", file.display())))?;
        Ok(Self { file: Some(file), steps: Vec::new() })
    }

    /// Adds a step that is about to be taken.
    pub(super) fn add(&mut self, step: Step) -> Outcome {
        let line = step.line()?;
        if let Some(file) = &self.file {
            let add = || {
                let mut f = OpenOptions::new().append(true).open(file)?;
                f.write_all(format!("{line}\n").as_bytes())?;
                // Image files outlive a crash; the list of them should too.
                f.sync_all()
            };
            add().map_err(context(format!("cannot write {}", file.display())))?;
        }
        self.steps.push(step);
        Ok(())
    }

    /// Reads the marker in the folder.
    pub(super) fn read(dir: &Path) -> Outcome<Self> {
        let file = dir.join(NAME);
        let meta = fs::symlink_metadata(&file).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Failure::Usage(format!("{} was not made by `loopfs up`: left alone", dir.display()))
            }
            _ => context(format!("cannot read {}", file.display()))(error),
        })?;
        // `down` removes, as root, the files that this names: a list that another user wrote is no list to follow.
        let own = fs::metadata("/proc/self").map_err(context("cannot read /proc/self"))?.uid();
        if !meta.is_file() || (meta.uid() != own && meta.uid() != 0) {
            return Err(Failure::Usage(format!(
                "{} was written by someone else: left alone",
                file.display()
            )));
        }
        let text = fs::read_to_string(&file).map_err(context(format!("cannot read {}", file.display())))?;
        let steps = parse(&text)
            .map_err(|line| Failure::Usage(format!("{}: cannot read the line `{line}`", file.display())))?;
        Ok(Self { file: Some(file), steps })
    }

    /// The image file of a file system.
    pub(super) fn image(&self, wanted: FileSystem) -> Option<&Path> {
        self.steps.iter().find_map(|step| match step {
            Step::Image(fs, path) if *fs == wanted => Some(path.as_path()),
            _ => None,
        })
    }

    /// The marker's file, if it is not only imagined.
    pub(super) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

/// The steps that a marker's text lists, or the line that is not understood.
fn parse(text: &str) -> Result<Vec<Step>, &str> {
    // A last line without its end was cut off while it was written, so its step was never taken.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| Step::from_line(line).ok_or(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own for a test.
    fn folder(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("evenkeel-xtask-{}-{name}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        dir
    }

    #[test]
    fn what_is_added_is_read_again() {
        let dir = folder("marker");
        let mut marker = Marker::create(&dir, false).unwrap();
        let steps = [
            Step::Folder,
            Step::Image(FileSystem::Xfs, "/tmp/with space/xfs.img".into()),
            Step::Loop(FileSystem::Xfs),
            Step::MountPoint(FileSystem::Btrfs),
            Step::Mount(FileSystem::Ext4),
        ];
        for step in &steps {
            marker.add(step.clone()).unwrap();
        }
        let read = Marker::read(&dir).unwrap();
        assert_eq!(read.steps, steps);
        assert_eq!(read.image(FileSystem::Xfs), Some(Path::new("/tmp/with space/xfs.img")));
        assert_eq!(read.image(FileSystem::Ext4), None);
        assert!(Marker::create(&dir, false).is_err(), "a marker is never overwritten");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_folder_without_a_marker_is_refused() {
        let dir = folder("no-marker");
        assert!(matches!(Marker::read(&dir), Err(Failure::Usage(text)) if text.contains("left alone")));
        std::os::unix::fs::symlink("/dev/null", dir.join(NAME)).unwrap();
        assert!(matches!(Marker::read(&dir), Err(Failure::Usage(text)) if text.contains("left alone")));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_line_that_was_cut_off_is_no_step() {
        assert_eq!(parse("folder\nimage xfs /tm"), Ok(vec![Step::Folder]));
        assert_eq!(parse("fold"), Ok(vec![]));
    }

    #[test]
    fn strange_lines_are_refused() {
        for line in
            ["image xfs relative.img", "image zfs /a", "image xfs", "loop", "loop xfs x", "folder xfs", "x"]
        {
            assert_eq!(parse(&format!("{line}\n")), Err(line));
        }
    }

    #[test]
    fn a_path_of_two_lines_is_refused() {
        let mut marker = Marker::create(Path::new("/"), true).unwrap();
        assert!(marker.add(Step::Image(FileSystem::Xfs, "/a\nmount xfs".into())).is_err());
        assert!(marker.steps.is_empty());
    }
}
