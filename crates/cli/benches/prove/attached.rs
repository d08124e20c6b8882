//! ext4 over an NBD server: nbdfuse makes a file of the export, a loop device a disk of that.
//!
//! The kernel's own NBD client would save two copies and two changes of context; where it is not there, all servers pay alike.

use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::loop_device;
use evenkeel_host::mounted::Mounted;
use evenkeel_host::undo::Undo;

use crate::Outcome;
use crate::places::{Below, Mount, Place};
use crate::process::{Process, run};

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

/// What is below the file system. It ends from above.
#[derive(Debug)]
pub(crate) struct Attached {
    _mounted: Mounted,
    _node: Undo,
    _fuse: Mount,
    server: Process,
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
    pub(crate) fn place(
        export: Export<'_>,
        folder: &Path,
        size_bytes: u64,
        interrupt: &Interrupt,
    ) -> Outcome<Place> {
        let name = export.name();
        let socket = folder.join(format!("{name}.sock"));
        let command = export.make(folder, size_bytes, &socket)?;
        let server = Process::start(name, &command, folder, || UnixStream::connect(&socket).is_ok())?;
        let [fuse_at, mounted_at] = ["fuse", "mounted"].map(|what| folder.join(format!("{name}.{what}")));
        for at in [&fuse_at, &mounted_at] {
            fs::create_dir(at).map_err(|error| format!("{}: {error}", at.display()))?;
        }
        let mut nbdfuse = Command::new("nbdfuse");
        nbdfuse.arg(&fuse_at).arg("--unix").arg(&socket);
        let file = fuse_at.join("nbd");
        let fuse = Mount::start(&format!("{name}.nbdfuse"), &nbdfuse, folder, &fuse_at)?;
        let (node_undone, node) = attach(&file)?;
        // Nothing is left to be written later, and no file loses what it was filled with.
        let now = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-E", now]).arg(&node))?;
        let words = ["mount".into(), node.into(), mounted_at.clone().into()];
        let mounted =
            Mounted::new(words.into(), &mounted_at, interrupt).map_err(|error| error.to_string())?;
        let attached = Self { _mounted: mounted, _node: node_undone, _fuse: fuse, server };
        Ok(Place::on(&format!("ext4 over {name}"), &mounted_at, attached))
    }
}

/// A loop device over the file, and what detaches it. Its I/O goes through the page cache, as nbdfuse's does.
fn attach(file: &Path) -> Outcome<(Undo, String)> {
    let file = file.canonicalize().map_err(|error| format!("{}: {error}", file.display()))?;
    let make =
        || run(Command::new("losetup").args(["--find", "--show"]).arg(&file)).map_err(io::Error::other);
    let undo = |_: &String| -> Box<dyn FnOnce() + Send> {
        let file = file.clone();
        Box::new(move || loop_device::detach_all(&file))
    };
    let (undone, node) = Undo::make(make, undo).map_err(|error| error.to_string())?;
    Ok((undone, node.trim().to_owned()))
}

impl Below for Attached {
    fn written_bytes(&self) -> u64 {
        self.server.written_bytes()
    }

    fn quiet(&self) -> Duration {
        Below::quiet(&self.server)
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
