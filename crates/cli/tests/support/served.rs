//! A volume in a scene, and the process that serves it.
//!
//! 1. Whatever becomes of a test, its server is ended and its arena, which lies outside the scene, is removed.
//! 2. Nothing here waits for a time: only for what must come, and not for ever.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_host::service::status::Status;

use super::Scene;
use super::load::{contents, write};

/// How long something that must come is waited for: on a busy machine, too.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `ask` answers.
#[track_caller]
pub(crate) fn patiently<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: it did not come");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A volume `disk` in a scene.
pub(crate) struct Volume<'a> {
    pub(crate) scene: &'a Scene,
}

impl<'a> Volume<'a> {
    /// `evenkeel create disk FLAGS`.
    pub(crate) fn create(scene: &'a Scene, flags: &str) -> Self {
        let volume = Self { scene };
        scene.done(&format!("create disk {flags}"));
        volume
    }

    /// The same, with these bytes written to it, and stopped in order.
    pub(crate) fn stopped(scene: &'a Scene, flags: &str, bytes: &[u8]) -> Self {
        let volume = Self::create(scene, flags);
        let server = volume.serve("");
        write(&volume.socket(), 0, bytes);
        server.stop();
        volume
    }

    /// Serves it, sees that it holds these bytes, and stops it in order.
    #[track_caller]
    pub(crate) fn expect_contents(&self, flags: &str, bytes: &[u8]) {
        let server = self.serve(flags);
        assert!(contents(&self.socket()) == bytes, "it holds other bytes");
        server.stop();
    }

    /// Every file of it, with its contents and the time of its last change.
    pub(crate) fn files(scene: &Scene) -> Vec<(String, i64, i64, Vec<u8>)> {
        let entry = |name: String| {
            let found = scene.path("disk").join(&name).metadata().unwrap();
            let bytes = scene.bytes(&format!("disk/{name}"));
            (name, found.mtime(), found.mtime_nsec(), bytes)
        };
        scene.names("disk").into_iter().filter(|name| !name.ends_with(".sock")).map(entry).collect()
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> PathBuf {
        self.scene.path("disk")
    }

    /// Where clients connect unless told otherwise.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder().join("nbd.sock")
    }

    /// The same for clients that take a URI.
    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket().display())
    }

    /// Where acknowledged writes are kept through a kill, if they are.
    pub(crate) fn arena(&self) -> Option<PathBuf> {
        arenas_of(&self.folder()).pop_first()
    }

    /// Starts `evenkeel serve disk FLAGS`, and waits until clients may connect.
    pub(crate) fn serve(&self, flags: &str) -> Server {
        self.starting(flags).ready()
    }

    /// Starts `evenkeel serve disk FLAGS`: it recovers first.
    pub(crate) fn starting(&self, flags: &str) -> Server {
        Server::start(
            self.folder(),
            self.scene.path("stderr"),
            self.scene.command(&format!("serve disk {flags}")),
        )
    }
}

impl Drop for Volume<'_> {
    fn drop(&mut self) {
        for arena in arenas_of(&self.folder()) {
            let _gone_already_is_fine = fs::remove_file(arena);
        }
    }
}

/// The arenas of the volume in `folder` and of its copies; none where there is no volume.
pub(crate) fn arenas_of(folder: &Path) -> BTreeSet<PathBuf> {
    let text = fs::read_to_string(folder.join("volume.toml")).unwrap_or_default();
    let Some(id) = text.lines().find_map(|line| line.strip_prefix("id = ")) else { return BTreeSet::new() };
    let start = format!("evenkeel-{}", id.trim_matches('"'));
    let entries = fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap());
    let found = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&start));
    found.map(|entry| entry.path()).collect()
}

/// A process that serves a volume; it is killed when this is dropped.
pub(crate) struct Server {
    folder: PathBuf,
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: PathBuf,
    /// What it has said on standard output.
    pub(crate) said: Vec<String>,
}

impl Server {
    /// Starts `command`, which serves the volume in `folder`; standard error goes to a file.
    pub(crate) fn start(folder: PathBuf, stderr: PathBuf, command: Command) -> Self {
        let errors = fs::File::create(&stderr).unwrap();
        Self::start_with(folder, stderr, command, errors)
    }

    /// The same with standard error elsewhere.
    pub(crate) fn start_with(
        folder: PathBuf,
        stderr: PathBuf,
        mut command: Command,
        errors: impl Into<Stdio>,
    ) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { folder, child, stdout, stderr, said: Vec::new() }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until clients may connect.
    #[track_caller]
    pub(crate) fn ready(mut self) -> Self {
        let is_ready = |line: &String| line.starts_with("ready: ");
        // It says all in one piece: what it has to say is there with the first of these lines.
        while !self.said.iter().any(is_ready) || !self.stdout.buffer().is_empty() {
            let mut line = String::new();
            let len = self.stdout.read_line(&mut line).unwrap();
            assert!(len > 0, "it is not ready: {:?} {}", self.child.wait(), self.complaints());
            self.said.push(line.trim_end().to_owned());
        }
        self
    }

    /// What stands behind `start` in a line that it said.
    #[track_caller]
    pub(crate) fn told(&self, start: &str) -> String {
        let found = self.said.iter().find_map(|line| line.strip_prefix(start));
        found.unwrap_or_else(|| panic!("no `{start}` in {:?}", self.said)).to_owned()
    }

    /// What it said on standard error.
    pub(crate) fn complaints(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }

    /// What it does at the moment.
    #[track_caller]
    pub(crate) fn status(&self) -> Status {
        Status::ask(&self.folder).unwrap_or_else(|error| panic!("{error}: {}", self.complaints()))
    }

    /// Waits until every member of a mirror is in sync, and every log device where these are waited for, too.
    #[track_caller]
    pub(crate) fn until_in_sync(&self, logs_too: bool) {
        patiently("the end of the rebuild", || {
            let mirror = self.status().mirror.expect("it is a mirror");
            let members = mirror.members.iter().all(|member| member.standing == "in-sync");
            let logs = !logs_too || mirror.logs.iter().all(|log| log.standing == "in-sync");
            (members && logs).then_some(())
        });
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Sends a signal (`TERM`).
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// kill -9: nothing of it runs any more after this.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Its exit code, once it has ended by itself; `None` where a signal ended it.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        let child = &mut self.child;
        patiently("the end of the server", || child.try_wait().unwrap()).code()
    }

    /// What it says from here on, until it has ended by itself, which must go well.
    #[track_caller]
    pub(crate) fn last_words(mut self) -> String {
        let mut words = String::new();
        self.stdout.read_to_string(&mut words).unwrap();
        assert_eq!(self.exit_code(), Some(0), "{}", self.complaints());
        words
    }

    /// SIGTERM, after which all must be well.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        assert_eq!(self.exit_code(), Some(0), "{}", self.complaints());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_already_is_fine = self.child.kill();
        let _ended_already_is_fine = self.child.wait();
    }
}

/// Writes to a pipe until it takes no more, through a handle of its own: that of others goes on to block. How much it
/// took.
pub(crate) fn fill(writer: &std::io::PipeWriter) -> usize {
    const O_NONBLOCK: i32 = 0o4000;
    let again = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let mut again = fs::OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(again).unwrap();
    let mut filled = 0;
    for piece in [4096, 1] {
        while let Ok(len) = again.write(&[b'.'; 4096][..piece]) {
            filled += len;
        }
    }
    filled
}

/// Bytes that look like nothing else, the same for the same seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut chance = Chance(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(chance.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A file of [`noise`].
pub(crate) fn noise_file(path: &Path, seed: u64, len: usize) {
    fs::write(path, noise(seed, len)).unwrap();
}

/// Numbers that follow from a seed (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A process that is ended when this is dropped.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ended_already_is_fine = self.0.kill();
        let _ended_already_is_fine = self.0.wait();
    }
}

/// A server of somebody else's, ended with this.
pub(crate) struct Peer(Child);

impl Peer {
    pub(crate) fn start(mut command: Command, socket: &Path) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        patiently("the other server", || socket.exists().then_some(()));
        Self(child)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ended_already_is_fine = self.0.kill();
        let _ended_already_is_fine = self.0.wait();
    }
}
