//! ext4 over an NBD server: nbdfuse makes a file of the export, a loop device a disk of that.
//!
//! The kernel's own NBD client would save two copies and two changes of context; where it is not there, all servers pay alike.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::Outcome;
use crate::places::{Below, Place, Server};

/// What is served.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Export<'a> {
    /// A volume, with more arguments for `evenkeel serve`.
    Volume(&'a str),
    /// A file, by nbdkit.
    Nbdkit,
    /// A file, by qemu-nbd.
    QemuNbd,
}

/// What is below the file system, undone from above when it is dropped.
#[derive(Debug)]
pub(crate) struct Attached {
    mounted_at: Option<PathBuf>,
    node: Option<String>,
    fuse_at: PathBuf,
    // These go last, in this order.
    _fuse: Server,
    server: Server,
}

impl Export<'_> {
    fn name(self) -> &'static str {
        match self {
            Self::Volume(_) => "serve",
            Self::Nbdkit => "nbdkit",
            Self::QemuNbd => "qemu-nbd",
        }
    }

    /// Makes what is served, and answers what serves it on `socket`.
    fn make(self, folder: &Path, size_bytes: u64, socket: &Path) -> Outcome<Command> {
        let evenkeel = env!("CARGO_BIN_EXE_evenkeel");
        let file = folder.join(self.name());
        let mut command;
        match self {
            Self::Volume(serve_args) => {
                run(Command::new(evenkeel)
                    .arg("create")
                    .arg(&file)
                    .args(["--size", &size_bytes.to_string()]))?;
                command = Command::new(evenkeel);
                command.arg("serve").arg(&file).args(["--nbd", &format!("unix:{}", socket.display())]);
                command.args(serve_args.split_whitespace());
            }
            Self::Nbdkit => {
                fill(&file, size_bytes)?;
                command = Command::new("nbdkit");
                command.args(["-f", "-t", "16", "-U"]).arg(socket).arg("file").arg(&file);
            }
            Self::QemuNbd => {
                fill(&file, size_bytes)?;
                command = Command::new("qemu-nbd");
                command.args(["--persistent", "-f", "raw", "-e", "64", "--cache=writeback", "-k"]);
                command.arg(socket).arg(&file);
            }
        }
        Ok(command)
    }
}

impl Attached {
    /// A new ext4 over a new export.
    pub(crate) fn place(export: Export<'_>, folder: &Path, size_bytes: u64) -> Outcome<Place> {
        let name = export.name();
        let socket = folder.join(format!("{name}.sock"));
        let command = export.make(folder, size_bytes, &socket)?;
        let server = Server::start(name, &command, folder, || UnixStream::connect(&socket).is_ok())?;
        let (fuse_at, mounted_at) =
            (folder.join(format!("{name}.fuse")), folder.join(format!("{name}.mounted")));
        for at in [&fuse_at, &mounted_at] {
            fs::create_dir(at).map_err(|error| format!("{}: {error}", at.display()))?;
        }
        let mut nbdfuse = Command::new("nbdfuse");
        nbdfuse.arg(&fuse_at).arg("--unix").arg(&socket);
        let file = fuse_at.join("nbd");
        let fuse = Server::start(&format!("{name}.nbdfuse"), &nbdfuse, folder, || file.exists())?;
        let mut attached = Self { mounted_at: None, node: None, fuse_at, _fuse: fuse, server };
        let node = run(Command::new("losetup").args(["--find", "--show"]).arg(&file))?.trim().to_owned();
        attached.node = Some(node.clone());
        // Nothing is left to be written later, and no file loses what it was filled with.
        let now = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-E", now]).arg(&node))?;
        run(Command::new("mount").arg(&node).arg(&mounted_at))?;
        attached.mounted_at = Some(mounted_at.clone());
        Ok(Place::on(&format!("ext4 over {name}"), &mounted_at, attached))
    }
}

impl Below for Attached {
    fn written_bytes(&self) -> u64 {
        self.server.written_bytes()
    }

    fn quiet(&self) -> Duration {
        self.server.quiet()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(at) = &self.mounted_at {
            // Who used it may take a moment to end.
            let is_free = |_| {
                Command::new("umount").arg(at).stderr(Stdio::null()).status().is_ok_and(|it| it.success())
            };
            if !(0..50).any(|attempt| {
                is_free(attempt) || {
                    thread::sleep(Duration::from_millis(100));
                    false
                }
            }) {
                let _in_use_still = Command::new("umount").arg("--lazy").arg(at).status();
            }
        }
        if let Some(node) = &self.node {
            let _gone_already = Command::new("losetup").args(["--detach", node]).status();
            // It goes once nobody holds it; nbdfuse has to live until then.
            let backing = PathBuf::from(node.replace("/dev/", "/sys/block/")).join("loop/backing_file");
            for _ in 0..1000 {
                if !backing.exists() {
                    break;
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
        let _gone_already =
            Command::new("fusermount3").args(["-u", "-z"]).arg(&self.fuse_at).stderr(Stdio::null()).status();
    }
}

/// A file of which every byte was written, as those of a disk were: to write into it takes no change of its extents.
fn fill(file: &Path, size_bytes: u64) -> Outcome {
    let bytes = vec![0; 1 << 20];
    let written = fs::File::create(file).and_then(|mut file| {
        let mut left = size_bytes;
        while left > 0 {
            let len = left.min(bytes.len() as u64);
            file.write_all(&bytes[..len as usize])?;
            left -= len;
        }
        file.sync_all()
    });
    written.map_err(|error| format!("{}: {error}", file.display()))
}

/// Runs a program; answers what it printed, or why it did not do it.
pub(crate) fn run(command: &mut Command) -> Outcome<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim_end())),
    }
}
