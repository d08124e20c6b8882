//! Members: exports of nbdkit on this machine, each with a delay like a drive's, that are lost and come back.
//!
//! 1. A member is lost by killing its server, so that its connection ends. It comes back on the same port, with what it had.
//! 2. Bytes are those of the requests in the server's log, which a kill does not take. They are counted alike, whoever asks.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::guests::machine::{self, Running};
use crate::run::{Failure, Outcome, context};

/// How much longer than memory a member takes to read, and to write.
pub(super) const DELAY: &str = "1ms";

/// How long a server may take to listen.
const LISTENS_MAX: Duration = Duration::from_secs(10);

/// A member, or a log device.
pub(super) struct Member {
    pub(super) port: u16,
    /// Where its bytes, its log and the mark that it listens lie.
    stem: PathBuf,
    server: Option<Running>,
}

/// What went over a member's connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bytes {
    pub(super) read: u64,
    pub(super) written: u64,
}

impl Member {
    /// A new one of zeros.
    pub(super) fn new(folder: &Path, name: &str, bytes: u64) -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(context("cannot find a free port"))?;
        let port = listener.local_addr().map_err(context("a port without address"))?.port();
        drop(listener);
        let mut member = Self { port, stem: folder.join(name), server: None };
        let file = fs::File::create(member.file("disk")).map_err(context("cannot make a member"))?;
        file.set_len(bytes).map_err(context("cannot make a member as large as it is to be"))?;
        let _there_may_be_none = fs::remove_file(member.file("log"));
        member.bring_back()?;
        Ok(member)
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.stem.with_extension(kind)
    }

    pub(super) fn lose(&mut self) {
        self.server = None;
    }

    /// Starts its server, and waits until that listens.
    pub(super) fn bring_back(&mut self) -> Outcome {
        let (disk, log, mark) = (self.file("disk"), self.file("log"), self.file("pid"));
        let _there_may_be_none = fs::remove_file(&mark);
        let mut nbdkit = machine::tied("nbdkit", &["--foreground", "--ipaddr", "127.0.0.1", "--port"]);
        nbdkit.arg(self.port.to_string()).arg("--pidfile").arg(&mark);
        nbdkit.args(["--filter=log", "--filter=limit", "--filter=delay", "file"]).arg(disk).arg("limit=1");
        nbdkit.arg(format!("logfile={}", log.display())).arg("logappend=true");
        nbdkit.arg(format!("rdelay={DELAY}")).arg(format!("wdelay={DELAY}"));
        let child = nbdkit.stdin(Stdio::null()).spawn().map_err(context("cannot start nbdkit"))?;
        let mut server = Running(child);
        let began = Instant::now();
        while !mark.exists() {
            let ended = server.0.try_wait().map_err(context("cannot look at nbdkit"))?;
            if let Some(status) = ended {
                return Err(Failure::Failed(format!("nbdkit ended before it listened: {status}")));
            }
            if began.elapsed() > LISTENS_MAX {
                return Err(Failure::Failed("nbdkit does not listen".to_owned()));
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.server = Some(server);
        Ok(())
    }

    /// What was asked of it since it was made.
    pub(super) fn bytes(&self) -> Outcome<Bytes> {
        let log = fs::read(self.file("log")).map_err(context("cannot read the log of a member"))?;
        Ok(String::from_utf8_lossy(&log).lines().filter_map(asked).fold(Bytes::default(), Bytes::plus))
    }
}

impl Bytes {
    pub(super) const fn plus(self, other: Self) -> Self {
        Self { read: self.read + other.read, written: self.written + other.written }
    }

    pub(super) const fn since(self, earlier: Self) -> Self {
        Self { read: self.read - earlier.read, written: self.written - earlier.written }
    }
}

/// What a line of the log asks for; none where it is an answer, or of something else.
fn asked(line: &str) -> Option<Bytes> {
    let (before, rest) = line.split_once(" id=")?;
    let count = rest.split_whitespace().find_map(|word| word.strip_prefix("count=0x"))?;
    let count = u64::from_str_radix(count, 16).ok()?;
    match before.rsplit(' ').next()? {
        "Read" => Some(Bytes { read: count, written: 0 }),
        "Write" | "Zero" => Some(Bytes { read: 0, written: count }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_requests_and_not_of_answers() {
        let log = "2026-01-01 10:00:00.000001 connection=1 Connect export=\"\" tls=0\n\
            2026-01-01 10:00:00.000002 connection=1 Write id=1 offset=0x0 count=0x1000 fua=1 ...\n\
            2026-01-01 10:00:00.000003 connection=1 ...Write id=1 return=0\n\
            2026-01-01 10:00:00.000004 connection=1 Read id=2 offset=0x2000 count=0x200 ...\n\
            2026-01-01 10:00:00.000005 connection=1 Flush id=3 ...\n\
            2026-01-01 10:00:00.000006 connection=1 Trim id=4 offset=0x0 count=0x1000 ...\n\
            2026-01-01 10:00:00.000007 connection=1 Zero id=5 offset=0x0 count=0x10 trim=0 ...\n";
        let all = log.lines().filter_map(asked).fold(Bytes::default(), Bytes::plus);
        assert_eq!(all, Bytes { read: 512, written: 4096 + 16 });
        assert_eq!(all.since(Bytes { read: 500, written: 0 }), Bytes { read: 12, written: 4112 });
    }
}
