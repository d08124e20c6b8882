//! The file systems: a volume that is mounted here, and folders of what is mounted already.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_host::mounted;
use evenkeel_host::undo::Undo;

use crate::Outcome;
use crate::process::Process;

const REST_MAX: Duration = Duration::from_secs(60);

/// A file system that is there already: its name, and a folder in it.
#[derive(Debug, Clone)]
pub(crate) struct Beside(pub(crate) String, pub(crate) PathBuf);

impl FromStr for Beside {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let (name, folder) = word.split_once('=').ok_or("NAME=FOLDER is wanted")?;
        Ok(Self(name.to_owned(), folder.into()))
    }
}

/// A file system that is measured.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
    /// Where files are made; empty at the start of each turn.
    pub(crate) folder: PathBuf,
    below: Box<dyn Below>,
}

/// What a file system writes through. All of it ends when this is dropped.
pub(crate) trait Below: std::fmt::Debug + Send + Sync {
    /// Bytes written to the disk so far.
    fn written_bytes(&self) -> u64;

    /// For how long nothing is written where nothing more is to be.
    fn quiet(&self) -> Duration;
}

/// A block device, with its statistics in /sys.
#[derive(Debug)]
pub(crate) struct Device(PathBuf);

/// A server that mounts its volume by itself.
#[derive(Debug)]
pub(crate) struct Mount {
    server: Process,
    // Behind the server's end, which unmounts in order, nothing is left to be undone.
    _mounted: Undo,
}

/// What a sync of the kernel leaves to be written comes at once.
const QUIET_OF_KERNELS: Duration = Duration::from_millis(400);

/// A server of ours writes what nobody syncs every five seconds.
const QUIET_OF_SERVERS: Duration = Duration::from_secs(6);

impl Place {
    /// A new volume of `size_mib` MiB in `folder`, mounted by `program` or the one that was built, with more arguments for it.
    pub(crate) fn mounted(
        name: &str,
        program: Option<&Path>,
        folder: &Path,
        size_mib: u64,
        mount_args: &str,
    ) -> Outcome<Self> {
        let program = program.unwrap_or(Path::new(env!("CARGO_BIN_EXE_evenkeel")));
        let (volume, at) = (folder.join(format!("{name}.volume")), folder.join(name));
        fs::create_dir(&at).map_err(|error| format!("{}: {error}", at.display()))?;
        let mut command = Command::new(program);
        command.arg("mount").arg(&volume).arg(&at).args(["--create", &format!("{size_mib}m")]);
        command.args(mount_args.split_whitespace());
        let mount = Mount::start(name, &command, folder, &at)?;
        Ok(Self::on(name, &at, mount))
    }

    /// A folder of a file system that is there.
    pub(crate) fn there(Beside(name, folder): &Beside) -> Outcome<Self> {
        Ok(Self::on(name, folder, Device::below(folder)?))
    }

    /// A folder in `folder`, which is mounted over `below`.
    pub(crate) fn on(name: &str, folder: &Path, below: impl Below + 'static) -> Self {
        Self { name: name.to_owned(), folder: folder.join("evenkeel-bench"), below: Box::new(below) }
    }

    /// Makes the folder, empty.
    pub(crate) fn begin(&self) -> Outcome {
        self.end()?;
        fs::create_dir(&self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))
    }

    /// Takes away what a turn left, and waits until that is written.
    pub(crate) fn end(&self) -> Outcome {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("{}: {error}", self.folder.display()));
            }
            _ => self.settle(),
        }
        Ok(())
    }

    /// Waits until all that was written is on the disk.
    pub(crate) fn settle(&self) {
        self.settle_for(self.below.quiet());
    }

    /// The same, until nothing was written for `quiet`.
    pub(crate) fn settle_for(&self, quiet: Duration) {
        const TICK: Duration = Duration::from_millis(100);
        if let Some(parent) = self.folder.parent() {
            let _what_cannot_be_synced_is_waited_for = Command::new("sync").arg("-f").arg(parent).status();
        }
        let began = Instant::now();
        let (mut before, mut unchanged) = (self.written_bytes(), Duration::ZERO);
        while unchanged < quiet && began.elapsed() < REST_MAX {
            thread::sleep(TICK);
            let now = self.written_bytes();
            unchanged = if now == before { unchanged + TICK } else { Duration::ZERO };
            before = now;
        }
    }

    /// Bytes written to the disk so far.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.below.written_bytes()
    }
}

impl Device {
    /// The block device that a folder is on.
    fn below(folder: &Path) -> Outcome<Self> {
        let metadata = fs::metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (major, minor) = (libc::major(metadata.dev()), libc::minor(metadata.dev()));
        let statistics = match device_of(folder) {
            Some(device) => PathBuf::from(format!("/sys/class/block/{device}/stat")),
            None => PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat")),
        };
        match statistics.exists() {
            true => Ok(Self(statistics)),
            false => Err(format!("{}: no block device holds it", folder.display())),
        }
    }
}

impl Below for Device {
    fn written_bytes(&self) -> u64 {
        let statistics = fs::read_to_string(&self.0).unwrap_or_default();
        let sectors = statistics.split_whitespace().nth(6).and_then(|word| word.parse::<u64>().ok());
        sectors.unwrap_or(0) * 512
    }

    fn quiet(&self) -> Duration {
        QUIET_OF_KERNELS
    }
}

impl Below for Process {
    fn written_bytes(&self) -> u64 {
        Process::written_bytes(self)
    }

    fn quiet(&self) -> Duration {
        QUIET_OF_SERVERS
    }
}

impl Mount {
    /// Starts it, and waits until it is mounted at `at`.
    pub(crate) fn start(name: &str, command: &Command, folder: &Path, at: &Path) -> Outcome<Self> {
        let at = at.canonicalize().map_err(|error| format!("{}: {error}", at.display()))?;
        let is_ready = || mounted::is_mount_point(&at).unwrap_or(false);
        let mount = || {
            let server = Process::start(name, command, folder, is_ready).map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>(server)
        };
        let undo = |_: &Process| -> Box<dyn FnOnce() + Send> {
            let at = at.clone();
            Box::new(move || mounted::remove_leftover(&at))
        };
        let (mounted, server) = Undo::make(mount, undo).map_err(|error| error.to_string())?;
        Ok(Self { server, _mounted: mounted })
    }
}

impl Below for Mount {
    fn written_bytes(&self) -> u64 {
        self.server.written_bytes()
    }

    fn quiet(&self) -> Duration {
        QUIET_OF_SERVERS
    }
}

/// The name of the block device that the mount table says a folder is on.
fn device_of(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let table = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = table.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, Path::new(words.next()?)))
    });
    let covering = mounts.filter(|(_, at)| folder.starts_with(at));
    let (device, _) = covering.max_by_key(|(_, at)| at.components().count())?;
    device.strip_prefix("/dev/").map(str::to_owned)
}
