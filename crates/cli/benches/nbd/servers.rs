//! The servers: all of them over files in one folder, each behind a Unix socket.
//!
//! For [`Disk::SlowFlushes`] a library loaded into the server (`benches/slow_flush/lib.rs`) holds every flush and every
//! durable write for 1 ms before the kernel has it. What goes through io_uring is out of its reach: there the volume
//! is served by threads, as qemu-nbd is.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::cases::Disk;
use crate::process::{Need, Process, missing};
use crate::{Args, Outcome, load};

const REST_MAX: Duration = Duration::from_secs(20);
const STOP_MAX: Duration = Duration::from_secs(120);

/// A server program with its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Evenkeel,
    /// Another build of evenkeel, to be compared with.
    Before,
    Nbdkit,
    QemuWriteback,
    QemuUring,
    /// Takes everything and keeps nothing: what the protocol and the client allow.
    Null,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Evenkeel, Self::Before, Self::Nbdkit, Self::QemuWriteback, Self::QemuUring, Self::Null];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Evenkeel => "evenkeel",
            Self::Before => "before",
            Self::Nbdkit => "nbdkit",
            Self::QemuWriteback => "qemu-writeback",
            Self::QemuUring => "qemu-uring",
            Self::Null => "null",
        }
    }

    /// Whether it is one to be compared with.
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Self::Nbdkit | Self::QemuWriteback | Self::QemuUring)
    }

    /// Whether it serves a volume of evenkeel's.
    fn is_volume(self) -> bool {
        matches!(self, Self::Evenkeel | Self::Before)
    }

    /// The program that makes and serves a volume.
    fn evenkeel(self, args: &Args) -> &Path {
        match (self, &args.before) {
            (Self::Before, Some(program)) => program,
            _ => Path::new(env!("CARGO_BIN_EXE_evenkeel")),
        }
    }

    /// What is to be installed.
    fn needs(self) -> Option<Need> {
        match self {
            Self::Evenkeel | Self::Before => None,
            Self::Nbdkit | Self::Null => Some(Need { program: "nbdkit", package: "nbdkit" }),
            Self::QemuWriteback | Self::QemuUring => {
                Some(Need { program: "qemu-nbd", package: "qemu-utils" })
            }
        }
    }
}

/// The servers of these names, or all; an error says what is not installed.
pub(crate) fn kinds(args: &Args) -> Outcome<Vec<Kind>> {
    let names = &args.only;
    if let Some(unknown) = names.iter().find(|name| Kind::ALL.iter().all(|kind| kind.name() != **name)) {
        return Err(format!("no server `{unknown}`; there is: {}", Kind::ALL.map(Kind::name).join(", ")));
    }
    let is_wanted = |kind: &Kind| match kind {
        Kind::Before => args.before.is_some(),
        _ => names.is_empty() || names.iter().any(|name| name == kind.name()),
    };
    let wanted: Vec<Kind> = Kind::ALL.into_iter().filter(is_wanted).collect();
    let needs: Vec<Need> = wanted.iter().filter_map(|kind| kind.needs()).collect();
    missing(&needs).map_or(Ok(wanted), Err)
}

/// Those of `kinds` that can be served from such a disk.
pub(crate) fn on_disk(kinds: &[Kind], disk: Disk) -> Outcome<Vec<Kind>> {
    if disk == Disk::SlowFlushes {
        slow_flush_library()?;
    }
    let is_possible = |kind: &&Kind| disk == Disk::AsItIs || !matches!(kind, Kind::QemuUring | Kind::Null);
    Ok(kinds.iter().filter(is_possible).copied().collect())
}

/// Where the library is that makes flushes slow: beside this program, where `cargo xtask bench` has it built.
fn slow_flush_library() -> Outcome<PathBuf> {
    let program = std::env::current_exe().map_err(|error| format!("where is this program: {error}"))?;
    let folder = program.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    let library = folder.join("examples/libslow_flush.so");
    if library.is_file() {
        return Ok(library);
    }
    Err(format!(
        "{} is missing: `cargo build --release --package evenkeel --example slow_flush`",
        library.display()
    ))
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) socket: PathBuf,
    /// The folder of a volume.
    pub(crate) volume: PathBuf,
    process: Process,
}

/// What a process used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Used {
    /// Ticks of the processor, 10 ms each.
    pub(crate) cpu_ticks: u64,
    /// Bytes that it sent to block devices.
    pub(crate) written_bytes: u64,
}

impl Server {
    fn start(kind: Kind, folder: &Path, disk: Disk, size_bytes: u64, args: &Args) -> Outcome<Self> {
        let socket = folder.join(format!("{}.sock", kind.name()));
        let (file, volume) = (folder.join(kind.name()), folder.join(format!("{}.volume", kind.name())));
        if kind.is_volume() && !volume.exists() {
            let mut create = Command::new(kind.evenkeel(args));
            create.arg("create").arg(&volume).args(["--size", &size_bytes.to_string()]);
            create.args(args.create_args.split_whitespace());
            let made = create.stdout(Stdio::null()).status().map_err(|error| format!("create: {error}"))?;
            if !made.success() {
                return Err("the volume could not be made".to_owned());
            }
        } else if kind.is_peer() && !file.exists() {
            let made = fs::File::create(&file).and_then(|made| made.set_len(size_bytes));
            made.map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let mut words: Vec<std::ffi::OsString> = Vec::new();
        let mut say = |more: &[&std::ffi::OsStr]| words.extend(more.iter().map(|&word| word.to_owned()));
        let size = size_bytes.to_string();
        match kind {
            Kind::Evenkeel | Kind::Before => {
                let where_to = format!("unix:{}", socket.display());
                say(&[kind.evenkeel(args).as_ref(), "serve".as_ref(), volume.as_ref()]);
                say(&["--nbd", &where_to].map(str::as_ref));
                if disk == Disk::SlowFlushes {
                    say(&["--backend", "threads"].map(str::as_ref));
                }
                args.serve_args.split_whitespace().for_each(|word| say(&[word.as_ref()]));
            }
            Kind::Nbdkit => {
                say(&["nbdkit", "-f", "-t", "16", "-U"].map(str::as_ref));
                say(&[socket.as_ref(), "file".as_ref(), file.as_ref()]);
            }
            Kind::Null => {
                say(&["nbdkit", "-f", "-t", "16", "-U"].map(str::as_ref));
                say(&[socket.as_ref(), "null".as_ref(), size.as_ref()]);
            }
            Kind::QemuWriteback | Kind::QemuUring => {
                say(&["qemu-nbd", "--persistent", "-f", "raw", "-e", "64", "-k"].map(str::as_ref));
                say(&[socket.as_ref()]);
                match kind {
                    Kind::QemuUring => say(&["--cache=none", "--aio=io_uring"].map(str::as_ref)),
                    _ => say(&["--cache=writeback".as_ref()]),
                }
                say(&[file.as_ref()]);
            }
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        if disk == Disk::SlowFlushes {
            command.env("LD_PRELOAD", slow_flush_library()?);
        }
        let is_ready = || UnixStream::connect(&socket).is_ok();
        let process = Process::start(kind.name(), &command, folder, is_ready)?;
        Ok(Self { kind, socket, volume, process })
    }

    /// A file of its in /proc.
    pub(crate) fn proc_file(&self, name: &str) -> String {
        self.process.proc_file(name)
    }

    pub(crate) fn used(&self) -> Used {
        Used { cpu_ticks: self.process.cpu_ticks(), written_bytes: self.process.written_bytes() }
    }

    /// Waits until it does nothing any more.
    pub(crate) fn rest(&self) {
        let began = Instant::now();
        let (mut before, mut unchanged) = (self.used(), 0);
        while unchanged < 2 && began.elapsed() < REST_MAX {
            thread::sleep(Duration::from_millis(100));
            let now = self.used();
            unchanged = if now == before { unchanged + 1 } else { 0 };
            before = now;
        }
    }

    /// Asks it to stop and waits until it has, however long that takes; what it had used in the end.
    pub(crate) fn stop(self) -> Used {
        let mut used = self.used();
        self.process.terminate();
        let began = Instant::now();
        while began.elapsed() < STOP_MAX {
            let now = self.used();
            used = Used {
                cpu_ticks: used.cpu_ticks.max(now.cpu_ticks),
                written_bytes: used.written_bytes.max(now.written_bytes),
            };
            // A process that has ended stays to be seen until it is waited for.
            if self.proc_file("stat").contains(") Z ") {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        used
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _nothing_depends_on_how = self.process.stop();
        let _qemu_leaves_it = fs::remove_file(&self.socket);
    }
}

/// Servers side by side, their volumes full.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) servers: Vec<Server>,
    pub(crate) size_bytes: u64,
    disk: Disk,
    folder: tempfile::TempDir,
}

impl Fleet {
    /// Starts them in a folder of their own within `folder`; writes every byte of their volumes.
    pub(crate) fn start(
        folder: &Path,
        kinds: &[Kind],
        disk: Disk,
        size_mib: u64,
        args: &Args,
    ) -> Outcome<Self> {
        let size_bytes = size_mib << 20;
        let folder =
            tempfile::tempdir_in(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // Filled at full speed, then served from the disk that was asked for.
        for &kind in kinds.iter().filter(|&&kind| kind != Kind::Null) {
            let server = Server::start(kind, folder.path(), Disk::AsItIs, size_bytes, args)?;
            load::fill(&server.socket, size_bytes)?;
        }
        let start = |&kind: &Kind| Server::start(kind, folder.path(), disk, size_bytes, args);
        let servers = kinds.iter().map(start).collect::<Outcome<Vec<_>>>()?;
        Ok(Self { servers, size_bytes, disk, folder })
    }

    /// Ends the server of this kind, waits until everything is home, and starts it anew. Answers how long it took until
    /// everything was home, and what the server had used by then.
    pub(crate) fn take_home(&mut self, kind: Kind, args: &Args) -> Outcome<(Duration, Used)> {
        let place = self.servers.iter().position(|server| server.kind == kind).expect("it is up");
        let server = self.servers.remove(place);
        let file = self.folder.path().join(kind.name());
        let began = Instant::now();
        // A volume that is stopped in order has taken everything home.
        let used = server.stop();
        if kind.is_peer() {
            let synced = fs::File::open(&file).and_then(|file| file.sync_all());
            synced.map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let took = began.elapsed();
        let started = Server::start(kind, self.folder.path(), self.disk, self.size_bytes, args)?;
        self.servers.insert(place, started);
        Ok((took, used))
    }

    /// Reads every byte of all volumes: what a server that goes through the page cache finds there does not depend on
    /// what was done before.
    pub(crate) fn read_all(&self) -> Outcome {
        let mut servers = self.servers.iter().filter(|server| server.kind != Kind::Null);
        servers.try_for_each(|server| load::read_all(&server.socket, self.size_bytes))
    }

    /// The order of a round.
    pub(crate) fn shuffled(&self, random: &mut load::Random) -> Vec<&Server> {
        let kinds = self.shuffled_kinds(random);
        kinds.into_iter().map(|kind| self.server(kind)).collect()
    }

    /// The server of this kind.
    pub(crate) fn server(&self, kind: Kind) -> &Server {
        self.servers.iter().find(|server| server.kind == kind).expect("it is up")
    }

    /// The order of a round.
    pub(crate) fn shuffled_kinds(&self, random: &mut load::Random) -> Vec<Kind> {
        let mut order: Vec<Kind> = self.servers.iter().map(|server| server.kind).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, (random.next() % (last as u64 + 1)) as usize);
        }
        order
    }
}
