//! Clients that write the same bytes at once: nobody says whose bytes stay, but once all have been told that they are
//! written, every read, flush, cut and recovery says the same.
//!
//! The seeds of `seeds/single.rs` cannot tell: their oracle knows the order of the versions, so no two of their clients share a
//! byte.

use std::cell::Cell;
use std::rc::Rc;

use crate::machine::{Machine, PAGE, Plan, SimVolume, noise, read};
use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_engine::options::{Journaling, Tuning};
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::executor::SimEnv;
use evenkeel_sim::random::Random;

const PAGES: u64 = 12;

const SIZE_BYTES: u64 = PAGES * PAGE;

const CLIENTS: usize = 6;

/// Operations of each client in each run.
const OPERATIONS: u64 = 25;

const RUNS: u64 = 3;

/// Pairs of ranges that one commit writes begin so far from each other: some of them overlap.
const APART_BYTES: [u64; 2] = [400, 9000];

/// How many seeds are run; `SEEDS` sets another number.
fn seeds() -> u64 {
    std::env::var("SEEDS").map_or(300, |seeds| seeds.parse().unwrap())
}

/// A small volume of any kind, half of them with the smallest portions.
fn draw_plan(random: &mut Random) -> Plan {
    let mut plan = *random.pick(&Plan::every_kind(PAGES));
    plan.create.atomic_max_bytes = *random.pick(&[4096, 8192, 16384]);
    plan.open.batch_max_bytes = 4096 << random.below(5);
    plan.open.commits_in_flight_max = 1 + random.index(4);
    plan.arena_bytes = (80 << 10) + (random.index(10) << 13);
    if let Journaling::Selective { threshold_bytes } = &mut plan.open.journaling {
        *threshold_bytes = plan.create.atomic_max_bytes;
    }
    if random.coin() {
        plan.open.tuning = Tuning {
            small_max_bytes: *random.pick(&[0, 1000, 4096]),
            rescanned_max: random.index(3),
            turn_pages_max: 1,
            home_write_pages_max: 1,
            shared_bulk_max_bytes: 1,
            shared_home_max_bytes: 1,
            bulk_min_bytes: 0,
            kept_pages_max: 1,
            ..Tuning::default()
        };
    }
    plan
}

/// One client: whatever it does, it does anywhere.
async fn client(volume: SimVolume, env: SimEnv, mut random: Random) {
    for _ in 0..OPERATIONS {
        let offset = match random.chance(0.4) {
            true => random.below(PAGES) * PAGE,
            false => random.below(SIZE_BYTES),
        };
        let len_max = *random.pick(&[100, 5000, 40_000]);
        let len = (1 + random.below(len_max)).min(SIZE_BYTES - offset);
        let bytes = match random.chance(0.2) {
            true => vec![7; len as usize],
            false => noise(random.number(), len as usize),
        };
        let durability = if random.chance(0.4) { Durability::Durable } else { Durability::Buffered };
        let extent = Extent::new(offset, len);
        let done = match random.below(12) {
            0..7 => volume.write(offset, &bytes, durability).await,
            7 => {
                let other = (offset + random.pick(&APART_BYTES)) % (SIZE_BYTES - 1000);
                let (part, other_part) = (&bytes[..bytes.len().min(900)], noise(random.number(), 700));
                volume.commit(&[(offset, part), (other, &other_part)]).await
            }
            8 => volume.write_zeroes(extent, durability).await,
            9 => volume.flush(FlushScope::Ranges(&[extent])).await,
            10 if random.chance(0.3) => volume.checkpoint().await,
            _ => {
                env.sleep(random.below(500_000)).await;
                Ok(())
            }
        };
        done.expect("nothing fails");
    }
}

/// Lets clients work beside one another; answers what they left, once all are done.
async fn race(volume: &SimVolume, env: &SimEnv, random: &mut Random) -> Vec<u8> {
    let running = Rc::new(Cell::new(CLIENTS));
    for _ in 0..CLIENTS {
        let (running, work) = (Rc::clone(&running), client(volume.clone(), env.clone(), random.fork()));
        env.spawn(async move {
            work.await;
            running.set(running.get() - 1);
        });
    }
    while running.get() > 0 {
        env.sleep(50_000).await;
    }
    read(volume, 0, SIZE_BYTES as usize).await.unwrap()
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let plan = draw_plan(&mut random);
    let mut machine = Machine::new(plan, seed);
    let mut left = vec![0; SIZE_BYTES as usize];
    for run in 0..RUNS {
        let is_flushed = random.coin();
        left = machine.run_whole(async |here| {
            let volume = here.open().await.unwrap();
            let found = read(&volume, 0, left.len()).await.unwrap();
            assert!(found == left, "seed {seed}, run {run}: the cut changed what had been read: {plan:?}");
            let left = race(&volume, &here.env, &mut random).await;
            if is_flushed {
                volume.flush(FlushScope::Whole).await.unwrap();
                let found = read(&volume, 0, left.len()).await.unwrap();
                assert!(found == left, "seed {seed}, run {run}: the flush changed what is read: {plan:?}");
            }
            left
        });
        // Only what was flushed survives both.
        let kinds: &[CutKind] =
            if is_flushed { &[CutKind::PowerCut, CutKind::Kill] } else { &[CutKind::Kill] };
        machine.strike(*random.pick(kinds));
        if random.coin() {
            let plan = CutPlan { at_event: Some(random.below(80)), kind: *random.pick(kinds) };
            let _cut_or_not = machine.run(plan, async |here| {
                here.open().await.unwrap().checkpoint().await.unwrap();
            });
            machine.strike(plan.kind);
        }
    }
    assert!(machine.contents() == left, "seed {seed}: the last cut changed what had been read: {plan:?}");
}

#[test]
fn writes_of_the_same_bytes_at_once_come_to_one_outcome_that_nothing_changes() {
    (0..seeds()).for_each(run);
}
