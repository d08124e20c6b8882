//! A server process: started, asked, stopped; and what it used.
//!
//! 1. Whoever ends the benchmark, however, ends its servers.
//! 2. Ctrl-C is for the benchmark, which ends them in their order.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_host::program;

use crate::Outcome;

const START_MAX: Duration = Duration::from_secs(120);
const STOP_MAX: Duration = Duration::from_secs(120);
/// Between two looks whether it is ready, or has ended.
const LOOK: Duration = Duration::from_millis(2);

/// A server process, which is asked to end when this is dropped, and waited for.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts it, and waits until it `is_ready`. What it says is kept in `folder`.
    pub(crate) fn start(
        name: &str,
        command: &Command,
        folder: &Path,
        is_ready: impl Fn() -> bool,
    ) -> Outcome<Self> {
        let said_path = folder.join(format!("{name}.said"));
        let said = File::create(&said_path).map_err(|error| format!("{}: {error}", said_path.display()))?;
        let mut bound = Command::new("setpriv");
        bound.args(["--pdeathsig", "TERM"]).arg(command.get_program()).args(command.get_args());
        bound.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        bound.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let child = bound.spawn().map_err(|error| format!("{name}: {error}"))?;
        let mut process = Self { child };
        let began = Instant::now();
        while !is_ready() {
            if process.has_ended() || began.elapsed() > START_MAX {
                let said = fs::read_to_string(&said_path).unwrap_or_default();
                return Err(format!("{name} does not start: {}", said.trim_end()));
            }
            thread::sleep(LOOK);
        }
        Ok(process)
    }

    /// A file of its in /proc.
    pub(crate) fn proc_file(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap_or_default()
    }

    /// Ticks of the processor that it used so far, 10 ms each.
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let stat = self.proc_file("stat");
        let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        behind_name.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum()
    }

    /// Bytes that it sent to block devices so far.
    pub(crate) fn written_bytes(&self) -> u64 {
        field(&self.proc_file("io"), "write_bytes:")
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        let id = self.child.id().to_string();
        let _it_may_have_ended =
            Command::new("kill").args(["-s", "TERM", &id]).stderr(Stdio::null()).status();
    }

    /// Asks it to end, and waits until it has; an error says how, if not well.
    pub(crate) fn stop(&mut self) -> Outcome {
        if !self.has_ended() {
            self.terminate();
        }
        let began = Instant::now();
        while !self.has_ended() {
            if began.elapsed() > STOP_MAX {
                return Err(self
                    .kill()
                    .err()
                    .unwrap_or_else(|| "it did not stop, and was killed".to_owned()));
            }
            thread::sleep(LOOK);
        }
        match self.child.wait().map_err(|error| format!("wait: {error}"))? {
            status if status.success() => Ok(()),
            status => Err(format!("it ended with {status}")),
        }
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) -> Outcome {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(|error| format!("kill: {error}"))
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _nothing_depends_on_how = self.stop();
    }
}

/// The number behind `name` in a file of /proc.
pub(crate) fn field(text: &str, name: &str) -> u64 {
    let found = text.lines().find_map(|line| line.strip_prefix(name));
    found.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A program that has to be there, and the package that has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
}

/// What has to be installed first, if anything.
pub(crate) fn missing(needs: &[Need]) -> Option<String> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !program::exists(need.program)).collect();
    if missing.is_empty() {
        return None;
    }
    let words = |of: fn(&Need) -> &'static str, between: &str| {
        let mut words: Vec<_> = missing.iter().map(|need| of(need)).collect();
        words.dedup();
        words.join(between)
    };
    let (programs, packages) = (words(|need| need.program, ", "), words(|need| need.package, " "));
    Some(format!("not installed: {programs}; `apt-get install {packages}`"))
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
