//! What salvage makes of volumes on stripes: all of it where no more members are damaged, old or gone than there are parity
//! shards and one log device has everything, also of changes that were cut in the middle; and no wrong byte that it does not
//! name. Nothing is written.

// What a test prints is for whoever runs it.
#![allow(clippy::print_stdout)]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent, Geometry};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::log_head;
use evenkeel_engine::format::stripes::Stripes;
use evenkeel_engine::salvage::{self, Condition, DamageList};
use evenkeel_sim::image::Image;
use evenkeel_sim::random::Random;
use evenkeel_sim::testbed::Testbed;

use crate::machine::mirror::{Machine, PAGE, Plan, Run, filled, noise};
use crate::salvage_mirror::{PAGES, overwrite, salvaged, story};
use crate::stripes::either;

/// Writes pages and begins to take them home, for so long; the power fails then.
async fn half_home(run: Run, seed: u64, bytes: &mut [u8], for_ns: u64) {
    let (volume, ..) = run.open().await.unwrap();
    let mut random = Random::new(seed);
    for step in 0..8 {
        let new = noise(seed ^ step, 3 * PAGE as usize);
        let offset = random.below(bytes.len() as u64 - new.len() as u64);
        volume.write(offset, &new, Durability::Durable).await.unwrap();
        bytes[offset as usize..][..new.len()].copy_from_slice(&new);
    }
    either(volume.checkpoint(), run.env.sleep(for_ns)).await;
}

/// Does something to a member, or to a log device; notes which.
fn harm(
    machine: &mut Machine,
    random: &mut Random,
    earlier: &[Image],
    members: &mut BTreeSet<usize>,
    logs: &mut BTreeSet<usize>,
) {
    let plan = machine.plan;
    if random.chance(0.3) {
        let place = random.index(plan.logs);
        logs.insert(place);
        let image = &machine.logs[place];
        let size_bytes = image.borrow().geometry().size_bytes;
        match random.below(3) {
            0 => machine.logs_gone.push(place),
            1 => overwrite(image, log_head::DATA_OFFSET, vec![0; 2 * PAGE as usize]),
            _ => image.borrow_mut().rot(random.below(size_bytes - 9000), 1 + random.below(9000), random),
        }
        return;
    }
    let place = random.index(plan.members);
    members.insert(place);
    let image = &machine.members[place];
    let (start, size_bytes) = (plan.data_offset(), image.borrow().geometry().size_bytes);
    if size_bytes < start + 64 * 512 {
        return; // it is short already
    }
    let sector = start + random.below(size_bytes - start - 40 * 512) / 512 * 512;
    let len = (1 + random.below(40)) * 512;
    match random.below(7) {
        0 => machine.members_gone.push(place),
        1 => machine.members[place] = Rc::new(RefCell::new(earlier[place].clone())),
        2 => overwrite(image, sector, noise(random.number(), len as usize)),
        3 => image.borrow_mut().make_unreadable(Extent::new(sector, len)),
        // It was cut short.
        4 => {
            let kept = (size_bytes / 512 / (2 + random.below(8))).max(1) * 512;
            let mut bytes = vec![0; kept as usize];
            image.borrow().read_durable(0, &mut bytes);
            let short = Image::shared(Geometry { size_bytes: kept, ..image.borrow().geometry() });
            overwrite(&short, 0, bytes);
            machine.members[place] = short;
        }
        // All that it is, and its heads.
        5 => overwrite(image, 0, vec![0; size_bytes as usize]),
        _ => image.borrow_mut().rot(sector, len, random),
    }
}

/// What salvage gives, and all that it names.
fn salvage(machine: &mut Machine) -> Result<(Vec<u8>, DamageList), Error> {
    let stripes = machine.plan.ring.stripes.unwrap();
    let zone = machine.plan.testbed.stripe_log().unwrap();
    let zone = Extent::new(zone.offset - log_head::DATA_OFFSET, zone.len);
    salvaged(machine, async move |members, logs, arena| {
        salvage::find_striped(1, stripes, zone, &members, &logs, arena).await
    })
}

/// A volume of stripes with more than a page of sums.
fn plan(data: usize, parity: usize, shard_pages: u64) -> Plan {
    let mut plan = Plan::striped(data, parity, 2);
    plan.ring.stripes = Stripes::new(data, parity, shard_pages * PAGE);
    plan.testbed = plan.testbed.with_journal_of(&plan.create);
    plan.testbed.ring.stripes = plan.ring.stripes;
    plan.create.size_bytes = PAGES * PAGE;
    plan
}

/// Whether there was enough for all of it, and whether something was named.
fn try_seed(plan: Plan, seed: u64) -> (bool, bool) {
    let mut random = Random::new(seed ^ 0xA12);
    let parity = plan.ring.stripes.unwrap().parity();
    let mut machine = Machine::new(plan, 1);
    let mut bytes = vec![0; plan.create.size_bytes as usize];
    machine.run_whole(async |run| story(run, random.number(), &mut bytes, true).await);
    machine.power_cut();
    let earlier: Vec<Image> = machine.members.iter().map(|image| image.borrow().clone()).collect();
    let (number, closes, for_ns) = (random.number(), random.coin(), 1 << random.below(25));
    machine.run_whole(async |run| story(run, number, &mut bytes, closes).await);
    if !closes {
        machine.power_cut();
        machine.run_whole(async |run| half_home(run, number, &mut bytes, for_ns).await);
    }
    machine.power_cut();
    let (mut members, mut logs) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..random.below(8) {
        harm(&mut machine, &mut random, &earlier, &mut members, &mut logs);
    }
    // Two of them in each other's place are as good: their heads say which they are.
    let [one, other] = [0, 1].map(|_| random.index(plan.members));
    if !members.contains(&one) && !members.contains(&other) && random.coin() {
        machine.members.swap(one, other);
    }
    let has_log = logs.len() < plan.logs;
    let has_all = members.len() <= parity && has_log;
    let (found, named) = match salvage(&mut machine) {
        Ok(found) => found,
        Err(error) => {
            assert!(!has_all, "seed {seed}: {error} {members:?} {logs:?}");
            return (false, true);
        }
    };
    let about = || format!("seed {seed}, closed {closes}: {members:?} {logs:?} {:?}", named.ranges());
    if has_all {
        assert_eq!(named.bytes(Condition::Lost), 0, "{}", about());
    }
    for page in 0..PAGES {
        let range = (page * PAGE) as usize..((page + 1) * PAGE) as usize;
        let is_right = found[range.clone()] == bytes[range];
        assert!(!has_all || is_right, "page {page} can be had: {}", about());
        // Of a log that is damaged on each of its devices nobody can tell where it ended.
        let is_named = named.touches(&Extent::new(page * PAGE, PAGE));
        assert!(is_right || is_named || !(has_log || closes), "page {page} is wrong: {}", about());
    }
    (has_all, !named.ranges().is_empty())
}

#[test]
fn of_stripes_all_is_had_that_enough_members_hold_and_no_wrong_byte_goes_unnamed() {
    let plans = [plan(2, 1, 1), plan(4, 2, 1), plan(4, 2, 4), plan(3, 2, 2), plan(10, 4, 1)];
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(200);
    let (mut whole, mut named) = (0, 0);
    for seed in 0..seeds {
        let (has_all, is_named) = try_seed(plans[seed as usize % plans.len()], seed);
        whole += u64::from(has_all);
        named += u64::from(is_named);
    }
    println!("{seeds} seeds: {whole} with enough of everything, {named} with something named");
    assert!(whole * 3 > seeds && named * 5 > seeds, "{whole} whole, {named} named");
}

#[test]
fn whichever_members_rot_as_many_as_there_are_parity_shards_cost_nothing() {
    let (data, parity) = (10, 4);
    let (whole, bytes) = filled(Plan::striped(data, parity, 2), 1);
    let start = whole.plan.data_offset();
    for first in 0..data + parity {
        let mut machine = whole.fork(first as u64);
        let size_bytes = machine.members[0].borrow().geometry().size_bytes;
        // Far apart, so that some of those that are read first are among them.
        for place in (0..parity).map(|step| (first + 3 * step) % (data + parity)) {
            overwrite(&machine.members[place], start, noise(place as u64, (size_bytes - start) as usize));
        }
        let (found, named) = salvage(&mut machine).unwrap();
        assert!(found == bytes && named.ranges().is_empty(), "from {first} on: {:?}", named.ranges());
    }
}

#[test]
fn without_any_log_device_what_was_stopped_in_order_is_had_whole() {
    let (mut machine, bytes) = filled(Plan::striped(4, 2, 2), 1);
    machine.power_cut();
    machine.logs_gone = vec![0, 1];
    let (found, named) = salvage(&mut machine).unwrap();
    assert!(found == bytes, "{:?}", named.ranges());
    assert!(named.ranges().is_empty(), "{:?}", named.ranges());
}
