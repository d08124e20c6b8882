//! Other programs: run to their end within a time, with what they said where they fail.
//!
//! 1. A program runs in a process group of its own: Ctrl-C at the terminal reaches this process alone, which ends the
//!    program if it has to. What a program did halfway never passes for its failure.
//! 2. No program runs for longer than it may, and none outlives the call, but where the kernel does not let go of it.
//! 3. What it says is kept up to a bound.

pub mod memory_bound;

use std::env;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::interrupt::Interrupt;
use crate::memory_bound::MemoryBound;
use crate::undo::Undo;

/// Bytes of its answer that are kept.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;
/// Bytes of its complaints that are kept.
const COMPLAINTS_BYTES_MAX: u64 = 64 << 10;
/// How long a killed program may take to go.
const LAST_PATIENCE: Duration = Duration::from_secs(30);
/// Folders of system programs, which the PATH of an ordinary user leaves out.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// A program to run.
#[derive(Debug, Clone)]
pub struct Program {
    words: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    input: Vec<u8>,
    folder: Option<PathBuf>,
    is_long: bool,
    time_max: Duration,
}

/// Why a program did not do what it was to do.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be started.
    #[error("cannot run {0}: {1}")]
    Unstarted(String, io::Error),
    /// It ended with a failure.
    #[error("{0} failed: {1}")]
    Failed(String, String),
    /// It took longer than it may.
    #[error("{0} did not end within {1} s")]
    Late(String, u64),
    /// The work is to stop.
    #[error("interrupted")]
    Interrupted,
    /// Its pipes broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Program {
    /// A program with its arguments.
    pub fn new<W: Into<OsString>>(words: impl IntoIterator<Item = W>, time_max: Duration) -> Self {
        let words = words.into_iter().map(Into::into).collect();
        Self { words, environment: Vec::new(), input: Vec::new(), folder: None, is_long: false, time_max }
    }

    /// With this on its standard input, which stays open until it ends: a program that reads to the end knows when this
    /// process has gone.
    pub fn with_input(mut self, input: Vec<u8>) -> Self {
        self.input = input;
        self
    }

    /// With a variable in its environment.
    pub fn with_variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// One that takes long: a second signal, which ends this process without unwinding, ends it too. Not within
    /// [`Undo::make`](crate::undo::Undo::make).
    pub fn long(mut self) -> Self {
        self.is_long = true;
        self
    }

    /// In this folder.
    pub fn in_folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    fn name(&self) -> String {
        let path = self.words.first().map(PathBuf::from).unwrap_or_default();
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Runs it, within a bound of memory if there is one, and answers what it said on standard output.
    ///
    /// # Errors
    ///
    /// Where it cannot be started, fails, takes too long, or the work is interrupted.
    pub fn run(&self, bound: Option<&MemoryBound>, interrupt: &Interrupt) -> Result<Vec<u8>, ProgramError> {
        let Some(first) = self.words.first() else {
            return Err(ProgramError::Unstarted(String::new(), io::ErrorKind::NotFound.into()));
        };
        let mut command = Command::new(first);
        command.args(&self.words[1..]).env("PATH", search_path()).process_group(0);
        // What programs complain about is told apart by its words.
        command.env("LC_ALL", "C").envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdin(if self.input.is_empty() { Stdio::null() } else { Stdio::piped() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| ProgramError::Unstarted(self.name(), error))?;
        let mut running = Running(child);
        let id = running.0.id();
        let guard = match self.is_long {
            true => Some(Undo::make(|| Ok::<_, io::Error>(id), |&id| Box::new(move || kill_group(id)))?),
            false => None,
        };
        if let Some(bound) = bound {
            bound.add(id)?;
        }
        let attended = self.attend(&mut running.0, interrupt);
        // Its number may be another's from now on; what still runs is ended with `running`.
        if let Some(guard) = guard {
            guard.0.forget();
        }
        attended
    }

    fn attend(&self, child: &mut Child, interrupt: &Interrupt) -> Result<Vec<u8>, ProgramError> {
        let mut stdin = child.stdin.take();
        if let Some(stdin) = &mut stdin {
            match stdin.write_all(&self.input).and_then(|()| stdin.flush()) {
                // It ended without reading: how it ended says more.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
                _ => {}
            }
        }
        let said = child.stdout.take().map(|pipe| drain(pipe, OUTPUT_BYTES_MAX));
        let complained = child.stderr.take().map(|pipe| drain(pipe, COMPLAINTS_BYTES_MAX));
        let status = self.wait(child, interrupt)?;
        drop(stdin);
        let text = |reader: Option<thread::JoinHandle<Vec<u8>>>| {
            reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
        };
        let (said, complained) = (text(said), text(complained));
        match status.success() {
            true => Ok(said),
            false => Err(ProgramError::Failed(self.name(), last_words(&complained, status))),
        }
    }

    fn wait(&self, child: &mut Child, interrupt: &Interrupt) -> Result<ExitStatus, ProgramError> {
        let started = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if interrupt.is_asked() {
                return Err(ProgramError::Interrupted);
            }
            if started.elapsed() >= self.time_max {
                return Err(ProgramError::Late(self.name(), self.time_max.as_secs()));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

/// A program that is killed, with all that it started, when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(Some(_))) {
            return;
        }
        kill_group(self.0.id());
        // One that waits for a device goes when the device answers, and may never.
        let killed = Instant::now();
        while killed.elapsed() < LAST_PATIENCE && !matches!(self.0.try_wait(), Ok(Some(_)) | Err(_)) {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn kill_group(id: u32) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        let _gone_already_is_fine = kill_process_group(pid, Signal::KILL);
    }
}

/// Reads a pipe to its end, and keeps its first bytes.
fn drain(mut pipe: impl Read + Send + 'static, bytes_max: u64) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        let _what_came_is_kept = pipe.by_ref().take(bytes_max).read_to_end(&mut kept);
        let _nobody_reads_it = io::copy(&mut pipe, &mut io::sink());
        kept
    })
}

/// What a failed program said, in one line.
fn last_words(complained: &[u8], status: ExitStatus) -> String {
    let text = String::from_utf8_lossy(complained);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    // What follows is how to use it.
    let telling: Vec<&str> = lines.take_while(|line| !line.starts_with("Usage")).take(3).collect();
    match telling.len() {
        0 => status.to_string(),
        _ => telling.join("; "),
    }
}

/// PATH, with the folders of system programs after it.
fn search_path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    env::join_paths(folders).unwrap_or(path)
}

/// Whether this process may do what root may.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether there is a program of this name.
pub fn exists(name: &str) -> bool {
    env::split_paths(&search_path()).any(|folder| folder.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, time_max: Duration) -> Program {
        Program::new(["sh", "-c", script], time_max)
    }

    #[test]
    fn a_program_reads_its_input_and_answers() {
        let program = shell("head -n 1", Duration::from_secs(60)).with_input(b"words\n".to_vec());
        assert_eq!(program.run(None, &Interrupt::default()).unwrap(), b"words\n");
    }

    #[test]
    fn a_failure_is_told_in_the_program_s_words() {
        let program =
            shell("echo out; echo bad option >&2; echo Usage: sh >&2; exit 3", Duration::from_secs(60));
        let error = program.run(None, &Interrupt::default()).unwrap_err();
        assert_eq!(error.to_string(), "sh failed: bad option");
        let silent = shell("exit 3", Duration::from_secs(60)).run(None, &Interrupt::default()).unwrap_err();
        assert_eq!(silent.to_string(), "sh failed: exit status: 3");
    }

    #[test]
    fn one_that_does_not_end_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", mark.display());
        let interrupt = Interrupt::default();
        let error = shell(&script, Duration::from_millis(300)).run(None, &interrupt).unwrap_err();
        assert!(matches!(error, ProgramError::Late(..)), "{error}");
        let pid = std::fs::read_to_string(&mark).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        // Gone, or waiting for init to see that it is.
        while !state().is_empty() && !state().contains(") Z ") {
            thread::yield_now();
        }
        interrupt.ask();
        let error = shell("sleep 1000", Duration::from_secs(60)).run(None, &interrupt).unwrap_err();
        assert!(matches!(error, ProgramError::Interrupted), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error =
            Program::new(["no-such-program"], Duration::from_secs(1)).run(None, &Interrupt::default());
        assert!(error.unwrap_err().to_string().starts_with("cannot run no-such-program: "));
        assert!(exists("sh") && !exists("no-such-program"));
    }
}
