//! At a steady load a write allocates nothing of its own: what is allocated are the tasks of a commit, and the
//! nodes of the buffer's index, each for several pages.

#[path = "../benches/ram/mod.rs"]
mod ram;

use evenkeel_engine::counters::Snapshot;
use evenkeel_engine::device::{Durability, FlushScope};
use evenkeel_engine::options::OpenOptions;

use ram::{MIB, Noise, Testbed};

/// What the tasks of one commit may allocate.
const PER_COMMIT_MAX: u64 = 16;

/// Writes for which one node of the index may be allocated. A node of a B-tree of the standard library holds 5 to
/// 11 entries.
const WRITES_PER_NODE: u64 = 5;

const WRITES_PER_FLUSH: u64 = 256;

/// Allocations of a volume from its making to its end with so many rounds of writes and a flush, and what it did.
fn run(rounds: usize) -> (u64, Snapshot) {
    let open = OpenOptions { batch_max_bytes: 2 << 20, ..OpenOptions::default() };
    let testbed = Testbed::new(4 * MIB, 128 * MIB, open, 16 << 20);
    let mut done = None;
    let counted = allocation_counter::measure(|| {
        done = Some(testbed.run(async |opened| {
            let (volume, mut noise) = (opened.volume, Noise::new(1));
            for _ in 0..rounds {
                for _ in 0..WRITES_PER_FLUSH {
                    let offset = noise.random.below(volume.size_bytes() / 4096) * 4096;
                    volume.write(offset, noise.slice(4096), Durability::Buffered).await.unwrap();
                }
                volume.flush(FlushScope::Whole).await.unwrap();
            }
            volume.counters()
        }));
    });
    (counted.count_total, done.expect("it ran"))
}

#[test]
fn at_a_steady_load_a_write_allocates_nothing_of_its_own() {
    let ((short, before), (long, after)) = (run(30), run(46));
    assert_eq!(before.checkpoints, after.checkpoints, "a checkpoint would allocate in its own right");
    let (commits, writes) = (after.commits - before.commits, after.writes - before.writes);
    assert_eq!(writes, 16 * WRITES_PER_FLUSH);
    let allocated = long - short;
    assert!(
        allocated <= commits * PER_COMMIT_MAX + writes / WRITES_PER_NODE,
        "{allocated} allocations for {writes} writes in {commits} commits"
    );
}
