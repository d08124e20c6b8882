//! Any bytes as a session with a server, in virtual time; [`answers`] does the same to a client.
//!
//! [`fuzz_session`] reads its input as a script: handshakes and requests that are mostly well formed, changed
//! here and there, sent in any split, broken off anywhere. [`fuzz_bytes`] sends its input as it is. Both fail
//! if the server panics, hangs, has more in flight than its limits allow, or does not give back what it took,
//! and if another connection notices.

mod answers;
mod pipe;
mod ram;
mod script;

use evenkeel_engine::device::{Durability, FlushScope};
use evenkeel_sim::executor::{Executor, SimEnv};

use crate::front::nbd::export::BlockSizes;
use crate::front::nbd::limits::Limits;
use crate::front::nbd::server::Server;
use crate::front::session::FrontStatus;
use crate::nbd::client::{Client, ConnectOptions};
use crate::nbd::proto::transmission::Headers;
use crate::net::ByteStream;
pub use answers::{Answered, fuzz_answers};
pub use pipe::{MemoryStream, pair};
pub use ram::RamExport;
use script::{Action, Source};

/// Bytes of the export.
const SIZE_BYTES: usize = 16 << 10;
/// Polls that no session needs.
const POLLS_MAX: u64 = 2_000_000;

/// Small enough to be met all the time.
pub fn small_limits() -> Limits {
    Limits {
        connections_max: 3,
        options_max: 12,
        option_payload_max_bytes: 256,
        context_queries_max: 4,
        name_max_bytes: 64,
        request_max_bytes: 8 << 10,
        requests_in_flight_max: 4,
        connection_in_flight_max_bytes: 12 << 10,
        in_flight_max_bytes: 16 << 10,
        connection_own_bytes: 2 << 10,
        status_extents_max: 3,
        input_bytes: 4 << 10,
        ..Limits::default()
    }
}

/// Runs the session that `data` describes; answers what the server did.
///
/// # Panics
///
/// The server does not keep what the module promises.
pub fn fuzz_session(data: &[u8]) -> FrontStatus {
    let mut source = Source::new(data);
    let settings = Settings::from_byte(source.byte(), source.number());
    let actions = script::session(&mut source, SIZE_BYTES as u64);
    run(settings, actions)
}

/// Sends `bytes` to a server; everything else follows from `seed`. Answers what the server did.
///
/// # Panics
///
/// As [`fuzz_session`].
pub fn fuzz_bytes(bytes: &[u8], seed: u64) -> FrontStatus {
    let actions = vec![Action::Send(bytes.to_vec()), Action::Pause];
    run(Settings::from_byte(seed as u8, seed), actions)
}

struct Settings {
    seed: u64,
    has_splits: bool,
    is_read_only: bool,
    takes_time: bool,
    has_blocks: bool,
    has_neighbour: bool,
    ends_by_stop: bool,
    reads_replies: bool,
}

impl Settings {
    fn from_byte(byte: u8, seed: u64) -> Self {
        Self {
            seed,
            has_splits: byte & 1 != 0,
            takes_time: byte & 2 != 0,
            reads_replies: byte & 12 != 4,
            has_neighbour: byte & 48 == 16,
            ends_by_stop: byte & 64 != 0,
            is_read_only: byte & 160 == 128,
            has_blocks: byte & 160 == 160,
        }
    }
}

fn run(settings: Settings, actions: Vec<Action>) -> FrontStatus {
    let mut executor = Executor::new(settings.seed);
    executor.limit_polls(POLLS_MAX);
    let env = executor.env();
    let mut export = RamExport::new(SIZE_BYTES);
    if settings.takes_time {
        export = export.taking_time(env.clone());
    }
    if settings.is_read_only {
        export = export.read_only();
    }
    if settings.has_blocks {
        export = export.with_sizes(BlockSizes { minimum_bytes: 512, ..BlockSizes::default() });
    }
    let server = Server::new(env.clone(), export, small_limits(), None);
    let result = executor.block_on(session(env, &server, &settings, actions));
    if let Err(halt) = result {
        panic!("the session does not end: {halt}");
    }
    let status = server.status();
    assert_eq!(status.in_flight_bytes, 0, "everything is given back");
    assert!(status.connections.is_empty(), "no connection is left");
    assert!(
        status.in_flight_peak_bytes <= status.in_flight_max_bytes,
        "no more is in flight than the limits allow"
    );
    status
}

async fn session(env: SimEnv, server: &Server<SimEnv, RamExport>, settings: &Settings, actions: Vec<Action>) {
    use evenkeel_engine::env::Env;

    let (near, far) = pair(
        if settings.reads_replies { 1 << 20 } else { 512 },
        settings.has_splits.then_some(settings.seed),
    );
    let serving = {
        let server = server.clone();
        async move {
            server.serve(far, "fuzzed").await;
        }
    };
    let serving = joined(&env, serving);
    let neighbour = match settings.has_neighbour {
        true => Some(connect(&env, server, settings).await),
        false => None,
    };
    for action in actions {
        match action {
            // A server that refuses what comes does not take it.
            Action::Send(bytes) => drop(near.write(bytes).await),
            Action::Pause => env.sleep(50_000).await,
            Action::EndSending => near.end_sending(),
            Action::Read => {
                if near.waiting_bytes() > 0 {
                    drop(near.read(vec![0; 4096], 0).await);
                }
            }
        }
        if settings.reads_replies && near.waiting_bytes() > 0 {
            drop(near.read(vec![0; 64 << 10], 0).await);
        }
    }
    if let Some(client) = &neighbour {
        use_neighbour(client, settings).await;
    }
    if settings.ends_by_stop {
        // What is under way is answered even to a client that reads nothing: within limits.
        drop(neighbour);
        server.stop().await;
    } else {
        near.shutdown();
        drop(neighbour);
    }
    serving.await;
    // The neighbour's connection ends on its own.
    server.stop().await;
}

/// Runs `work` as a task; what it answers ends with it.
fn joined(env: &SimEnv, work: impl Future<Output = ()> + 'static) -> impl Future<Output = ()> {
    use evenkeel_engine::env::Env;

    let done = std::rc::Rc::new((std::cell::Cell::new(false), crate::wait::Notify::default()));
    let told = std::rc::Rc::clone(&done);
    env.spawn(async move {
        work.await;
        told.0.set(true);
        told.1.all();
    });
    async move { done.1.until(|| done.0.get().then_some(())).await }
}

async fn connect(
    env: &SimEnv,
    server: &Server<SimEnv, RamExport>,
    settings: &Settings,
) -> Client<MemoryStream> {
    use evenkeel_engine::env::Env;

    let (near, far) = pair(1 << 20, None);
    let server = server.clone();
    env.spawn(async move { drop(server.serve(far, "neighbour").await) });
    let headers = match settings.seed % 3 {
        0 => Headers::Simple,
        1 => Headers::Structured,
        _ => Headers::Extended,
    };
    let options = ConnectOptions { headers, ..ConnectOptions::default() };
    Client::connect(env, near, &options).await.expect("the neighbour is let in")
}

/// The other client is served all the while, whatever the first one did.
async fn use_neighbour(client: &Client<MemoryStream>, settings: &Settings) {
    let mut held = vec![0; 512];
    if !settings.is_read_only {
        client.write(1024, &[7; 512], Durability::Durable).await.expect("the neighbour writes");
        client.flush(FlushScope::Whole).await.expect("the neighbour flushes");
    }
    client.read(1024, &mut held).await.expect("the neighbour reads");
}
