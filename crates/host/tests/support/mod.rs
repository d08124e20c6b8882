//! What the tests of loops, drives and volumes share.

#![allow(dead_code, unreachable_pub, clippy::print_stderr)]

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::Write;
use std::pin::{Pin, pin};
use std::task::Poll;

use evenkeel_host::event_loop::{Backend, EventLoop};

pub mod contract;

/// A loop of each kind that can be had here.
pub fn loops() -> Vec<EventLoop> {
    let threads = EventLoop::new(Backend::Threads).unwrap();
    assert_eq!(threads.backend(), Backend::Threads);
    let auto = EventLoop::new(Backend::Auto).unwrap();
    if auto.backend() == Backend::Threads {
        skipped("loops", "io_uring is forbidden here");
        return vec![threads];
    }
    vec![threads, auto]
}

/// Tells that something could not be tested here.
pub fn skipped(name: &str, reason: &str) {
    eprintln!("skipped: {reason}");
    if let Some(path) = std::env::var_os("EVENKEEL_SKIPPED") {
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        writeln!(file, "{name}: {reason}").unwrap();
    }
}

/// Lets everyone else run once.
pub async fn turn() {
    let mut been_here = false;
    poll_fn(|context| {
        if std::mem::replace(&mut been_here, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls once and drops it.
pub async fn begin_and_drop(future: impl Future) {
    let mut future = pin!(future);
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// Runs all of them at the same time.
pub async fn all<'a>(futures: impl IntoIterator<Item = Pin<Box<dyn Future<Output = ()> + 'a>>>) {
    let mut futures: Vec<_> = futures.into_iter().collect();
    poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
