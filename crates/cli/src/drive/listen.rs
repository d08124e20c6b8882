//! Accepting who connects to a drive or asks beside it.

use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::Loop;
use evenkeel_host::net::{Listener, Stream};

/// How long to wait before connections are accepted again after that has failed.
const ACCEPT_AGAIN_NS: u64 = 100_000_000;

/// Has `serve` take each connection that comes, one after the other; it spawns what takes long.
pub(super) fn accept_all(env: &Loop, listener: Listener, serve: impl Fn(Stream) + 'static) {
    let waits = env.clone();
    env.spawn(async move {
        loop {
            match listener.accept().await {
                Ok(stream) => serve(stream),
                Err(_) => waits.sleep(ACCEPT_AGAIN_NS).await,
            }
        }
    });
}
