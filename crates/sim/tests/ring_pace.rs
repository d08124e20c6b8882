//! Stories of writers who write more than a ring takes home.

mod ring_machine;

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_sim::random::Random;

use ring_machine::{Machine, Plan, noise};

const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;
const SECOND_NS: u64 = 1000 * MS;

/// Two members that take 30 MB/s each, in turns: half of it in the long run. The log holds what they take in two
/// seconds.
fn slow() -> Machine {
    let mut plan = Plan::mirror(2, 1);
    (plan.create.size_bytes, plan.create.log_bytes) = (64 * MIB, 64 * MIB);
    plan.arena_bytes = 64 << 20;
    plan.open = plan.open.with_pages_max(80_000);
    plan.latency.transfer_ns_per_kib = 34_000;
    plan.latency.slow_writes_one_in = 0;
    (plan.ring.turn_ns, plan.ring.rest_ns, plan.ring.rest_max_ns) = (SECOND_NS, 100 * MS, SECOND_NS);
    (plan.ring.depth_max, plan.ring.answer_max_ns) = (1, 100 * SECOND_NS);
    Machine::new(plan, 5)
}

/// A write: when it began, and when it was durable.
#[derive(Debug, Clone, Copy)]
struct Write {
    began_ns: u64,
    ended_ns: u64,
}

impl Write {
    fn took_ns(&self) -> u64 {
        self.ended_ns - self.began_ns
    }
}

/// What each of the writers wrote in twenty seconds, one durable write of so many bytes after another, beside a reader.
fn written(writers: &[u64]) -> Vec<Vec<Write>> {
    slow().live_whole(async |life| {
        let (volume, ..) = life.open().await.unwrap();
        let done: Vec<Rc<RefCell<Vec<Write>>>> = writers.iter().map(|_| Rc::default()).collect();
        for ((&len, done), seed) in writers.iter().zip(&done).zip(0..) {
            let (volume, env, done) = (volume.clone(), life.env.clone(), Rc::clone(done));
            life.env.spawn(async move {
                let mut random = Random::new(seed);
                loop {
                    let bytes = noise(random.number(), len as usize);
                    let offset = random.below(64 * MIB / len) * len;
                    let began_ns = env.now_ns();
                    volume.write(offset, &bytes, Durability::Durable).await.unwrap();
                    done.borrow_mut().push(Write { began_ns, ended_ns: env.now_ns() });
                }
            });
        }
        while life.env.now_ns() < 20 * SECOND_NS {
            volume.read(0, &mut [0; 4096]).await.unwrap();
            life.env.sleep(10 * MS).await;
        }
        done.iter().map(|done| done.borrow().clone()).collect()
    })
}

/// What took the longest, and half of all at most.
fn longest_and_median_ns(writes: &[Write]) -> (u64, u64) {
    let mut took: Vec<u64> = writes.iter().map(Write::took_ns).collect();
    took.sort_unstable();
    (took[took.len() - 1], took[took.len() / 2])
}

/// The longest time in which none was done.
fn longest_gap_ns(writes: &[Write]) -> u64 {
    let mut ends: Vec<u64> = writes.iter().map(|write| write.ended_ns).chain([0]).collect();
    ends.sort_unstable();
    ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
}

#[test]
fn what_is_more_than_the_members_take_is_let_in_evenly_and_in_the_order_of_coming() {
    let mut writes = written(&[MIB; 16]).concat();
    let (longest_ns, median_ns) = longest_and_median_ns(&writes);
    assert!(longest_ns < 2 * median_ns, "{longest_ns} ns, and half of them at most {median_ns} ns");
    let gap_ns = longest_gap_ns(&writes);
    assert!(gap_ns < SECOND_NS / 2, "nothing was done for {gap_ns} ns");
    writes.sort_unstable_by_key(|write| write.began_ns);
    let is_overtaken =
        |pair: &[Write]| pair[0].began_ns < pair[1].began_ns && pair[0].ended_ns > pair[1].ended_ns;
    let overtaken = writes.windows(2).filter(|pair| is_overtaken(pair)).count();
    assert_eq!(overtaken, 0, "of {}", writes.len());
    // Half of 30 MB/s, and at first what the log holds.
    assert!(writes.len() as u64 * MIB > 20 * 15_000_000, "only {} were taken", writes.len());
}

#[test]
fn a_few_writers_do_not_wait_many_times_their_share() {
    let writes = written(&[MIB / 4; 8]).concat();
    let (longest_ns, median_ns) = longest_and_median_ns(&writes);
    assert!(longest_ns < 6 * median_ns, "{longest_ns} ns, and half of them at most {median_ns} ns");
}

#[test]
fn who_wants_little_does_not_wait_for_who_wants_much() {
    let writers: Vec<u64> = [MIB; 16].into_iter().chain([4096; 4]).collect();
    let writes = written(&writers);
    let (longest_ns, _) = longest_and_median_ns(&writes[16..].concat());
    assert!(longest_ns < 50 * MS, "a page waited for {longest_ns} ns");
    let (much, little) =
        (writes[..16].concat().len() as u64 * MIB, writes[16..].concat().len() as u64 * 4096);
    assert!(writes[..16].iter().all(|writes| writes.len() >= 5), "who wants much gets on too");
    assert!(
        much + little > 20 * 12_500_000,
        "{much} and {little} bytes: what one does not take the other has"
    );
}
