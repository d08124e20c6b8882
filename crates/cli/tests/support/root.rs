//! Loop devices and mounts, which only root may make; each is undone when its guard is dropped, also where a
//! test fails.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether there are loop devices here; why not, if so.
pub(crate) fn loop_devices() -> Result<(), String> {
    match fs::exists("/dev/loop-control") {
        Ok(true) => Ok(()),
        _ => Err("no loop devices".to_owned()),
    }
}

/// A loop device over an image.
pub(crate) struct LoopDevice {
    pub(crate) node: String,
}

/// Something mounted on a folder.
pub(crate) struct Mounted {
    point: PathBuf,
}

impl LoopDevice {
    /// Over a new image of `bytes` bytes, each of them `fill`; or why there can be none here.
    pub(crate) fn over(image: &Path, bytes: usize, fill: u8) -> Result<Self, String> {
        must_be_root()?;
        fs::write(image, vec![fill; bytes]).unwrap();
        // Else the device's first writes push the image's own to the disk.
        File::open(image).unwrap().sync_all().unwrap();
        let node = run("losetup", &["--find", "--show", &image.display().to_string()])?;
        Ok(Self { node: node.trim().to_owned() })
    }

    /// Over a new image of `bytes` zeros, with sectors of this size.
    pub(crate) fn with_sectors(image: &Path, bytes: u64, sector_bytes: u32) -> Result<Self, String> {
        must_be_root()?;
        File::create(image).and_then(|file| file.set_len(bytes)).unwrap();
        let (image, sector_bytes) = (image.display().to_string(), sector_bytes.to_string());
        let node = run("losetup", &["--find", "--show", "--sector-size", &sector_bytes, &image])?;
        Ok(Self { node: node.trim().to_owned() })
    }

    /// Makes an ext4 file system on it and mounts that.
    pub(crate) fn mount_ext4(&self, point: &Path) -> Result<Mounted, String> {
        run("mkfs.ext4", &["-q", "-F", &self.node])?;
        Mounted::of(&self.node, point)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _gone_already_is_fine = run("losetup", &["--detach", &self.node]);
    }
}

impl Mounted {
    /// A file system in memory of `size` (`8m`), or why there can be none here.
    pub(crate) fn tmpfs(point: &Path, size: &str) -> Result<Self, String> {
        must_be_root()?;
        Self::on(point, &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
    }

    /// The file system on a block device.
    pub(crate) fn of(node: &str, point: &Path) -> Result<Self, String> {
        Self::on(point, &[node])
    }

    /// Allows no more writing.
    pub(crate) fn make_read_only(&self) {
        run("mount", &["-o", "remount,ro", &self.point.display().to_string()]).unwrap();
    }

    fn on(point: &Path, args: &[&str]) -> Result<Self, String> {
        fs::create_dir_all(point).unwrap();
        let shown = point.display().to_string();
        run("mount", &[args, &[shown.as_str()]].concat())?;
        Ok(Self { point: point.to_owned() })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let point = self.point.display().to_string();
        // Where a test failed somebody may still be in there.
        let _gone_already_is_fine = run("umount", &[&point]).or_else(|_| run("umount", &["--lazy", &point]));
    }
}

/// That this process may do what root may.
pub(crate) fn must_be_root() -> Result<(), String> {
    match fs::metadata("/proc/self").map(|own| own.uid()) {
        Ok(0) => Ok(()),
        _ => Err("not root".to_owned()),
    }
}

/// That the system has all of these programs.
pub(crate) fn programs(names: &[&str]) -> Result<(), String> {
    let path = search_path();
    let has = |name: &str| path.split(':').any(|folder| Path::new(folder).join(name).is_file());
    match names.iter().find(|name| !has(name)) {
        None => Ok(()),
        Some(missing) => Err(format!("no {missing}")),
    }
}

/// A program of the system.
pub(crate) fn system(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", search_path());
    command
}

/// The system's folders first, with those of root, which a user's path may lack: its Python has its packages.
fn search_path() -> String {
    "/usr/sbin:/usr/bin:/sbin:/bin:".to_owned() + &std::env::var("PATH").unwrap_or_default()
}

/// Runs a program of the system; answers what it printed, or why it did not do it.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<String, String> {
    let output = system(program).args(args).output().map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
            Err(format!("{program} failed: {said}"))
        }
    }
}

/// `command`, in which `/dev/shm` is a file system of its own, of `size` (`1m`): it goes with the last process in there.
pub(crate) fn with_own_memory(command: &Command, size: &str) -> Command {
    let mut own = system("unshare");
    let line = format!("mount -t tmpfs -o size={size},mode=1777 tmpfs /dev/shm && exec \"$0\" \"$@\"");
    own.args(["--mount", "sh", "-c", &line]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        own.current_dir(folder);
    }
    own
}

/// Runs a program, which must go well.
#[track_caller]
pub(crate) fn ran(program: &str, args: &[&str]) -> String {
    run(program, args).unwrap_or_else(|why| panic!("{why}"))
}
