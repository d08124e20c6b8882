//! What the stories about models share.
#![allow(dead_code, unreachable_pub)] // Each story file uses its own part of this.

use std::sync::Mutex;

use evenkeel_sim::model::closed_loop::{self, Measured};
use evenkeel_sim::model::flash::Flash;
use evenkeel_sim::model::store::ByteStore;
use evenkeel_sim::model::{Model, Operation, Request, presets};
use evenkeel_sim::random::Random;

pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

/// Bytes that are not the model's own.
#[derive(Debug, Default)]
pub struct Elsewhere(Mutex<Vec<u8>>);

impl ByteStore for Elsewhere {
    fn read(&self, offset: u64, into: &mut [u8]) {
        let bytes = self.0.lock().unwrap();
        let held = bytes.get(offset as usize..).unwrap_or_default();
        let len = held.len().min(into.len());
        into[..len].copy_from_slice(&held[..len]);
        into[len..].fill(0);
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        let mut held = self.0.lock().unwrap();
        let end = offset as usize + bytes.len();
        let len = held.len().max(end);
        held.resize(len, 0);
        held[offset as usize..end].copy_from_slice(bytes);
    }
}

pub fn drive(name: &str, size_bytes: u64) -> Flash {
    presets::find(name).expect("a preset").flash(size_bytes).expect("a size that fits")
}

/// Lets everything that is under way happen; answers when it has.
pub fn settle(model: &mut impl Model) -> u64 {
    let (mut now_ns, mut done) = (0, Vec::new());
    while let Some(next_ns) = model.next_event_ns() {
        now_ns = next_ns;
        model.run_until(now_ns, &mut done);
    }
    now_ns
}

/// Requests of `len` bytes at random places, once all before them is settled.
pub fn at_random(
    model: &mut impl Model,
    operation: Operation,
    depth: u64,
    requests: u64,
    len: u64,
) -> Measured {
    let mut random = Random::new(requests);
    let places = model.size_bytes() / len;
    let start_ns = now_ns(model);
    closed_loop::run(model, start_ns, depth, requests, |_| {
        Request::new(0, operation, random.below(places) * len, len)
    })
}

/// The model's time: that of its next event, or as late as anything can have happened.
pub fn now_ns(model: &mut impl Model) -> u64 {
    model.next_event_ns().unwrap_or_else(|| model.now_ns())
}

/// A request alone; answers what it took.
pub fn one(model: &mut impl Model, request: Request) -> u64 {
    let start_ns = model.now_ns();
    closed_loop::run(model, start_ns, 1, 1, |_| request).took_ns
}

/// What a flush of the first page takes after `buffered` pages were written.
pub fn flush_after(name: &str, buffered: u64, operation: Operation) -> u64 {
    let mut flash = drive(name, GIB);
    let start_ns = flash.now_ns();
    closed_loop::run(&mut flash, start_ns, 8, buffered, |number| {
        Request::new(0, Operation::Write, number * 4096, 4096)
    });
    one(&mut flash, Request::new(0, operation, 0, 4096))
}
