//! What `loopfs` is asked to do.

use std::path::PathBuf;

use crate::run::{Failure, Outcome};

/// One MiB.
const MIB: u64 = 1 << 20;

/// The two things that `loopfs` does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Make the file systems.
    Up(Up),
    /// Remove them.
    Down(Down),
}

/// Options of `loopfs up`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Up {
    /// The folder that they are mounted in.
    pub(super) dir: PathBuf,
    /// Size of each image file, in bytes.
    pub(super) size: u64,
    /// Which file systems.
    pub(super) file_systems: Vec<FileSystem>,
    /// The folder for the image files, if not `dir` itself.
    pub(super) backing_dir: Option<PathBuf>,
    /// Only show the commands.
    pub(super) dry_run: bool,
}

/// Options of `loopfs down`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Down {
    /// The folder that was given to `loopfs up`.
    pub(super) dir: PathBuf,
    /// Only show the commands.
    pub(super) dry_run: bool,
}

/// A file system that can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileSystem {
    /// xfs.
    Xfs,
    /// ext4.
    Ext4,
    /// btrfs.
    Btrfs,
}

impl FileSystem {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Xfs, Self::Ext4, Self::Btrfs];

    /// Its name, which is also its folder's.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Xfs => "xfs",
            Self::Ext4 => "ext4",
            Self::Btrfs => "btrfs",
        }
    }

    /// The file system of that name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fs| fs.name() == name)
    }

    /// The Debian package of its mkfs.
    pub(super) fn package(self) -> &'static str {
        match self {
            Self::Xfs => "xfsprogs",
            Self::Ext4 => "e2fsprogs",
            Self::Btrfs => "btrfs-progs",
        }
    }

    /// The smallest size that its mkfs takes, rounded up.
    fn smallest(self) -> u64 {
        match self {
            Self::Xfs => 300 * MIB,
            Self::Ext4 => 16 * MIB,
            Self::Btrfs => 128 * MIB,
        }
    }
}

/// Reads the arguments of `loopfs`.
pub(super) fn parse(args: &[String]) -> Outcome<Action> {
    let Some((verb, rest)) = args.split_first() else {
        return Err(usage("loopfs needs `up DIR` or `down DIR`"));
    };
    let up = match verb.as_str() {
        "up" => true,
        "down" => false,
        other => return Err(usage(format!("loopfs knows `up` and `down`, not `{other}`"))),
    };
    let mut dir = None;
    let mut size = 1 << 30;
    let mut file_systems = FileSystem::ALL.to_vec();
    let mut backing_dir = None;
    let mut dry_run = false;
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let (flag, attached) = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(value)),
            _ => (word.as_str(), None),
        };
        let mut value = || {
            let value = attached.or_else(|| words.next().map(String::as_str));
            value.filter(|v| !v.is_empty()).ok_or_else(|| usage(format!("{flag} needs a value")))
        };
        match flag {
            "--size" if up => size = parse_size(value()?)?,
            "--fs" if up => file_systems = parse_file_systems(value()?)?,
            "--backing-dir" if up => backing_dir = Some(PathBuf::from(value()?)),
            "--dry-run" if attached.is_none() => dry_run = true,
            _ if flag.starts_with('-') => return Err(usage(format!("loopfs {verb} takes no `{word}`"))),
            _ if word.is_empty() => return Err(usage("the name of DIR is empty")),
            _ if dir.is_none() => dir = Some(PathBuf::from(word)),
            _ => {
                return Err(usage(format!("loopfs {verb} takes one DIR; `{word}` is too much")));
            }
        }
    }
    let dir = dir.ok_or_else(|| usage(format!("loopfs {verb} needs a DIR")))?;
    if !up {
        return Ok(Action::Down(Down { dir, dry_run }));
    }
    if let Some(fs) = file_systems.iter().find(|fs| size < fs.smallest()) {
        let smallest = fs.smallest() / MIB;
        return Err(usage(format!("{} needs a --size of {smallest}m or more", fs.name())));
    }
    Ok(Action::Up(Up { dir, size, file_systems, backing_dir, dry_run }))
}

/// A size in bytes: a number, and k, m, g or t for powers of 1024.
fn parse_size(text: &str) -> Outcome<u64> {
    let wrong = || usage(format!("`{text}` is no size; write it like 512m or 1g"));
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// A list of file systems, each once.
fn parse_file_systems(text: &str) -> Outcome<Vec<FileSystem>> {
    let mut list = Vec::new();
    for name in text.split(',') {
        let fs = FileSystem::from_name(name)
            .ok_or_else(|| usage(format!("--fs takes xfs, ext4 and btrfs, not `{name}`")))?;
        if !list.contains(&fs) {
            list.push(fs);
        }
    }
    Ok(list)
}

/// A usage error.
fn usage(text: impl Into<String>) -> Failure {
    Failure::Usage(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a line of words.
    fn parsed(line: &str) -> Result<Action, String> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words).map_err(|failure| match failure {
            Failure::Usage(text) => text,
            other => panic!("not a usage error: {other:?}"),
        })
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("0", 0), ("4096", 4096), ("3k", 3 << 10), ("512M", 512 << 20), ("2t", 2 << 40)]
        {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
        for text in ["", "g", "1gb", "-1g", "1.5g", "1 g", "99999999999999999999", "18014398509481984k", "1é"]
        {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn up_has_defaults() {
        let Ok(Action::Up(up)) = parsed("up d") else { panic!("not up") };
        assert_eq!(
            up,
            Up {
                dir: "d".into(),
                size: 1 << 30,
                file_systems: FileSystem::ALL.to_vec(),
                backing_dir: None,
                dry_run: false
            }
        );
    }

    #[test]
    fn up_takes_all_its_options_in_any_order() {
        let Ok(Action::Up(up)) = parsed("up --size=512m --fs btrfs,xfs,btrfs --dry-run d --backing-dir b")
        else {
            panic!("not up")
        };
        assert_eq!(
            up,
            Up {
                dir: "d".into(),
                size: 512 << 20,
                file_systems: vec![FileSystem::Btrfs, FileSystem::Xfs],
                backing_dir: Some("b".into()),
                dry_run: true
            }
        );
    }

    #[test]
    fn a_folder_may_hold_an_equals_sign() {
        assert_eq!(parsed("down a=b"), Ok(Action::Down(Down { dir: "a=b".into(), dry_run: false })));
    }

    #[test]
    fn wrong_words_are_told_in_one_line() {
        for line in [
            "",
            "sideways d",
            "up",
            "down",
            "up d e",
            "up d --size",
            "up d --size=",
            "up d --size 299m",
            "up d --size 127m --fs btrfs",
            "up d --fs zfs",
            "up d --fs xfs,",
            "up d --dry-run=yes",
            "down d --size 1g",
            "up d --frob",
        ] {
            let text = parsed(line).expect_err(line);
            assert!(!text.is_empty() && !text.contains('\n'), "{line}: {text}");
        }
    }
}
