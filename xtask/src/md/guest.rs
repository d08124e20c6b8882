//! A guest that does what its serial line says.
//!
//! 1. A command ends with a line that has its exit code and the guest's time, in ms since 1970.
//! 2. Lines that processes say meanwhile are kept, with the guest's time at which they came.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::guests::machine::{self, Kernel, Running, said_by};
use crate::run::{Failure, Outcome, context, show};

/// How long a guest may take to be up.
const BOOT_MAX: Duration = Duration::from_secs(180);

/// What a command may take unless told otherwise.
const COMMAND_MAX: Duration = Duration::from_secs(60);

/// Memory of a guest in MiB.
const MEMORY: u32 = 2048;

/// What the first process does: commands of the serial line, one after the other.
pub(super) const WORK: &str = r#"mkdir -p /run /dev/shm /tmp
for folder in /run /dev/shm /tmp; do mount -t tmpfs tmpfs $folder; done
export MDADM_NO_UDEV=1 LC_ALL=C
dmesg -n 1
stty -echo
echo "=0 0 $(/now +%s%3N)"
while read -r line; do eval "$line"; last=$?; done
reboot -f
"#;

/// The mark of a line that a server says.
pub(super) const SAID: &str = "server: ";

pub(super) struct Guest {
    machine: Running,
    lines: Receiver<String>,
    commands: u64,
    /// A moment here, and the guest's time then.
    clock: (Instant, u64),
    /// What servers said, and when.
    pub(super) said: Vec<(u64, String)>,
}

/// How a command ended, and what was said before.
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) at_ms: u64,
    pub(super) text: String,
}

impl Guest {
    pub(super) fn boot(kernel: &Kernel, image: &Path) -> Outcome<Self> {
        let mut qemu = machine::qemu(kernel, image, MEMORY, "console=ttyS0 quiet panic=-1");
        qemu.args(["-smp", "2", "-cpu", "max"]);
        show(&qemu);
        let child = qemu.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut machine = Running(child.map_err(context("cannot start QEMU"))?);
        let lines = said_by(&mut machine.0)?;
        let mut guest = Self { machine, lines, commands: 0, clock: (Instant::now(), 0), said: Vec::new() };
        guest.end(BOOT_MAX, "the start of the guest")?;
        Ok(guest)
    }

    /// Waits for the end of the last command.
    fn end(&mut self, max: Duration, command: &str) -> Outcome<Ended> {
        let (until, mark, mut text) = (Instant::now() + max, format!("={} ", self.commands), String::new());
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).map_err(|why| {
                let why = match why {
                    RecvTimeoutError::Timeout => "nothing more in time",
                    RecvTimeoutError::Disconnected => "the guest ended",
                };
                Failure::Failed(format!("`{command}`: {why}, after:\n{text}"))
            })?;
            let line = line.trim_end_matches('\r');
            if let Some(said) = line.strip_prefix(SAID) {
                self.said.push((self.now(), said.to_owned()));
            } else if let Some((code, at_ms)) = line.strip_prefix(&mark).and_then(ending) {
                self.clock = (Instant::now(), at_ms);
                return Ok(Ended { code, at_ms, text });
            } else {
                text.push_str(line);
                text.push('\n');
            }
        }
    }

    /// The guest's time, as far as it is known here.
    fn now(&self) -> u64 {
        self.clock.1 + self.clock.0.elapsed().as_millis() as u64
    }

    /// How a command ends, well or not.
    pub(super) fn try_run(&mut self, command: &str, max: Duration) -> Outcome<Ended> {
        self.commands += 1;
        let stdin = self.machine.0.stdin.as_mut();
        let stdin = stdin.ok_or_else(|| Failure::Failed("a guest without input".to_owned()))?;
        writeln!(stdin, "{command}\necho \"={} $last $(/now +%s%3N)\"", self.commands)
            .map_err(context("cannot tell the guest a command"))?;
        self.end(max, command)
    }

    /// What a command says that has to end well.
    pub(super) fn run(&mut self, command: &str) -> Outcome<Ended> {
        self.run_within(command, COMMAND_MAX)
    }

    pub(super) fn run_within(&mut self, command: &str, max: Duration) -> Outcome<Ended> {
        let ended = self.try_run(command, max)?;
        match ended.code {
            0 => Ok(ended),
            code => {
                Err(Failure::Failed(format!("`{command}` in the guest ended with {code}:\n{}", ended.text)))
            }
        }
    }

    /// The guest's time, as it says it.
    pub(super) fn time(&mut self) -> Outcome<u64> {
        self.run(":").map(|ended| ended.at_ms)
    }

    /// When a server first said something with this in it, from line `from` on.
    pub(super) fn heard(&self, what: &str, from: usize) -> Option<u64> {
        self.said.iter().skip(from).find(|(_, line)| line.contains(what)).map(|&(at, _)| at)
    }
}

/// The code and the time of a line that ends a command.
fn ending(text: &str) -> Option<(i32, u64)> {
    let (code, at) = text.split_once(' ')?;
    Some((code.parse().ok()?, at.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_ends_with_its_code_and_the_time() {
        assert_eq!(ending("0 1700000000123"), Some((0, 1_700_000_000_123)));
        assert_eq!(ending("127 5"), Some((127, 5)));
        assert_eq!(ending("0 +%s"), None);
    }
}
