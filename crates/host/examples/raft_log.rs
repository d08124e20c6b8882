//! The logs of many Raft groups in one volume: `cargo run --release -p evenkeel-host --example raft_log [-- FOLDER]`.
//!
//! Each group has a part of the volume: a page for its state, then its entries, one behind another. An append is one
//! commit: the entries and the state that counts them are there together or not at all, so that recovery reads the
//! state and believes it. Commits of all groups that come while the disk is busy share the next write of the log.
//! What a group has discarded before the volume takes it home is never written there.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::thread;
use std::time::Instant;

use evenkeel_host::embedded::{Creation, Durability, Error, Options, Pending, Volume};

const GROUPS: u64 = 64;
const GROUP_BYTES: u64 = 1 << 20;
const PAGE_BYTES: u64 = 4096;
/// Largest entry, with its length before it.
const SLOT_BYTES: u64 = 1024;
const SLOTS: u64 = (GROUP_BYTES - PAGE_BYTES) / SLOT_BYTES;

/// What a group must remember besides its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct State {
    term: u64,
    /// First entry that is kept.
    first: u64,
    /// The entry after the last one.
    end: u64,
}

impl State {
    fn encode(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        for (place, number) in bytes.chunks_exact_mut(8).zip([self.term, self.first, self.end]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let number = |place: usize| u64::from_le_bytes(bytes[place * 8..][..8].try_into().expect("8 bytes"));
        Self { term: number(0), first: number(1), end: number(2) }
    }
}

/// The log of one group.
struct GroupLog {
    volume: Volume,
    start: u64,
    state: State,
}

impl GroupLog {
    /// The log of group `number`, as it was left.
    async fn open(volume: &Volume, number: u64) -> Result<Self, Error> {
        let start = number * GROUP_BYTES;
        let state = State::decode(&volume.read(start, 24).await?);
        Ok(Self { volume: volume.clone(), start, state })
    }

    fn place(&self, entry: u64) -> u64 {
        self.start + PAGE_BYTES + entry % SLOTS * SLOT_BYTES
    }

    /// Appends `entries` in `term`; durable once the answer is there.
    fn append(&mut self, term: u64, entries: &[&[u8]]) -> Pending<()> {
        let mut ranges: Vec<(u64, Vec<u8>)> = Vec::new();
        for entry in entries {
            assert!(entry.len() as u64 + 4 <= SLOT_BYTES && self.state.end - self.state.first < SLOTS);
            let len = (entry.len() as u32).to_le_bytes();
            ranges.push((self.place(self.state.end), [&len, *entry].concat()));
            self.state.end += 1;
        }
        self.state.term = term;
        ranges.push((self.start, self.state.encode().to_vec()));
        self.volume.commit(&ranges)
    }

    async fn entry(&self, number: u64) -> Result<Vec<u8>, Error> {
        assert!((self.state.first..self.state.end).contains(&number));
        let slot = self.volume.read(self.place(number), SLOT_BYTES as usize).await?;
        let len = u32::from_le_bytes(slot[..4].try_into().expect("4 bytes")) as usize;
        Ok(slot[4..4 + len].to_vec())
    }

    /// Forgets the entries before `first`: a snapshot has them.
    async fn discard_before(&mut self, first: u64) -> Result<(), Error> {
        let (from, to) = (self.place(self.state.first), self.place(first));
        self.state.first = first;
        // Before they are gone, nothing may say any more that they are there.
        self.volume.write(self.start, self.state.encode(), Durability::Durable).await?;
        let (entries, end) = (self.start + PAGE_BYTES, self.start + PAGE_BYTES + SLOTS * SLOT_BYTES);
        let ranges = if from <= to { [from..to, end..end] } else { [from..end, entries..to] };
        for range in ranges {
            // Nobody waits for it. Durable, it joins the next commit: what goes home is what commits have left.
            drop(self.volume.write_zeroes(range, Durability::Durable));
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let parent = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let parent = tempfile::tempdir_in(parent)?;
    let folder = parent.path().join("raft-logs");
    Volume::create(Creation { log_bytes: 64 << 20, ..Creation::new(&folder, GROUPS * GROUP_BYTES) })
        .wait()?;

    let volume = Volume::open(&folder, Options::default()).wait()?;
    let began = Instant::now();
    thread::scope(|scope| {
        for number in 0..GROUPS {
            let volume = &volume;
            // A thread for each group, to show that; tasks of any runtime do as well.
            scope.spawn(move || {
                block_on(async {
                    let mut log = GroupLog::open(volume, number).await?;
                    for entry in 0..200_u64 {
                        let bytes = format!("group {number}, entry {entry}: {}", "x".repeat(900));
                        log.append(1, &[bytes.as_bytes()]).await?;
                        if entry % 64 == 63 {
                            log.discard_before(entry - 32).await?;
                        }
                    }
                    Ok::<(), Error>(())
                })
                .expect("a healthy volume");
            });
        }
    });
    let took = began.elapsed();
    let counters = volume.status().wait()?.counters;
    println!(
        "{} appends of {GROUPS} groups, each durable before the next, in {took:.2?}: {:.0} a second, {:.1} of them a \
         write of the log",
        counters.committed_units,
        (GROUPS * 200) as f64 / took.as_secs_f64(),
        counters.committed_units as f64 / counters.commits as f64,
    );
    // As if the process had been killed here: nothing that was acknowledged is missing.
    drop(volume);

    let volume = Volume::open(&folder, Options::default()).wait()?;
    block_on(async {
        for number in 0..GROUPS {
            let log = GroupLog::open(&volume, number).await?;
            assert_eq!(log.state, State { term: 1, first: 159, end: 200 });
            for entry in log.state.first..log.state.end {
                assert!(
                    log.entry(entry).await?.starts_with(format!("group {number}, entry {entry}:").as_bytes())
                );
            }
        }
        println!("opened again: every group has its entries 159 to 199");
        volume.close().await
    })?;
    Ok(())
}

/// What a runtime does for one future; any will do.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    use std::task::{Context, Poll, Wake, Waker};
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        thread::park();
    }
}
