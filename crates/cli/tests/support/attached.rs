//! An export as a disk of this machine: nbdfuse makes a file of it, a loop device a disk of that.
//!
//! All of it is undone when its guard is dropped, also where the server behind it is dead.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::root::{self, run};
use super::served::patiently;

/// The export at a Unix socket as a file, by nbdfuse.
pub(crate) struct Fuse {
    point: PathBuf,
    child: Child,
}

/// A loop device over such a file.
pub(crate) struct Disk {
    pub(crate) node: String,
    // Goes after the loop device.
    _fuse: Fuse,
}

/// What it takes, or why there can be none here.
pub(crate) fn possible() -> Result<(), String> {
    root::must_be_root()?;
    root::programs(&["nbdfuse", "fusermount3", "losetup"])?;
    match Path::new("/dev/fuse").exists() && Path::new("/dev/loop-control").exists() {
        true => Ok(()),
        false => Err("no /dev/fuse or no /dev/loop-control".to_owned()),
    }
}

impl Fuse {
    /// The file is `point`/nbd.
    pub(crate) fn mount(socket: &Path, point: &Path) -> Self {
        fs::create_dir_all(point).unwrap();
        let child = root::system("nbdfuse")
            .arg(point)
            .arg("--unix")
            .arg(socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut fuse = Self { point: point.to_owned(), child };
        patiently("the file of nbdfuse", || {
            let ended = fuse.child.try_wait().unwrap();
            assert!(ended.is_none(), "nbdfuse: {ended:?}");
            fuse.file().exists().then_some(())
        });
        fuse
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.point.join("nbd")
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let point = self.point.display().to_string();
        let _gone_already_is_fine = run("fusermount3", &["-u", "-z", &point]);
        let _ended_already_is_fine = self.child.kill();
        let _ended_already_is_fine = self.child.wait();
    }
}

impl Disk {
    /// The export at `socket`; `point` is a folder of no other use.
    pub(crate) fn attach(socket: &Path, point: &Path) -> Self {
        let fuse = Fuse::mount(socket, point);
        let node = run("losetup", &["--find", "--show", &fuse.file().display().to_string()]).unwrap();
        Self { node: node.trim().to_owned(), _fuse: fuse }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _gone_already_is_fine = run("losetup", &["--detach", &self.node]);
        // It goes once nobody holds it; nbdfuse must live until then.
        let backing = PathBuf::from(self.node.replace("/dev/", "/sys/block/")).join("loop/backing_file");
        for _ in 0..1000 {
            if !backing.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

/// A program that is killed when this is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended_already_is_fine = self.0.kill();
        let _ended_already_is_fine = self.0.wait();
    }
}
