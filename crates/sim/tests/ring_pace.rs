//! Stories of writers who write more than a ring takes home.

mod ring_machine;

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_sim::random::Random;

use ring_machine::{Machine, Plan, noise};

const MIB: usize = 1 << 20;
const SECOND_NS: u64 = 1_000_000_000;

/// A write: when it was begun and when it was durable.
type Done = (u64, u64);

/// A mirror in turns of a second whose members take 30 MB/s each.
fn slow() -> Machine {
    let mut plan = Plan::mirror(2, 1);
    plan.create.size_bytes = 64 << 20;
    plan.create.log_bytes = 64 << 20;
    plan.arena_bytes = 64 << 20;
    plan.open = plan.open.with_pages_max(80_000);
    plan.latency.transfer_ns_per_kib = 34_000;
    (plan.latency.slow_writes_one_in, plan.latency.jitter_ns) = (0, 20_000);
    (plan.ring.turn_ns, plan.ring.rest_ns, plan.ring.rest_max_ns) = (SECOND_NS, SECOND_NS / 10, SECOND_NS);
    (plan.ring.depth_max, plan.ring.answer_max_ns) = (1, 100 * SECOND_NS);
    Machine::new(plan, 5)
}

/// What `writers` did in so long, each of writes of so many bytes, one after another.
fn written(writers: &[usize], for_ns: u64) -> Vec<Vec<Done>> {
    let mut machine = slow();
    machine.live_whole(async |life| {
        let (volume, ring, _) = life.open().await.unwrap();
        let done: Vec<Rc<RefCell<Vec<Done>>>> = writers.iter().map(|_| Rc::default()).collect();
        for (place, (&len, done)) in writers.iter().zip(&done).enumerate() {
            let (volume, env, done) = (volume.clone(), life.env.clone(), Rc::clone(done));
            life.env.spawn(async move {
                let mut random = Random::new(place as u64);
                loop {
                    let began_ns = env.now_ns();
                    let offset = random.below((64 << 20) / len as u64) * len as u64;
                    let bytes = noise(random.number(), len);
                    volume.write(offset, &bytes, Durability::Durable).await.unwrap();
                    done.borrow_mut().push((began_ns, env.now_ns()));
                }
            });
        }
        while life.env.now_ns() < for_ns {
            ring_read(&volume).await;
            life.env.sleep(SECOND_NS / 100).await;
        }
        drop(ring);
        done.iter().map(|done| done.borrow().clone()).collect()
    })
}

async fn ring_read(volume: &ring_machine::RingVolume) {
    volume.read(0, &mut [0; 4096]).await.unwrap();
}

fn show(label: &str, done: &[Done], for_ns: u64, len: usize) {
    let mut took: Vec<u64> = done.iter().map(|(b, e)| e - b).collect();
    took.sort_unstable();
    let mut ends: Vec<u64> = done.iter().map(|d| d.1).collect();
    ends.sort_unstable();
    let gap = ends.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0).max(ends[0]);
    let q = |p: f64| took[((took.len() - 1) as f64 * p) as usize] as f64 / 1e9;
    println!("{label}: n {} {:.1} MB/s p50 {:.3} p99 {:.3} max {:.3} gap {:.3}", took.len(), (took.len() * len) as f64 * 1e3 / for_ns as f64, q(0.5), q(0.99), q(1.0), gap as f64 / 1e9);
    let mut line = String::new();
    for s in 0..(for_ns / (SECOND_NS / 4)) { let n = ends.iter().filter(|e| *e / (SECOND_NS / 4) == s).count(); line += &format!("{n} "); }
    println!("   {line}");
}

#[test]
fn probe() {
    let t = 20 * SECOND_NS;
    let w = written(&[MIB; 16], t);
    show("16 x 1M", &w.concat(), t, MIB);
    let w = written(&[MIB / 4; 8], t);
    show("8 x 256K", &w.concat(), t, MIB / 4);
    let mut l = vec![MIB; 16];
    l.extend([4096; 4]);
    let w = written(&l, t);
    show("16 x 1M of mixed", &w[..16].concat(), t, MIB);
    show("4 x 4K of mixed", &w[16..].concat(), t, 4096);
}
