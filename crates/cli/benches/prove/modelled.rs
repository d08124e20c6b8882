//! A mounted volume on modelled drives, which have garbage to collect; its log is in files of the disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::places::{Below, Mount, Place};
use crate::process::{Process, run};
use crate::{Args, Outcome};

/// How many drives, and how they are used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drives<'a> {
    pub(crate) count: usize,
    /// The policy of a mirror.
    pub(crate) policy: &'static str,
    /// What each of them is.
    pub(crate) model: &'a str,
}

/// The mount, and what it is over.
#[derive(Debug)]
struct Modelled {
    mount: Mount,
    volume: PathBuf,
    // These go last.
    _drives: Vec<Process>,
}

/// Memory for pages: less than PostgreSQL has from --scale 20 on, so that it reads from the drives.
const CACHE: &str = "128m";

impl Drives<'_> {
    /// A new volume of `size_mib` on new drives. Its files have `name`, tables have `title`.
    pub(crate) fn place(self, name: &str, title: &str, folder: &Path, args: &Args) -> Outcome<Place> {
        let evenkeel = env!("CARGO_BIN_EXE_evenkeel");
        let (volume, at) = (folder.join(format!("{name}.volume")), folder.join(format!("{name}.mounted")));
        std::fs::create_dir(&at).map_err(|error| format!("{}: {error}", at.display()))?;
        let mut create = Command::new(evenkeel);
        create.arg("create").arg(&volume).args([
            "--size",
            &format!("{}m", args.size_mib),
            "--format",
            "ext2",
        ]);
        if self.count > 1 {
            create.args(["--layout", "mirror"]);
        }
        let mut drives = Vec::new();
        // What a volume has besides its pages.
        let drive_mib = args.size_mib + args.size_mib / 32 + 64;
        for number in 0..self.count {
            let socket = folder.join(format!("{name}-{number}.sock"));
            let mut drive = Command::new(evenkeel);
            drive.args(["drive", self.model, "--precondition", "--size", &format!("{drive_mib}m")]);
            drive.args(["--seed", &number.to_string(), "--nbd", &format!("unix:{}", socket.display())]);
            let is_ready = || std::os::unix::net::UnixStream::connect(&socket).is_ok();
            drives.push(Process::start(&format!("{name}-{number}"), &drive, folder, is_ready)?);
            let export = format!("nbd+unix:///?socket={}", socket.display());
            create.args(["--member", &export, "--destroy", &export]);
        }
        run(&mut create)?;
        let mut mount = Command::new(evenkeel);
        mount.arg("mount").arg(&volume).arg(&at).args(["-o", "allow_other", "--cache", CACHE]);
        if self.count > 1 {
            mount.args(["--policy", self.policy]);
        }
        mount.args(args.mount_args.split_whitespace());
        let mount = Mount::start(name, &mount, folder, &at)?;
        Ok(Place::on(title, &at, Modelled { mount, volume, _drives: drives }))
    }
}

impl Below for Modelled {
    /// The system counts nothing that is sent to a drive in memory; the volume does.
    fn written_bytes(&self) -> u64 {
        let mut status = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        let said = run(status.arg("status").arg(&self.volume).arg("--json")).unwrap_or_default();
        let document: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
        let counted =
            ["home_bytes", "table_bytes", "log_bytes"].map(|name| document["counters"][name].as_u64());
        counted.into_iter().flatten().sum()
    }

    fn quiet(&self) -> Duration {
        self.mount.quiet()
    }
}
