//! The order of runs: in each block every configuration with every workload once, shuffled anew. What drifts over hours
//! falls on all of them alike.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::workload::tree::seed_of;

/// One run of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Planned {
    /// Index of its configuration.
    pub configuration: usize,
    /// Index of its workload.
    pub workload: usize,
    /// Which of the runs of both it is, from 0.
    pub repeat: u32,
}

/// All runs, in order.
pub fn order(configurations: usize, workloads: usize, runs: u32, seed: u64) -> Vec<Planned> {
    let mut random = StdRng::seed_from_u64(seed_of(seed, &["order"]));
    let mut all = Vec::new();
    for repeat in 0..runs {
        let each = (0..configurations).flat_map(|configuration| {
            (0..workloads).map(move |workload| Planned { configuration, workload, repeat })
        });
        let mut block: Vec<Planned> = each.collect();
        block.shuffle(&mut random);
        all.extend(block);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_block_holds_every_pair_once_in_an_order_of_its_own() {
        let all = order(5, 3, 4, 7);
        assert_eq!(all.len(), 60);
        let blocks: Vec<&[Planned]> = all.chunks(15).collect();
        for (repeat, block) in (0..).zip(&blocks) {
            assert!(block.iter().all(|run| run.repeat == repeat));
            let pairs: BTreeSet<_> = block.iter().map(|run| (run.configuration, run.workload)).collect();
            assert_eq!(pairs.len(), 15);
        }
        let pairs = |block: &[Planned]| -> Vec<_> {
            block.iter().map(|run| (run.configuration, run.workload)).collect()
        };
        assert_ne!(pairs(blocks[0]), pairs(blocks[1]));
        assert_eq!(all, order(5, 3, 4, 7));
        assert_ne!(all, order(5, 3, 4, 8));
    }
}
