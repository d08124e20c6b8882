//! Any bytes as what a server says to a client, in virtual time.
//!
//! [`fuzz_answers`] lets a client talk to a server whose words are changed on their way as the input says, or to one that
//! says the input and nothing else. It fails if the client panics, if a request does not end in time, or ends well with
//! something else than it asked for.

use std::cell::RefCell;
use std::future::pending;

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_sim::executor::{Executor, SimEnv};

use super::pipe::{MemoryStream, pair};
use super::ram::RamExport;
use super::script::{Source, mutate};
use super::{POLLS_MAX, SIZE_BYTES, small_limits};
use crate::front::nbd::server::Server;
use crate::nbd::client::{Client, ClientError, ConnectOptions};
use crate::nbd::proto::transmission::Headers;
use crate::net::ByteStream;
use crate::wait::{race, run_apart};

/// Bytes of a short request, and of one that the server answers in pieces.
const LENS: [usize; 2] = [64, 7 << 10];

/// How often a client asks before it goes.
const ROUNDS: usize = 3;

/// What became of a client's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answered {
    /// Whether it was let in.
    pub is_open: bool,
    /// Requests that ended well.
    pub done: u32,
    /// Requests that failed.
    pub failed: u32,
}

/// Runs a client against the server that `data` describes.
///
/// # Panics
///
/// The client does not keep what the module promises.
pub fn fuzz_answers(data: &[u8]) -> Answered {
    let mut source = Source::new(data);
    let settings = source.byte();
    let mut executor = Executor::new(data.len() as u64);
    executor.limit_polls(POLLS_MAX);
    let env = executor.env();
    let splits = (settings & 4 != 0).then_some(u64::from(settings));
    let (near, far) = pair(1 << 20, splits);
    let headers = match settings & 3 {
        0 => Headers::Simple,
        1 => Headers::Structured,
        _ => Headers::Extended,
    };
    let options = ConnectOptions { headers, ..ConnectOptions::default() };
    let is_changed = settings & 8 != 0;
    let told = executor.block_on(async {
        let asking = ask(&env, near, &options);
        let answering = async {
            match is_changed {
                true => change(&env, &far, RefCell::new(source)).await,
                false => {
                    // Who was refused takes no more.
                    let _gone_is_fine = far.write(data.get(1..).unwrap_or_default().to_vec()).await;
                    if settings & 16 != 0 {
                        far.end_sending();
                    }
                }
            }
            pending::<Answered>().await
        };
        match race(asking, answering).await {
            crate::wait::Raced::First(told) | crate::wait::Raced::Second(told) => told,
        }
    });
    told.unwrap_or_else(|halt| panic!("the client does not end: {halt}"))
}

/// Stands between a client and a server, and changes what the server says as `source` says.
async fn change(env: &SimEnv, far: &MemoryStream, source: RefCell<Source<'_>>) {
    let (client_side, server_side) = pair(1 << 20, None);
    let server = Server::new(env.clone(), RamExport::new(SIZE_BYTES), small_limits(), None);
    env.spawn(async move { drop(server.serve(server_side, "changed").await) });
    let there = pass_on(far, &client_side, |_| {});
    let back = pass_on(&client_side, far, |bytes| mutate(&mut source.borrow_mut(), bytes));
    // One direction's end is the other's, too.
    race(there, back).await;
    far.shutdown();
}

async fn pass_on(from: &MemoryStream, to: &MemoryStream, change: impl Fn(&mut Vec<u8>)) {
    loop {
        let (read, mut bytes) = from.read(vec![0; 4096], 0).await;
        let len = read.unwrap_or(0);
        if len == 0 {
            return;
        }
        bytes.truncate(len);
        change(&mut bytes);
        if to.write(bytes).await.0.is_err() {
            return;
        }
    }
}

/// Connects, asks for one of each kind at once, and looks at the answers; all of it in time.
async fn ask(env: &SimEnv, stream: MemoryStream, options: &ConnectOptions) -> Answered {
    let in_time = |began_ns: u64, max_ns: u64| {
        assert!(env.now_ns() - began_ns <= max_ns / 8 * 9 + 1_000_000_000, "it takes too long");
    };
    let began_ns = env.now_ns();
    let connected = Client::connect(env, stream, options).await;
    in_time(began_ns, options.handshake_max_ns);
    let Ok(client) = connected else { return Answered::default() };
    assert!(client.negotiated().block_sizes.minimum_bytes.is_power_of_two());
    let mut told = Answered { is_open: true, ..Answered::default() };
    for len in LENS.into_iter().cycle().take(ROUNDS) {
        let began_ns = env.now_ns();
        for result in round(env, &client, len).await {
            match result {
                Ok(()) => told.done += 1,
                Err(_) => told.failed += 1,
            }
        }
        in_time(began_ns, options.answer_max_ns);
    }
    told
}

async fn round(env: &SimEnv, client: &Client<MemoryStream>, len: usize) -> Vec<Result<(), ClientError>> {
    let write = client.write(0, &vec![9; len], Durability::Durable);
    let (reader, flusher, asker, trimmer) = (client.clone(), client.clone(), client.clone(), client.clone());
    let extent = Extent::new(0, len as u64);
    let read = run_apart(env, async move { reader.read(0, &mut vec![0; len]).await });
    let flush = run_apart(env, async move { flusher.flush(FlushScope::Ranges(&[extent])).await });
    let status = run_apart(env, async move {
        let found = asker.allocation(extent).await?;
        let total = found.iter().try_fold(0_u64, |sum, (len, _)| sum.checked_add(*len));
        assert!(total.is_some_and(|total| 0 < total && total <= extent.len), "{found:?}");
        Ok(())
    });
    let trim = run_apart(env, async move { trimmer.trim(extent, Durability::Buffered).await });
    vec![write.await, read.await, flush.await, status.await, trim.await]
}
