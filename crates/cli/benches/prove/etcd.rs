//! etcd: puts of several clients, by its gateway for JSON.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::database::{Database, Done, Load, Running, now_s};
use crate::process::Process;

const CLIENTS: usize = 8;
/// Characters of a value, which is 255 bytes in base 64.
const VALUE: usize = 340;
/// The longest answer that is read.
const ANSWER_MAX: usize = 1 << 20;

/// etcd with one member.
#[derive(Debug)]
pub(crate) struct Etcd;

struct Member {
    port: u16,
    _server: Process,
}

impl Database for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn unit(&self) -> &'static str {
        "etcd: puts of 255 bytes, 8 clients"
    }

    fn make(&self, folder: &Path, _scratch: &Path) -> Outcome {
        std::fs::create_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))
    }

    fn start(&self, folder: &Path, scratch: &Path) -> Outcome<Box<dyn Running>> {
        let (port, peers) = (free_port()?, free_port()?);
        let (clients, peers) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peers}"));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(folder.join("data")).args(["--name", "one", "--log-level", "error"]);
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("one={peers}"), "--force-new-cluster"]);
        let is_ready = || Client::new(port).is_ok_and(|mut client| client.put(0, 0).is_ok());
        let server = Process::start("etcd", &command, scratch, is_ready)?;
        Ok(Box::new(Member { port, _server: server }))
    }
}

impl Running for Member {
    fn load(&self, seconds: f64) -> Outcome<Load> {
        let before = Client::new(self.port)?.syncs()?;
        let done = thread::scope(|scope| {
            let puts = |client: usize| move || Client::new(self.port)?.puts(client, seconds);
            let threads: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(puts(client))).collect();
            let mut done = Vec::new();
            for thread in threads {
                done.extend(thread.join().unwrap_or(Err("a thread panicked".to_owned()))?);
            }
            Ok::<_, String>(done)
        })?;
        let after = Client::new(self.port)?.syncs()?;
        Ok(Load { done, sync_p99_s: bound_of_99(&before, &after) })
    }
}

/// Syncs of the log up to a bound in seconds, for each bound.
type Syncs = Vec<(f64, f64)>;

/// The least bound below which 99 of 100 syncs between the two stayed.
fn bound_of_99(before: &Syncs, after: &Syncs) -> Option<f64> {
    let more: Vec<(f64, f64)> =
        before.iter().zip(after).map(|(before, after)| (after.0, after.1 - before.1)).collect();
    let all = more.last()?.1;
    let bound_s = more.iter().find(|(_, count)| *count >= all * 0.99)?.0;
    (all > 0.0 && bound_s.is_finite()).then_some(bound_s)
}

/// A connection that is kept.
struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    fn new(port: u16) -> Outcome<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(Duration::from_secs(60)))?;
            Ok(stream)
        });
        Ok(Self { stream: BufReader::new(stream.map_err(said)?) })
    }

    fn puts(mut self, client: usize, seconds: f64) -> Outcome<Vec<Done>> {
        let (began, mut done) = (Instant::now(), Vec::new());
        while began.elapsed().as_secs_f64() < seconds {
            let at = Instant::now();
            self.put(client, done.len())?;
            done.push(Done { at_s: now_s(), took_s: at.elapsed().as_secs_f64() });
        }
        Ok(done)
    }

    /// A put that is acknowledged.
    fn put(&mut self, client: usize, number: usize) -> Outcome {
        // Digits are characters of base 64 too.
        let key = format!("{client:04}{number:08}");
        let body = format!("{{\"key\":\"{key}\",\"value\":\"{number:0>VALUE$}\"}}");
        let head =
            format!("POST /v3/kv/put HTTP/1.1\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n", body.len());
        self.stream.get_mut().write_all((head + &body).as_bytes()).map_err(said)?;
        self.answer().map(drop)
    }

    /// How long syncs of its log took so far.
    fn syncs(&mut self) -> Outcome<Syncs> {
        let head = b"GET /metrics HTTP/1.1\r\nHost: etcd\r\n\r\n";
        self.stream.get_mut().write_all(head).map_err(said)?;
        let bound = |line: &str| {
            let line = line.strip_prefix("etcd_disk_wal_fsync_duration_seconds_bucket{le=\"")?;
            let (bound_s, count) = line.split_once("\"} ")?;
            Some((bound_s.replace('+', "").parse().ok()?, count.parse().ok()?))
        };
        Ok(self.answer()?.lines().filter_map(bound).collect())
    }

    /// Reads an answer, which must be `200`.
    fn answer(&mut self) -> Outcome<String> {
        let status = self.line()?;
        let (mut len, mut is_chunked) = (0, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                len = value.trim().parse().map_err(|_| format!("etcd: {line}"))?;
            }
            is_chunked |= line.starts_with("transfer-encoding:") && line.contains("chunked");
        }
        let mut body = String::new();
        loop {
            if is_chunked {
                let line = self.line()?;
                len = usize::from_str_radix(line.trim(), 16).map_err(|_| format!("etcd: {line}"))?;
            }
            if len > ANSWER_MAX {
                return Err(format!("etcd: an answer of {len} bytes"));
            }
            let mut bytes = vec![0; len];
            self.stream.read_exact(&mut bytes).map_err(said)?;
            body.push_str(&String::from_utf8_lossy(&bytes));
            if is_chunked {
                self.line()?;
            }
            if !is_chunked || len == 0 {
                break;
            }
        }
        if status.contains(" 200") { Ok(body) } else { Err(format!("etcd: {status}: {body}")) }
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        let len = (&mut self.stream).take(ANSWER_MAX as u64).read_line(&mut line).map_err(said)?;
        if len == 0 { Err("etcd ended the connection".to_owned()) } else { Ok(line.trim_end().to_owned()) }
    }
}

fn said(error: std::io::Error) -> String {
    format!("etcd: {error}")
}

/// A port that nobody listens at right now.
fn free_port() -> Outcome<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(said)
}
