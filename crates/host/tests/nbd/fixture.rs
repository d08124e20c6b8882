//! What the scenarios share: a server in virtual time, clients that know the protocol, and clients that send what
//! they like.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_host::front::nbd::fuzzing::{MemoryStream, RamExport, pair};
use evenkeel_host::front::nbd::limits::Limits;
use evenkeel_host::front::nbd::server::Server;
use evenkeel_host::front::session::Peer;
use evenkeel_host::nbd::client::{Client, ClientError, ConnectOptions};
use evenkeel_host::nbd::proto::handshake::{
    InfoRequest, OPTION_REPLY_BYTES, OptionReplyHeader, encode_option,
};
use evenkeel_host::nbd::proto::transmission::{Headers, ReplyHeader, Request};
use evenkeel_host::nbd::proto::{option, option_reply};
use evenkeel_host::nbd::tls::TlsServer;
use evenkeel_host::net::ByteStream;
use evenkeel_sim::executor::{Executor, SimEnv};

/// Runs a scenario; one that waits for ever fails.
pub(crate) fn run<T, F: Future<Output = T>>(seed: u64, scenario: impl FnOnce(SimEnv) -> F) -> T {
    let mut executor = Executor::new(seed);
    executor.limit_polls(20_000_000);
    let env = executor.env();
    executor.block_on(scenario(env)).expect("the scenario ends")
}

/// A server, and how its connections ended, in words.
#[derive(Clone)]
pub(crate) struct Fixture {
    pub(crate) env: SimEnv,
    pub(crate) server: Server<SimEnv, RamExport>,
    pub(crate) endings: Rc<RefCell<Vec<String>>>,
}

impl Fixture {
    pub(crate) fn new(env: &SimEnv, export: RamExport, limits: Limits) -> Self {
        Self::with_tls(env, export, limits, None)
    }

    pub(crate) fn with_tls(env: &SimEnv, export: RamExport, limits: Limits, tls: Option<TlsServer>) -> Self {
        let server = Server::new(env.clone(), export, limits, tls);
        Self { env: env.clone(), server, endings: Rc::default() }
    }

    /// A connection that the server serves.
    pub(crate) fn connection(&self, held_max_bytes: usize, seed: Option<u64>) -> MemoryStream {
        self.connection_of("a client".into(), held_max_bytes, seed)
    }

    /// A connection of `peer`.
    pub(crate) fn connection_of(&self, peer: Peer, held_max_bytes: usize, seed: Option<u64>) -> MemoryStream {
        let (near, far) = pair(held_max_bytes, seed);
        let fixture = self.clone();
        self.env.spawn(async move {
            let ending = fixture.server.serve(far, peer).await;
            fixture.endings.borrow_mut().push(ending.to_string());
        });
        near
    }

    pub(crate) async fn client(&self, options: &ConnectOptions) -> Result<Client<MemoryStream>, ClientError> {
        Client::connect(&self.env, self.connection(1 << 20, Some(7)), options).await
    }

    /// A client that sends what it likes, after the greeting.
    pub(crate) async fn raw(&self) -> Raw {
        let raw = Raw { stream: self.connection(1 << 20, None), headers: Headers::Simple };
        raw.take(18).await;
        raw.send(&3u32.to_be_bytes()).await;
        raw
    }

    /// Waits until `count` connections have ended, and tells how.
    pub(crate) async fn endings(&self, count: usize) -> Vec<String> {
        while self.endings.borrow().len() < count {
            self.env.sleep(1_000_000).await;
        }
        self.endings.borrow().clone()
    }

    /// Everything was given back, and nobody is left.
    pub(crate) fn assert_idle(&self) {
        let status = self.server.status();
        assert_eq!(status.in_flight_bytes, 0);
        assert!(status.connections.is_empty());
    }
}

pub(crate) fn with_headers(headers: Headers) -> ConnectOptions {
    ConnectOptions { headers, ..ConnectOptions::default() }
}

/// A client that sends what it likes.
pub(crate) struct Raw {
    pub(crate) stream: MemoryStream,
    pub(crate) headers: Headers,
}

impl Raw {
    pub(crate) async fn send(&self, bytes: &[u8]) {
        self.stream.write(bytes.to_vec()).await.0.expect("the server takes it");
    }

    /// The next `len` bytes; fewer where the connection ends.
    pub(crate) async fn take(&self, len: usize) -> Vec<u8> {
        let (mut bytes, mut filled) = (vec![0; len], 0);
        while filled < len {
            let (read, buffer) = self.stream.read(bytes, filled).await;
            bytes = buffer;
            match read.expect("reading does not fail") {
                0 => break,
                read => filled += read,
            }
        }
        bytes.truncate(filled);
        bytes
    }

    /// Sends an option; answers its replies as pairs of number and payload.
    pub(crate) async fn ask(&self, number: u32, payload: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut out = Vec::new();
        encode_option(&mut out, number, payload);
        self.send(&out).await;
        self.option_replies(number).await
    }

    pub(crate) async fn option_replies(&self, number: u32) -> Vec<(u32, Vec<u8>)> {
        let mut replies = Vec::new();
        loop {
            let header = OptionReplyHeader::decode(&self.take(OPTION_REPLY_BYTES).await).expect("a reply");
            assert_eq!(header.option, number);
            replies.push((header.reply, self.take(header.len as usize).await));
            if header.reply == option_reply::ACK || header.reply & option_reply::ERROR != 0 {
                return replies;
            }
        }
    }

    /// The number of the last reply to an option.
    pub(crate) async fn last(&self, number: u32, payload: &[u8]) -> u32 {
        self.ask(number, payload).await.last().expect("a reply").0
    }

    /// Begins the transmission phase.
    pub(crate) async fn go(&mut self, headers: Headers) {
        let asked = match headers {
            Headers::Simple => None,
            Headers::Structured => Some(option::STRUCTURED_REPLY),
            Headers::Extended => Some(option::EXTENDED_HEADERS),
        };
        if let Some(number) = asked {
            assert_eq!(self.last(number, &[]).await, option_reply::ACK);
        }
        let request = InfoRequest { name: "", wanted: vec![3] };
        assert_eq!(self.last(option::GO, &request.encode()).await, option_reply::ACK);
        self.headers = headers;
    }

    pub(crate) async fn request(&self, command: u16, flags: u16, offset: u64, len: u64, payload: &[u8]) {
        let mut out = Vec::new();
        Request { flags, command, cookie: 77, offset, len }.encode(&mut out, self.headers);
        out.extend(payload);
        self.send(&out).await;
    }

    /// The error number of the next reply, 0 for none. Its payload is dropped.
    pub(crate) async fn errno(&self) -> u32 {
        let mut bytes = Vec::new();
        let header = loop {
            bytes.extend(self.take(1).await);
            if let Some((header, _)) = ReplyHeader::decode(&bytes, self.headers).expect("a reply") {
                break header;
            }
        };
        match header {
            ReplyHeader::Simple { error, cookie } => {
                assert_eq!(cookie, 77);
                error
            }
            ReplyHeader::Chunk { kind, cookie, len, .. } => {
                assert_eq!(cookie, 77);
                let payload = self.take(len as usize).await;
                match kind & 1 << 15 {
                    0 => 0,
                    _ => u32::from_be_bytes(payload[..4].try_into().expect("an error's number")),
                }
            }
        }
    }
}
