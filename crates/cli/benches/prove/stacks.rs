//! Where the files of databases are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use evenkeel_host::interrupt::Interrupt;

use crate::attached::{Attached, Export};
use crate::modelled::Drives;
use crate::places::{Beside, Place};
use crate::process::{Need, missing};
use crate::{Args, Outcome};

/// What there is between a database and the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum StackKind {
    /// A volume that `evenkeel mount` mounts
    Mount,
    /// A folder of the disk's own file system
    Folder,
    /// ext4 over a volume that `evenkeel serve` serves
    Serve,
    /// ext4 over a file that nbdkit serves
    Nbdkit,
    /// ext4 over a file that qemu-nbd serves
    QemuNbd,
    /// With --drive: a mounted volume on one such drive
    OneDrive,
    /// A mounted mirror of two, which both write at once
    TwoMixed,
    /// A mounted mirror of two, in turns where that helps
    TwoAuto,
}

/// On the disk as it is, and on modelled drives.
const ON_DISK: [StackKind; 5] =
    [StackKind::Mount, StackKind::Folder, StackKind::Serve, StackKind::Nbdkit, StackKind::QemuNbd];
const ON_DRIVES: [StackKind; 3] = [StackKind::TwoAuto, StackKind::OneDrive, StackKind::TwoMixed];

impl StackKind {
    /// As the option takes it.
    fn option(self) -> String {
        clap::ValueEnum::to_possible_value(&self)
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn needs(self) -> &'static [Need] {
        const ATTACHED: [Need; 2] = [
            Need { program: "nbdfuse", package: "libnbd-bin" },
            Need { program: "mkfs.ext4", package: "e2fsprogs" },
        ];
        match self {
            Self::Mount | Self::OneDrive | Self::TwoMixed | Self::TwoAuto => {
                &[Need { program: "fusermount3", package: "fuse3" }]
            }
            Self::Folder => &[],
            Self::Serve => &ATTACHED,
            Self::Nbdkit => &[ATTACHED[0], ATTACHED[1], Need { program: "nbdkit", package: "nbdkit" }],
            Self::QemuNbd => &[ATTACHED[0], ATTACHED[1], Need { program: "qemu-nbd", package: "qemu-utils" }],
        }
    }
}

/// Those that are asked for and can be had; what is missing is told.
pub(crate) fn wanted(args: &Args) -> Outcome<Vec<StackKind>> {
    let is_asked = |kind: &StackKind| args.stacks.is_empty() || args.stacks.contains(kind);
    let all = if args.drive.is_some() { &ON_DRIVES[..] } else { &ON_DISK };
    if let Some(other) = args.stacks.iter().find(|kind| !all.contains(kind)) {
        let with = if args.drive.is_some() { "without" } else { "only with" };
        return Err(format!("--stack {} is there {with} --drive", other.option()));
    }
    let mut kinds = Vec::new();
    for kind in all.iter().copied().filter(is_asked) {
        match missing(kind.needs()) {
            None => kinds.push(kind),
            Some(what) => eprintln!("{} is left out: {what}", kind.option()),
        }
    }
    if kinds.is_empty() { Err("nothing is left to compare".to_owned()) } else { Ok(kinds) }
}

/// How long nothing is written behind a sync where nothing more is to be.
const REST: Duration = Duration::from_secs(2);

/// One that is there until this is dropped.
#[derive(Debug)]
pub(crate) struct Stack {
    place: Place,
}

impl Stack {
    /// Makes it in `folder`.
    pub(crate) fn make(kind: StackKind, folder: &Path, args: &Args, interrupt: &Interrupt) -> Outcome<Self> {
        let size_bytes = args.size_mib << 20;
        let model = args.drive.as_deref().unwrap_or_default();
        let drives = |name: &str, how: &str, count, policy| {
            Drives { count, policy, model }.place(name, &format!("{how} {model}"), folder, args)
        };
        let place = match kind {
            StackKind::Mount => {
                // Databases have users of their own.
                let mount_args = format!("-o allow_other {}", args.mount_args);
                Place::mounted("evenkeel mount", None, folder, args.size_mib, &mount_args)?
            }
            StackKind::Folder => {
                let at = folder.join("folder");
                fs::create_dir(&at).map_err(|error| format!("{}: {error}", at.display()))?;
                Place::there(&Beside(format!("{} of the disk", type_of(&at)), at))?
            }
            StackKind::Serve => {
                Attached::place(Export::Volume(&args.serve_args), folder, size_bytes, interrupt)?
            }
            StackKind::Nbdkit => Attached::place(Export::Nbdkit, folder, size_bytes, interrupt)?,
            StackKind::QemuNbd => Attached::place(Export::QemuNbd, folder, size_bytes, interrupt)?,
            StackKind::OneDrive => drives("one", "one", 1, "auto")?,
            StackKind::TwoMixed => drives("two-mixed", "two, `mixed`,", 2, "mixed")?,
            StackKind::TwoAuto => drives("two", "two, `auto`,", 2, "auto")?,
        };
        place.begin()?;
        Ok(Self { place })
    }

    /// What it is called in tables.
    pub(crate) fn name(&self) -> &str {
        &self.place.name
    }

    /// The folder of a database or a neighbour.
    pub(crate) fn folder_of(&self, name: &str) -> PathBuf {
        self.place.folder.join(name)
    }

    /// Waits until all that was written is on the disk. All rest for equally long at least: some drives mend themselves meanwhile.
    pub(crate) fn settle(&self) {
        self.place.settle_for(REST);
    }
}

/// The type of the file system that a folder is in.
fn type_of(folder: &Path) -> String {
    let output = Command::new("stat").args(["--file-system", "--format", "%T"]).arg(folder).output();
    let name = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    // ext2, ext3 and ext4 have the same number.
    match name.as_deref() {
        Ok("ext2/ext3") => "ext4".to_owned(),
        Ok(name) if !name.is_empty() => name.to_owned(),
        _ => "file system".to_owned(),
    }
}
