//! The file systems: a volume that is mounted here, and folders that are mounted already.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Args, Outcome};

const START_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(120);
const REST_MAX: Duration = Duration::from_secs(60);

/// A file system that is there already: its name, and a folder in it.
#[derive(Debug, Clone)]
pub(crate) struct Beside(String, PathBuf);

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
    below: Below,
}

/// What a file system writes through.
#[derive(Debug)]
enum Below {
    /// A server.
    Server(Server),
    /// A block device, with its statistics in /sys.
    Device(PathBuf),
}

#[derive(Debug)]
struct Server {
    child: Child,
    at: PathBuf,
}

impl Place {
    /// A new volume, mounted.
    pub(crate) fn mounted(name: &str, program: Option<&Path>, folder: &Path, args: &Args) -> Outcome<Self> {
        let program = program.unwrap_or(Path::new(env!("CARGO_BIN_EXE_evenkeel")));
        let (volume, at) = (folder.join(format!("{name}.volume")), folder.join(name));
        fs::create_dir(&at).map_err(|error| format!("{}: {error}", at.display()))?;
        let said_path = folder.join(format!("{name}.said"));
        let said =
            fs::File::create(&said_path).map_err(|error| format!("{}: {error}", said_path.display()))?;
        // Whoever ends the benchmark, however, ends its servers.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]).arg(program).arg("mount").arg(&volume).arg(&at);
        command.args(["--create", &format!("{}m", args.size_mib)]).args(args.mount_args.split_whitespace());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn();
        let child = child.map_err(|error| format!("{name}: {error}"))?;
        let mut server = Server { child, at: at.clone() };
        let began = Instant::now();
        while !is_mounted(&at) {
            if !matches!(server.child.try_wait(), Ok(None)) || began.elapsed() > START_MAX {
                let said = fs::read_to_string(&said_path).unwrap_or_default();
                return Err(format!("{name} does not mount: {}", said.trim_end()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { name: name.to_owned(), folder: at.join("bench"), below: Below::Server(server) })
    }

    /// A folder of a file system that is there.
    pub(crate) fn there(Beside(name, folder): &Beside) -> Outcome<Self> {
        let metadata = fs::metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (major, minor) = (libc::major(metadata.dev()), libc::minor(metadata.dev()));
        let device = match device_of(folder) {
            Some(device) => PathBuf::from(format!("/sys/class/block/{device}/stat")),
            None => PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat")),
        };
        if !device.exists() {
            return Err(format!("{}: no block device holds it", folder.display()));
        }
        Ok(Self { name: name.clone(), folder: folder.join("evenkeel-bench"), below: Below::Device(device) })
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
        if let Some(parent) = self.folder.parent() {
            let _what_cannot_be_synced_is_waited_for = Command::new("sync").arg("-f").arg(parent).status();
        }
        let began = Instant::now();
        let (mut before, mut unchanged) = (self.written_bytes(), 0);
        // A server writes what nobody syncs every five seconds.
        let quiet = if matches!(self.below, Below::Server(_)) { 60 } else { 4 };
        while unchanged < quiet && began.elapsed() < REST_MAX {
            thread::sleep(Duration::from_millis(100));
            let now = self.written_bytes();
            unchanged = if now == before { unchanged + 1 } else { 0 };
            before = now;
        }
    }

    /// Bytes written to the disk so far.
    pub(crate) fn written_bytes(&self) -> u64 {
        match &self.below {
            Below::Server(server) => {
                let io = fs::read_to_string(format!("/proc/{}/io", server.child.id())).unwrap_or_default();
                let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
                line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
            }
            Below::Device(stat) => {
                let stat = fs::read_to_string(stat).unwrap_or_default();
                let sectors = stat.split_whitespace().nth(6).and_then(|word| word.parse::<u64>().ok());
                sectors.unwrap_or(0) * 512
            }
        }
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

fn is_mounted(at: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    at.parent().is_some_and(|parent| device(at).is_some() && device(at) != device(parent))
}

impl Drop for Server {
    fn drop(&mut self) {
        let id = self.child.id().to_string();
        let _it_may_have_ended =
            Command::new("kill").args(["-s", "TERM", &id]).stderr(Stdio::null()).status();
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if began.elapsed() > STOP_MAX {
                let _it_may_have_ended = self.child.kill();
                let _or_is_gone =
                    Command::new("umount").arg("-l").arg(&self.at).stderr(Stdio::null()).status();
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}
