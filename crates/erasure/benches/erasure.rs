//! What the erasure code costs: `cargo bench -p evenkeel-erasure --bench erasure [-- ROUNDS]`.
//!
//! One thread. The kernels of this machine take turns within a round, so that what else the machine does meets all of them.

#![allow(clippy::print_stdout, reason = "a benchmark's output is its figures")]

use std::hint::black_box;
use std::time::Instant;

use evenkeel_erasure::{Code, Kernel};

/// Bytes that each measurement goes through, so that it takes some milliseconds.
const WORK_BYTES: usize = 64 << 20;

/// Shapes and bytes of a shard that are measured.
const CASES: &[(usize, usize, usize)] = &[
    (4, 2, 4 << 10),
    (4, 2, 64 << 10),
    (4, 2, 1 << 20),
    (2, 1, 64 << 10),
    (5, 1, 64 << 10),
    (10, 4, 64 << 10),
    (16, 4, 64 << 10),
];

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Encode,
    /// One data shard, where it alone is missing.
    RebuildOne,
    /// As many data shards as may be missing.
    RebuildAll,
    /// One page of a parity shard that is not the plain sum, by what changed.
    Update,
}

impl Task {
    const ALL: [Self; 4] = [Self::Encode, Self::RebuildOne, Self::RebuildAll, Self::Update];

    fn name(self) -> &'static str {
        match self {
            Self::Encode => "encode",
            Self::RebuildOne => "rebuild of one",
            Self::RebuildAll => "rebuild of all",
            Self::Update => "update of 4 KiB",
        }
    }
}

/// Bytes of data shards, or of what changed, that went through in a second, in GB: median, least and most of the rounds.
fn report(label: &str, rates: &mut [f64]) {
    rates.sort_by(f64::total_cmp);
    let (least, most) = (rates[0], rates[rates.len() - 1]);
    println!("{label:<58} {:7.2} GB/s ({least:.2} to {most:.2})", rates[rates.len() / 2]);
}

/// The shards of a stripe, of noise.
fn stripe(shards: usize, len: usize) -> Vec<Vec<u8>> {
    let mut state = 1u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..shards).map(|_| (0..len).map(|_| next()).collect()).collect()
}

/// Does it as often as it takes, and answers GB of data in a second.
fn rate(code: Code, shards: &mut [Vec<u8>], task: Task) -> f64 {
    let (k, m, len) = (code.data(), code.parity(), shards[0].len());
    let bytes = if task == Task::Update { 4096 } else { k * len };
    let times = (WORK_BYTES / bytes).max(1);
    let began = Instant::now();
    for _ in 0..times {
        let (data, parity) = shards.split_at_mut(k);
        match task {
            Task::Encode => {
                let inputs: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
                let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
                code.encode(black_box(&inputs), &mut outputs).expect("shards of one length");
            }
            Task::RebuildOne | Task::RebuildAll => {
                let gone = if task == Task::RebuildOne { 1 } else { m.min(k) };
                let (lost, kept) = data.split_at_mut(gone);
                let kept = kept.iter().enumerate().map(|(at, shard)| (gone + at, shard.as_slice()));
                let parity = parity.iter().enumerate().map(|(at, shard)| (k + at, shard.as_slice()));
                let present: Vec<(usize, &[u8])> = kept.chain(parity).collect();
                let lost = lost.iter_mut().enumerate();
                let mut missing: Vec<_> = lost.map(|(at, shard)| (at, shard.as_mut_slice())).collect();
                code.reconstruct(black_box(&present), &mut missing).expect("enough shards");
            }
            Task::Update => {
                let delta = &data[0][..4096];
                code.update(0, black_box(delta), m - 1, &mut parity[m - 1][..4096]).expect("one length");
            }
        }
        black_box(&mut *shards);
    }
    (times * bytes) as f64 / began.elapsed().as_secs_f64() / 1e9
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(11).max(1);
    let kernels: Vec<Kernel> = Kernel::available().collect();
    for &(k, m, len) in CASES {
        let code = Code::new(k, m).expect("a code");
        let mut shards = stripe(k + m, len);
        for task in Task::ALL {
            let mut rates = vec![Vec::new(); kernels.len()];
            for round in 0..=rounds {
                for (kernel, rates) in kernels.iter().zip(&mut rates) {
                    let rate = rate(code.with_kernel(*kernel), &mut shards, task);
                    // The first round is for the caches.
                    if round > 0 {
                        rates.push(rate);
                    }
                }
            }
            for (kernel, rates) in kernels.iter().zip(&mut rates) {
                let kib = len / 1024;
                report(&format!("{k}+{m}, {kib} KiB, {}, {}", task.name(), kernel.name()), rates);
            }
        }
    }
    fixed_cost();
}

/// What a call takes that has nothing to compute: shards of no bytes.
fn fixed_cost() {
    for (k, m) in [(4, 2), (16, 4)] {
        let code = Code::new(k, m).expect("a code");
        let empty = [0u8; 0];
        let present: Vec<(usize, &[u8])> = (m..k + m).map(|number| (number, &empty[..])).collect();
        let data = vec![&empty[..]; k];
        let calls = 100_000;
        let began = Instant::now();
        for _ in 0..calls {
            let mut none: Vec<[u8; 0]> = vec![[]; m];
            let mut parity: Vec<&mut [u8]> = none.iter_mut().map(|bytes| &mut bytes[..]).collect();
            code.encode(black_box(&data), &mut parity).expect("shards of one length");
        }
        let encode = began.elapsed().as_secs_f64() * 1e9 / f64::from(calls);
        let began = Instant::now();
        for _ in 0..calls {
            let mut none: Vec<[u8; 0]> = vec![[]; m];
            let lost = none.iter_mut().enumerate();
            let mut missing: Vec<_> = lost.map(|(at, bytes)| (at, &mut bytes[..])).collect();
            code.reconstruct(black_box(&present), &mut missing).expect("enough shards");
        }
        let rebuild = began.elapsed().as_secs_f64() * 1e9 / f64::from(calls);
        println!(
            "{k}+{m}, shards of no bytes: encode {encode:.0} ns a call, rebuild of {m} {rebuild:.0} ns a call"
        );
    }
}
