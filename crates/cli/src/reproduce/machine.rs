//! File systems of this machine's kernel on drives by model in real time.
//!
//! ```text
//! file system - loop device - nbdfuse - evenkeel drive
//! ```
//!
//! 1. All of it is in a folder of its own, and undone when its guard is dropped, in the order in which it rests on each
//!    other.
//! 2. What is started has a process group of its own: Ctrl-C asks this command to stop, and takes no drive away from under
//!    a file system.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_host::interrupt::Interrupt;
use evenkeel_measure::reproduce::{FileSystem, Machine, Mounted, Wanted};

/// What it takes beside this command.
const PROGRAMS: [&str; 8] =
    ["nbdfuse", "fusermount3", "losetup", "mount", "umount", "mkfs.xfs", "mkfs.ext4", "mkfs.btrfs"];
const DEVICES: [&str; 2] = ["/dev/fuse", "/dev/loop-control"];

/// How long a drive or a file may take to be there, or to be gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// Loop devices over drives of this command.
pub(crate) struct Loops {
    evenkeel: PathBuf,
    interrupt: Interrupt,
}

impl Loops {
    /// What it takes, or why there can be none here, in a line.
    pub(crate) fn find(interrupt: Interrupt) -> Result<Self, String> {
        if fs::metadata("/proc/self").map(|own| own.uid()).ok() != Some(0) {
            return Err("only root may make loop devices and mount file systems".to_owned());
        }
        let is_there =
            |program: &str| search_path().split(':').any(|folder| Path::new(folder).join(program).is_file());
        if let Some(missing) = PROGRAMS.iter().find(|program| !is_there(program)) {
            return Err(format!("there is no {missing}"));
        }
        if let Some(missing) = DEVICES.iter().find(|device| !Path::new(device).exists()) {
            return Err(format!("there is no {missing}"));
        }
        let evenkeel =
            std::env::current_exe().map_err(|error| format!("cannot find this command: {error}"))?;
        Ok(Self { evenkeel, interrupt })
    }
}

impl Machine for Loops {
    fn mount(&self, wanted: &Wanted) -> Result<Box<dyn Mounted>, String> {
        let folder = Folder::new()?;
        let (socket, point) = (folder.0.join("drive"), folder.0.join("mounted"));
        let drive = Drive::serve(&self.evenkeel, wanted, &socket)?;
        let fuse = Fuse::mount(&socket, &folder.0.join("fuse"))?;
        let loop_device = LoopDevice::over(&fuse.file())?;
        make(wanted, &loop_device.node)?;
        let mount = Mount::of(wanted.file_system, &loop_device.node, point)?;
        Ok(Box::new(Stack { mount, _loop_device: loop_device, _fuse: fuse, _drive: drive, _folder: folder }))
    }

    fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}

/// A mounted file system and what it rests on, to be undone in this order.
struct Stack {
    mount: Mount,
    _loop_device: LoopDevice,
    _fuse: Fuse,
    _drive: Drive,
    _folder: Folder,
}

impl Mounted for Stack {
    fn folder(&self) -> &Path {
        &self.mount.point
    }
}

/// A folder of this run's own. It goes if all that was in it has gone.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("evenkeel-reproduce-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| format!("{}: cannot make the folder: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for name in ["drive", "drive.control"] {
            let _gone_already_is_fine = fs::remove_file(self.0.join(name));
        }
        for name in ["mounted", "fuse", "."] {
            let _in_use_is_left_alone = fs::remove_dir(self.0.join(name));
        }
        let _in_use_is_left_alone = fs::remove_dir(&self.0);
    }
}

/// A drive by model that is served until this is dropped.
struct Drive(Child);

impl Drive {
    fn serve(evenkeel: &Path, wanted: &Wanted, socket: &Path) -> Result<Self, String> {
        let mut place = std::ffi::OsString::from("unix:");
        place.push(socket);
        let size = wanted.drive_bytes.to_string();
        let args = [OsStr::new("drive"), wanted.model.as_ref(), "--size".as_ref(), size.as_ref()];
        let mut command = Command::new(evenkeel);
        let mut drive = Self(start(command.args(args).arg("--nbd").arg(place))?);
        wait_for("the drive", &mut drive.0, || UnixStream::connect(socket).is_ok())?;
        Ok(drive)
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        // It keeps nothing that it would have to write down.
        let _ended_already_is_fine = self.0.kill();
        let _ended_already_is_fine = self.0.wait();
    }
}

/// The drive as a file, until this is dropped.
struct Fuse {
    point: PathBuf,
    child: Child,
}

impl Fuse {
    fn mount(socket: &Path, point: &Path) -> Result<Self, String> {
        fs::create_dir(point).map_err(|error| format!("{}: {error}", point.display()))?;
        let child = start(program("nbdfuse").arg(point).arg("--unix").arg(socket))?;
        let mut fuse = Self { point: point.to_owned(), child };
        let file = fuse.file();
        wait_for("the file of nbdfuse", &mut fuse.child, || file.exists())?;
        Ok(fuse)
    }

    fn file(&self) -> PathBuf {
        self.point.join("nbd")
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let _gone_already_is_fine = run(program("fusermount3").args(["-u", "-z"]).arg(&self.point));
        let _ended_already_is_fine = self.child.kill();
        let _ended_already_is_fine = self.child.wait();
    }
}

/// A loop device, until this is dropped.
struct LoopDevice {
    node: String,
}

impl LoopDevice {
    fn over(file: &Path) -> Result<Self, String> {
        let node = run(program("losetup").args(["--find", "--show", "--direct-io=on"]).arg(file))?;
        Ok(Self { node: node.trim().to_owned() })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _gone_already_is_fine = run(program("losetup").arg("--detach").arg(&self.node));
        // It goes once nobody holds it; what it rests on must be there until then.
        let held = PathBuf::from(self.node.replace("/dev/", "/sys/block/")).join("loop/backing_file");
        let began = Instant::now();
        while held.exists() && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Nothing is discarded, and nothing left to be initialized once it is mounted.
fn make(wanted: &Wanted, node: &str) -> Result<(), String> {
    let bytes = wanted.file_system_bytes;
    let mut command = match wanted.file_system {
        FileSystem::Xfs => program("mkfs.xfs"),
        FileSystem::Ext4 => program("mkfs.ext4"),
        FileSystem::Btrfs => program("mkfs.btrfs"),
    };
    match wanted.file_system {
        FileSystem::Xfs => command.args(["-q", "-f", "-K", "-d"]).arg(format!("size={bytes}")).arg(node),
        FileSystem::Ext4 => {
            let lazy = "nodiscard,lazy_itable_init=1,lazy_journal_init=1";
            command.args(["-q", "-F", "-E", lazy]).arg(node).arg(format!("{}k", bytes / 1024))
        }
        FileSystem::Btrfs => command.args(["-q", "-f", "-K", "-b"]).arg(bytes.to_string()).arg(node),
    };
    run(&mut command).map(drop)
}

/// A file system on its folder, until this is dropped.
struct Mount {
    point: PathBuf,
}

impl Mount {
    fn of(file_system: FileSystem, node: &str, point: PathBuf) -> Result<Self, String> {
        fs::create_dir(&point).map_err(|error| format!("{}: {error}", point.display()))?;
        let (name, options) = match file_system {
            FileSystem::Xfs => ("xfs", "nodiscard"),
            FileSystem::Ext4 => ("ext4", "nodiscard,noinit_itable"),
            FileSystem::Btrfs => ("btrfs", "nodiscard"),
        };
        run(program("mount").args(["-t", name, "-o", options, node]).arg(&point))?;
        Ok(Self { point })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if run(program("umount").arg(&self.point)).is_err() {
            let _gone_already_is_fine = run(program("umount").arg("--lazy").arg(&self.point));
        }
    }
}

/// The system's folders first, with those of root, which a user's path may lack.
fn search_path() -> String {
    "/usr/sbin:/usr/bin:/sbin:/bin:".to_owned() + &std::env::var("PATH").unwrap_or_default()
}

fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", search_path());
    command
}

/// Starts what goes on until it is ended.
fn start(command: &mut Command) -> Result<Child, String> {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let shown = command.get_program().to_string_lossy().into_owned();
    command.spawn().map_err(|error| format!("{shown}: {error}"))
}

/// Runs what comes to its end; answers what it printed, or why it did not do it, in a line.
fn run(command: &mut Command) -> Result<String, String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command.process_group(0).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    Err(format!("{shown} failed: {}", last.trim()))
}

fn wait_for(what: &str, child: &mut Child, is_there: impl Fn() -> bool) -> Result<(), String> {
    let began = Instant::now();
    while !is_there() {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("{what} did not come: it ended with {status}"));
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("{what} did not come in {} s", PATIENCE.as_secs()));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
