//! File systems on whose store someone changed what they liked: every operation has an answer, in bounded memory.
#![no_main]

#[path = "../../crates/ext2/tests/common/exercise.rs"]
mod exercise;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use evenkeel_ext2::MemoryStore;
use evenkeel_fuzz::Choices;
use libfuzzer_sys::fuzz_target;

/// Runs a future over memory, which waits for nothing.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
}

/// An image, and the numbers of its blocks that are not zero.
fn image() -> (MemoryStore, Vec<u64>) {
    let store = run(exercise::image());
    let mut blocks = Vec::new();
    store.for_each_block(|number, _| blocks.push(number));
    (store, blocks)
}

thread_local! {
    static IMAGE: (MemoryStore, Vec<u64>) = image();
}

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::of(data);
    let store = IMAGE.with(|(image, blocks)| {
        let store = image.after_power_cut(|| true);
        for _ in 0..64 {
            if choices.is_empty() {
                break;
            }
            let block = blocks[choices.byte() as usize % blocks.len()];
            let in_block = u64::from(choices.short() % 4092);
            match choices.byte() % 3 {
                0 => store.patch(block * 4096 + in_block, &[choices.byte()]),
                1 => store.patch(block * 4096 + in_block, &choices.short().to_le_bytes()),
                _ => store.patch(block * 4096 + in_block / 4 * 4, &(choices.word() as u32).to_le_bytes()),
            }
        }
        store
    });
    run(exercise::exercise(store));
});
