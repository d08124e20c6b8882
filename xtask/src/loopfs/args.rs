//! What `loopfs` is asked to do.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::builder::TypedValueParser as _;
use clap::{Subcommand, ValueEnum};

use crate::run::{Failure, Outcome};

/// One MiB.
const MIB: u64 = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  sudo -E cargo xtask loopfs up /tmp/fs --size 2g   xfs, ext4 and btrfs at /tmp/fs/xfs, ...
  sudo -E cargo xtask loopfs down /tmp/fs           all of it is gone";

/// The two things that `loopfs` does.
#[derive(Debug, PartialEq, Eq, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Action {
    /// Make file systems in image files and mount them at DIR/xfs, DIR/ext4, DIR/btrfs
    Up(Up),
    /// Remove what `loopfs up` made
    Down(Down),
}

/// Options of `loopfs up`.
#[derive(Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Up {
    /// The folder that they are mounted in
    #[arg(value_parser = NonEmptyStringValueParser::new().map(PathBuf::from))]
    pub(super) dir: PathBuf,
    /// Size of each image file
    #[arg(long, default_value = "1g", value_parser = parse_size)]
    pub(super) size: u64,
    /// Which file systems
    #[arg(long = "fs", value_delimiter = ',', default_value = "xfs,ext4,btrfs")]
    pub(super) file_systems: Vec<FileSystem>,
    /// The folder for the image files [default: DIR]
    #[arg(long, value_name = "DIR", value_parser = NonEmptyStringValueParser::new().map(PathBuf::from))]
    pub(super) backing_dir: Option<PathBuf>,
    /// Only show the commands
    #[arg(long)]
    pub(super) dry_run: bool,
}

impl Up {
    /// The same with each file system once; a size too small for one is refused.
    pub(super) fn checked(mut self) -> Outcome<Self> {
        let mut seen = Vec::new();
        self.file_systems.retain(|fs| {
            !seen.contains(fs) && {
                seen.push(*fs);
                true
            }
        });
        match self.file_systems.iter().find(|fs| self.size < fs.smallest()) {
            Some(fs) => Err(Failure::Usage(format!(
                "{} needs a --size of {}m or more",
                fs.name(),
                fs.smallest() / MIB
            ))),
            None => Ok(self),
        }
    }
}

/// Options of `loopfs down`.
#[derive(Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Down {
    /// The folder that was given to `loopfs up`
    #[arg(value_parser = NonEmptyStringValueParser::new().map(PathBuf::from))]
    pub(super) dir: PathBuf,
    /// Only show the commands
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// A file system that can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileSystem {
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

/// A size in bytes: a number, and k, m, g or t for powers of 1024.
fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || "not a size; write it like 512m or 1g".to_owned();
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        action: Action,
    }

    fn up(line: &str) -> Up {
        match Line::try_parse_from(["loopfs"].into_iter().chain(line.split_whitespace()))
            .map(|line| line.action)
        {
            Ok(Action::Up(up)) => up,
            other => panic!("not up: {:?}", other.err()),
        }
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
        let expected = Up {
            dir: "d".into(),
            size: 1 << 30,
            file_systems: FileSystem::ALL.to_vec(),
            backing_dir: None,
            dry_run: false,
        };
        assert_eq!(up("up d").checked().unwrap(), expected);
    }

    #[test]
    fn up_takes_all_its_options_in_any_order() {
        let expected = Up {
            dir: "d".into(),
            size: 512 << 20,
            file_systems: vec![FileSystem::Btrfs, FileSystem::Xfs],
            backing_dir: Some("b".into()),
            dry_run: true,
        };
        let found = up("up --size=512m --fs btrfs,xfs,btrfs --dry-run d --backing-dir b");
        assert_eq!(found.checked().unwrap(), expected);
    }

    #[test]
    fn a_size_too_small_for_a_file_system_is_refused() {
        for line in ["up d --size 299m", "up d --size 127m --fs btrfs"] {
            assert!(
                matches!(up(line).checked(), Err(Failure::Usage(text)) if text.contains("--size")),
                "{line}"
            );
        }
    }
}
