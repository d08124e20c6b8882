//! Memory for pages that follows what is free: more as it is used, less where others need it.
//!
//! ```text
//!   nothing waits, much is free, and all of it is in use ──► twice as much, up to a quarter of all memory
//!   little is free, or not much and somebody waits       ──► less by an eighth at least, down to what it began with
//!   between                                              ──► as it is
//! ```
//!
//! 1. All volumes of a process together take no more than a quarter of the memory of the machine, or of its control group
//!    where that has less; each keeps what it began with.
//! 2. It never takes what would leave others less than [`spared_bytes`].
//! 3. What it gives back goes to the system at once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_engine::env::Env;

use super::term::Term;
use crate::allocator::give_back_what_is_free;
use crate::conditions::memory::{Memory, spared_bytes};
use crate::event_loop::Loop;
use crate::volume::LocalVolume;

/// Between two looks.
const LOOK_NS: u64 = 1_000_000_000;

/// Of all memory, what pages take at most.
const MOST_SHARE: u64 = 4;

/// Memory is short where tasks wait for it for this share of the time.
const SHORT_SHARE: f64 = 0.05;

/// Of what there is, what is given back at least where memory is short.
const GIVEN_SHARE: u64 = 8;

/// All of it counts as in use where less than this share is not.
const UNUSED_SHARE: u64 = 16;

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// Memory for pages of one volume.
#[derive(Debug, Clone, Copy)]
struct Pages {
    now_bytes: u64,
    /// Of these.
    used_bytes: u64,
    /// What it began with.
    least_bytes: u64,
    /// What other volumes of this process may take now.
    others_bytes: u64,
}

/// Bytes for pages from now on.
fn next_bytes(memory: &Memory, pages: Pages) -> u64 {
    let Pages { now_bytes, used_bytes, least_bytes, others_bytes } = pages;
    let spared_bytes = spared_bytes(memory.all_bytes);
    let most_bytes = (memory.all_bytes / MOST_SHARE).saturating_sub(others_bytes).max(least_bytes);
    let lack_bytes = spared_bytes.saturating_sub(memory.free_bytes);
    let wanted_bytes = if memory.waited_share >= SHORT_SHARE || lack_bytes > 0 {
        let kept_bytes = now_bytes.min(used_bytes);
        kept_bytes.saturating_sub(lack_bytes.max(now_bytes / GIVEN_SHARE))
    } else if now_bytes - now_bytes / UNUSED_SHARE <= used_bytes {
        // Half of what can be had, so that several servers do not take the same.
        now_bytes + now_bytes.min(memory.free_bytes.saturating_sub(2 * spared_bytes) / 2)
    } else {
        now_bytes
    };
    wanted_bytes.clamp(least_bytes, most_bytes)
}

/// What all volumes of this process may take for pages whose memory follows what is free.
static ALL: Mutex<u64> = Mutex::new(0);

/// What one of them may take, as long as it is served.
struct Share(u64);

impl Share {
    fn of(bytes: u64) -> Self {
        *all() += bytes;
        Self(bytes)
    }

    /// Chooses how much it is from now on, knowing what the others may take; nobody else chooses meanwhile.
    fn choose(&mut self, choose: impl FnOnce(u64) -> u64) {
        let mut all = all();
        let others_bytes = *all - self.0;
        self.0 = choose(others_bytes);
        *all = others_bytes + self.0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *all() -= self.0;
    }
}

fn all() -> MutexGuard<'static, u64> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For this term the memory for pages of its volume follows what is free.
pub(super) fn follow(event_loop: &Loop, term: &Term, volume: &LocalVolume) {
    let (env, volume) = (event_loop.clone(), volume.clone());
    let least_bytes = volume.cached_pages_max() as u64 * PAGE_BYTES;
    term.spawn(async move {
        let mut share = Share::of(least_bytes);
        loop {
            env.sleep(LOOK_NS).await;
            // Where memory is short even a look at it may wait.
            let Ok(Some(memory)) = env.blocking(Memory::now).await else { continue };
            let now_bytes = volume.cached_pages_max() as u64 * PAGE_BYTES;
            let used_bytes = volume.occupancy().pages_bytes;
            share.choose(|others_bytes| {
                next_bytes(&memory, Pages { now_bytes, used_bytes, least_bytes, others_bytes })
            });
            let next_bytes = share.0;
            if next_bytes == now_bytes {
                continue;
            }
            volume.resize_cache((next_bytes / PAGE_BYTES) as usize).await;
            if next_bytes < now_bytes {
                let _it_comes_later = env.blocking(give_back_what_is_free).await;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn memory(all_mib: u64, free_mib: u64, waited_share: f64) -> Memory {
        Memory { all_bytes: all_mib * MIB, free_bytes: free_mib * MIB, waited_share }
    }

    fn next_mib(memory: &Memory, now_mib: u64, used_mib: u64) -> u64 {
        beside(memory, now_mib, used_mib, 0)
    }

    fn beside(memory: &Memory, now_mib: u64, used_mib: u64, others_mib: u64) -> u64 {
        let pages = Pages {
            now_bytes: now_mib * MIB,
            used_bytes: used_mib * MIB,
            least_bytes: 64 * MIB,
            others_bytes: others_mib * MIB,
        };
        next_bytes(memory, pages) / MIB
    }

    #[test]
    fn volumes_of_a_process_share_a_quarter_and_keep_what_they_began_with() {
        let calm = memory(8000, 6000, 0.0);
        assert_eq!(beside(&calm, 512, 512, 1200), 800);
        assert_eq!(beside(&calm, 64, 64, 2000), 64);
        assert_eq!(beside(&calm, 800, 800, 1500), 500, "others came and began with theirs");
    }

    #[test]
    fn a_share_counts_until_it_is_gone() {
        let (mut one, other) = (Share::of(100), Share::of(50));
        one.choose(|others_bytes| others_bytes + 1);
        drop(other);
        one.choose(|others_bytes| others_bytes);
        assert_eq!(one.0, 0, "nobody else is served");
    }

    #[test]
    fn it_doubles_while_it_is_used_up_to_a_quarter() {
        let calm = memory(8000, 6000, 0.0);
        assert_eq!(next_mib(&calm, 64, 64), 128);
        assert_eq!(next_mib(&calm, 1024, 1000), 2000);
        assert_eq!(next_mib(&calm, 2000, 2000), 2000);
        assert_eq!(next_mib(&calm, 1024, 900), 1024, "nobody uses more");
    }

    #[test]
    fn it_takes_half_of_what_others_can_spare() {
        let calm = memory(8000, 1200, 0.0);
        assert_eq!(next_mib(&calm, 1000, 1000), 1100, "500 MiB are spared, and as many again");
        assert_eq!(next_mib(&memory(8000, 900, 0.0), 1000, 1000), 1000);
    }

    #[test]
    fn it_gives_back_where_memory_is_short_but_not_what_it_began_with() {
        assert_eq!(next_mib(&memory(8000, 6000, 0.2), 1600, 1600), 1400);
        assert_eq!(next_mib(&memory(8000, 100, 0.0), 1600, 1600), 1200, "400 MiB are lacking");
        assert_eq!(next_mib(&memory(8000, 0, 0.9), 70, 70), 64);
        assert_eq!(
            next_mib(&memory(8000, 0, 0.9), 1600, 200),
            64,
            "what is not in use is not given back first"
        );
    }

    #[test]
    fn a_small_machine_gets_what_was_chosen_for_it() {
        assert_eq!(next_mib(&memory(200, 150, 0.0), 64, 64), 64);
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bounds(
            (all_mib, free_mib) in (1..100_000_u64, 0..100_000_u64),
            waited_share in 0.0..1.0,
            (now_mib, used_mib) in (64..100_000_u64, 0..100_000_u64),
        ) {
            let memory = memory(all_mib, free_mib.min(all_mib), waited_share);
            let next = next_mib(&memory, now_mib, used_mib);
            prop_assert!((64..=(all_mib / 4).max(64)).contains(&next));
            let more = next.saturating_sub(now_mib) * MIB;
            prop_assert!(more == 0 || memory.free_bytes - more >= spared_bytes(memory.all_bytes));
        }
    }
}
