//! Stories of volumes on a ring with stripes.

use std::future::{Future, poll_fn};
use std::task::Poll;

use evenkeel_engine::device::{Device, Durability, Extent};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::format::ring_head::Mark;
use evenkeel_engine::format::stripe_record::{ShardRange, StripeRecord};
use evenkeel_engine::format::stripes::Stripes;
use evenkeel_engine::layout::{PageStore, PlacedWrite};
use evenkeel_engine::ring::{MemberState, MemberStatus, Policy};
use evenkeel_engine::volume::check;
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::image::Image;
use evenkeel_sim::random::Random;
use evenkeel_sim::seeds::{STRIPED_BROKEN_SINCE, STRIPED_ONCE_BROKEN, draw_striped, run};
use evenkeel_sim::testbed::Testbed;

use crate::machine::mirror::{Machine, Plan, Run, filled, noise, whole};
use crate::machine::{PAGE, overwrite, patch};

/// K, M, and who is lost.
const LOSSES: [(usize, usize, &[usize]); 7] = [
    (2, 1, &[]),
    (2, 1, &[0]),
    (2, 1, &[1]),
    (2, 1, &[2]),
    (4, 2, &[0, 1]),
    (4, 2, &[2, 5]),
    (3, 2, &[1, 3]),
];

#[test]
fn what_is_closed_is_there_without_as_many_members_as_there_are_parity_shards() {
    for policy in [Policy::Auto, Policy::Turns, Policy::Mixed] {
        for (data, parity, lost) in LOSSES {
            let mut plan = Plan::striped(data, parity, 2);
            plan.ring.policy = policy;
            let (mut machine, bytes) = filled(plan, 7);
            machine.members_gone = lost.to_vec();
            assert!(machine.contents() == bytes, "{data}+{parity} without {lost:?}, {policy:?}");
        }
    }
}

#[test]
fn a_durable_write_survives_a_cut_with_the_loss_of_members_and_a_log_device() {
    for (data, parity, lost) in LOSSES {
        for lost_log in 0..2 {
            let (mut machine, mut bytes) = filled(Plan::striped(data, parity, 2), 11);
            let part = noise(1, 5000);
            machine.run_whole(async |run| {
                let (volume, ..) = run.open().await.unwrap();
                volume.write(3000, &part, Durability::Durable).await.unwrap();
            });
            machine.power_cut();
            bytes[3000..8000].copy_from_slice(&part);
            (machine.members_gone, machine.logs_gone) = (lost.to_vec(), vec![lost_log]);
            assert!(machine.contents() == bytes, "{data}+{parity} without {lost:?} and log {lost_log}");
        }
    }
}

#[test]
fn members_that_were_away_are_rebuilt_and_then_others_may_be_lost() {
    for (data, parity, lost) in LOSSES {
        let (mut machine, mut bytes) = filled(Plan::striped(data, parity, 1), 13);
        machine.members_gone = lost.to_vec();
        let part = noise(2, 90_000);
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            volume.write(1000, &part, Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap();
        });
        machine.power_cut();
        bytes[1000..91_000].copy_from_slice(&part);
        for first in 0..data + parity {
            // Those that were away before are taken back first.
            machine.members_gone = vec![];
            machine.run_whole(async |run| {
                let (_volume, ring, _) = run.open().await.unwrap();
                whole(&ring, &run.env).await;
                assert!(ring.members().iter().all(|member| member.state == MemberState::InSync));
            });
            machine.power_cut();
            machine.members_gone = (first..first + parity).map(|place| place % (data + parity)).collect();
            assert!(
                machine.contents() == bytes,
                "{data}+{parity}, {lost:?} rebuilt, without {first} and more"
            );
        }
    }
}

/// Bytes of a page, as a length.
const PAGE_LEN: usize = PAGE as usize;

/// Bytes of a shard of these.
const SHARD: usize = 16 << 10;

/// A volume of stripes of four and two small shards.
fn of_small_shards() -> Plan {
    let mut plan = Plan::striped(4, 2, 2);
    plan.ring.stripes = Stripes::new(4, 2, SHARD as u64);
    plan
}

#[test]
fn a_stripe_is_read_from_four_shards_once_each_whichever_two_are_lost() {
    let (mut machine, _) = filled(of_small_shards(), 7);
    let mut whole = vec![0; 4 * SHARD];
    machine.run_whole(async |run| {
        let (_volume, ring, _) = run.open().await.unwrap();
        ring.read(0, &mut whole).await.unwrap();
    });
    for lost in (0..6).flat_map(|one| (0..one).map(move |other| [other, one])) {
        let mut machine = machine.fork(0);
        machine.members_gone = lost.to_vec();
        machine.run_whole(async |run| {
            let (_volume, ring, _) = run.open().await.unwrap();
            let read_bytes = || ring.members().iter().map(|member| member.read_bytes).sum::<u64>();
            let mut into = vec![0; 4 * SHARD];
            let before = read_bytes();
            ring.read(0, &mut into).await.unwrap();
            assert_eq!(read_bytes() - before, 4 * SHARD as u64, "all of it without {lost:?}");
            assert!(into == whole, "without {lost:?}");
            // Rows of one shard, and of two that are not the same rows.
            for (offset, len) in [(0, SHARD), (512, 3 * 4096), (SHARD - 4096, 8192), (SHARD - 512, 1024)] {
                let before = read_bytes();
                ring.read(offset as u64, &mut into[..len]).await.unwrap();
                assert!(into[..len] == whole[offset..offset + len], "{len} from {offset} without {lost:?}");
                let pages = (offset + len).div_ceil(4096) - offset / 4096;
                assert!(
                    read_bytes() - before <= 4 * 4096 * pages as u64,
                    "{len} from {offset} without {lost:?}"
                );
            }
        });
    }
}

#[test]
fn what_comes_at_once_for_the_same_rows_is_one_change_and_a_whole_stripe_needs_no_reads() {
    let (mut machine, _) = filled(of_small_shards(), 7);
    machine.run_whole(async |run| {
        let (_volume, ring, _) = run.open().await.unwrap();
        let counted =
            |bytes: fn(&MemberStatus) -> u64| ring.members().iter().map(bytes).sum::<u64>() as usize;
        let mut whole = vec![0; 4 * SHARD];
        ring.read(0, &mut whole).await.unwrap();
        // Pages of the stripe, and how many are read and written for them: with each row two of parity. What is lacking of two
        // rows is read as one.
        let rows = SHARD / PAGE_LEN;
        let cases: [(&[usize], usize, usize); 5] = [
            (&[0], 3, 3),
            (&[1, rows + 1], 2, 4),
            (&[1, rows + 2], 8, 6),
            (&[0, rows, 2 * rows, 3 * rows], 0, 6),
            (&[], 0, 6 * rows),
        ];
        for (pages, reads, writes) in cases {
            let extents = pages.iter().map(|page| (page * PAGE_LEN, PAGE_LEN));
            let extents: Vec<_> = if pages.is_empty() { vec![(0, 4 * SHARD)] } else { extents.collect() };
            let placed = |&(offset, len): &(usize, usize)| PlacedWrite {
                offset: offset as u64,
                parts: vec![&whole[offset..offset + len]],
            };
            let placed: Vec<PlacedWrite<'_>> = extents.iter().map(placed).collect();
            let (read, written) = (counted(|it| it.read_bytes), counted(|it| it.written_bytes));
            ring.write_numbered(&placed).await.unwrap();
            assert_eq!(counted(|it| it.read_bytes) - read, reads * PAGE_LEN, "read for {pages:?}");
            assert_eq!(counted(|it| it.written_bytes) - written, writes * PAGE_LEN, "written for {pages:?}");
        }
    });
}

#[test]
fn a_rebuild_says_how_many_pages_nobody_has_right_any_more() {
    let (mut machine, _) = filled(Plan::striped(2, 1, 2), 61);
    let stripes = machine.plan.ring.stripes.unwrap();
    let layout = machine.plan.testbed.layout(&machine.plan.create);
    let data_offset = machine.plan.data_offset();
    let pieces = (0..64).flat_map(|page| stripes.pieces(Extent::new(layout.page_offset(page), PAGE)));
    // One with parity on the member that is rebuilt is lost alone, one beside data of that takes these along.
    let rotten: Vec<_> = pieces.filter(|piece| piece.place == 1).take(7).collect();
    for piece in &rotten {
        let at = data_offset + piece.on_member.offset;
        machine.members[1].borrow_mut().rot(at, PAGE, &mut Random::new(at));
    }
    let blank = Image::shared(machine.members[0].borrow().geometry());
    machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        ring.fail(0, DeviceError { doing: "be replaced", errno: 5 });
        ring.replace(0, run.another(&blank).into()).await.unwrap();
        whole(&ring, &run.env).await;
        let said = ring.members()[0].rebuild_found.damaged_pages;
        let damaged = check(&volume).await.unwrap().damaged_pages.len() as u64;
        assert_eq!(said, damaged);
        assert!(damaged > rotten.len() as u64, "{damaged}");
    });
}

#[test]
fn a_rebuild_asks_others_once_for_the_rows_of_a_stripe_and_copies_none_that_were_never_written() {
    let mut plan = of_small_shards();
    (plan.ring.policy, plan.ring.rebuild_piece_bytes) = (Policy::Mixed, 2 * SHARD as u64);
    let (stripe, stripes) = (4 * SHARD as u64, 12);
    plan.create.size_bytes = 4 * stripes * stripe;
    let mut machine = Machine::new(plan, 31);
    let bytes = noise(9, (stripes * stripe) as usize);
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        volume.write(0, &bytes, Durability::Buffered).await.unwrap();
        volume.close().await.unwrap();
    });
    // What is first written to rows that were passed over.
    let first: Vec<u64> = (0..12).map(|number| (stripes + number) * stripe + number * 5 * PAGE).collect();
    let later = noise(10, first.len() * PAGE_LEN);
    for rebuilt in 0..6 {
        let mut machine = machine.fork(rebuilt as u64);
        // It held something else before, which stays where nothing is copied.
        let geometry = machine.members[0].borrow().geometry();
        let (blank, data_offset) = (Image::shared(geometry), machine.plan.data_offset());
        blank.borrow_mut().rot(data_offset, geometry.size_bytes - data_offset, &mut Random::new(5));
        machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            let reads = || run.members.iter().map(|member| member.counters().reads).sum::<u64>();
            let before = reads();
            ring.fail(rebuilt, DeviceError { doing: "be replaced", errno: 5 });
            ring.replace(rebuilt, run.another(&blank).into()).await.unwrap();
            whole(&ring, &run.env).await;
            let (reads, copied) = (reads() - before, ring.members()[rebuilt].copied_bytes);
            // Beside what was written the table of its sums, and what is above that.
            let shards = copied / SHARD as u64;
            assert!((stripes..stripes + 4).contains(&shards), "{shards} shards of {rebuilt}");
            // Four to compute it, and where some of a stripe is not known, five to see that it is one version.
            assert!(reads <= 9 * shards, "{reads} reads for {shards} shards of {rebuilt}");
            for (offset, page) in first.iter().zip(later.chunks(PAGE_LEN)) {
                volume.write(*offset, page, Durability::Buffered).await.unwrap();
            }
            volume.close().await.unwrap();
        });
        machine.members[rebuilt] = blank;
        machine.power_cut();
        machine.members_gone = [1, 3].map(|behind| (rebuilt + behind) % 6).to_vec();
        let found = machine.contents();
        assert!(found[..bytes.len()] == bytes, "{rebuilt} rebuilt");
        for (offset, page) in first.iter().zip(later.chunks(PAGE_LEN)) {
            assert!(found[*offset as usize..][..PAGE_LEN] == *page, "{offset} behind {rebuilt} rebuilt");
        }
    }
}

#[test]
fn a_rebuild_beside_a_member_that_rots_leaves_one_version_of_rows_of_which_a_page_is_not_known() {
    // Every other shard has contents: the others have no sums that would tell versions apart.
    let mut plan = of_small_shards();
    plan.ring.policy = Policy::Mixed;
    let mut machine = Machine::new(plan, 29);
    let layout = machine.plan.testbed.layout(&machine.plan.create);
    let written: Vec<u64> =
        (0..64).filter(|&page| (layout.page_offset(page) / SHARD as u64).is_multiple_of(2)).collect();
    let bytes = noise(5, 64 * PAGE_LEN);
    let page = |number: u64| number as usize * PAGE_LEN..(number as usize + 1) * PAGE_LEN;
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        for &number in &written {
            volume.write(number * PAGE, &bytes[page(number)], Durability::Buffered).await.unwrap();
        }
        volume.close().await.unwrap();
    });
    machine.power_cut();
    let geometry = machine.members[0].borrow().geometry();
    let behind_sums = machine.plan.data_offset() + SHARD as u64;
    for (rotten, rebuilt) in (0..6).flat_map(|one| (0..6).map(move |other| (one, other))) {
        if rotten == rebuilt {
            continue;
        }
        let mut machine = machine.fork(rebuilt as u64);
        let mut random = Random::new(rotten as u64);
        machine.members[rotten].borrow_mut().rot(behind_sums, geometry.size_bytes - behind_sums, &mut random);
        let blank = Image::shared(geometry);
        machine.run_whole(async |run| {
            let (_volume, ring, _) = run.open().await.unwrap();
            ring.fail(rebuilt, DeviceError { doing: "be replaced", errno: 5 });
            ring.replace(rebuilt, run.another(&blank).into()).await.unwrap();
            whole(&ring, &run.env).await;
        });
        machine.members[rebuilt] = blank;
        machine.power_cut();
        for lost in (0..6).filter(|&lost| lost != rotten) {
            let mut machine = machine.fork(lost as u64);
            machine.members_gone = vec![rotten, lost];
            let found = machine.contents();
            let is_wrong = |&&number: &&u64| found[page(number)] != bytes[page(number)];
            let wrong: Vec<_> = written.iter().filter(is_wrong).collect();
            assert!(wrong.is_empty(), "{rotten} rotten, {rebuilt} rebuilt, {lost} lost: {wrong:?}");
        }
    }
}

/// Ends with the one or the other, whichever comes first; the other is given up.
pub(crate) async fn either(one: impl Future, other: impl Future) {
    let (mut one, mut other) = (Box::pin(one), Box::pin(other));
    poll_fn(|context| {
        let is_over = one.as_mut().poll(context).is_ready() || other.as_mut().poll(context).is_ready();
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Writes pages, and takes them home; then others. The power fails while these are on their way.
fn half_home(machine: &mut Machine, bytes: &mut [u8], [first, others]: [u64; 2]) {
    let part = noise(first, 16 * PAGE as usize);
    let [first, others] = [first * PAGE, others * PAGE];
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        volume.write(first, &part, Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
        volume.write(others, &part, Durability::Durable).await.unwrap();
        either(volume.checkpoint(), run.env.sleep(4_000_000)).await;
    });
    machine.power_cut();
    patch(bytes, first, &part);
    patch(bytes, others, &part);
}

#[test]
fn a_log_device_that_comes_back_counts_with_all_records_or_not_yet_wherever_that_is_cut() {
    let (mut machine, mut bytes) = filled(Plan::striped(2, 1, 2), 17);
    half_home(&mut machine, &mut bytes, [1, 20]);
    // What was on its way is home, and written anew, while one log device is away.
    machine.logs_gone = vec![1];
    half_home(&mut machine, &mut bytes, [21, 40]);
    machine.logs_gone = vec![];
    let opened = async |run: Run| run.open().await.map(drop);
    let (ended, events) = machine.fork(0).run(CutPlan { at_event: None, kind: CutKind::PowerCut }, opened);
    assert_eq!(ended.unwrap(), Ok(()));
    let (mut served, mut refused) = (0, 0);
    for at_event in 0..events {
        let mut cut = machine.fork(at_event);
        let plan = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
        let _cut_or_just_ended = cut.run(plan, opened);
        cut.power_cut();
        // The one that came back is all that is left, and a member is lost.
        let mut alone = cut.fork(at_event);
        (alone.logs_gone, alone.members_gone) = (vec![0], vec![at_event as usize % 3]);
        match alone.run_whole(async |run| run.open().await.map(drop)) {
            Ok(()) => {
                served += 1;
                alone.power_cut();
                assert!(alone.contents() == bytes, "cut at {at_event} of {events}");
            }
            Err(Error::Unusable(_)) => refused += 1,
            Err(error) => panic!("cut at {at_event} of {events}: {error}"),
        }
        assert!(cut.contents() == bytes, "cut at {at_event} of {events}, both there");
    }
    assert!(served > 0 && refused > 0, "it counts from some event on: {served} served, {refused} refused");
}

#[test]
fn a_change_that_is_given_up_midway_leaves_one_version_of_its_row() {
    let mut is_refused = false;
    for given_up_ns in (0..12).map(|step| step * 900_000) {
        // Every other page has contents: the others have no sums that would tell versions apart.
        let mut machine = Machine::new(Plan::striped(2, 1, 2), 23);
        let (even, late) = (noise(3, 64 * PAGE as usize), noise(4, PAGE as usize));
        let page = |number: u64| number as usize * PAGE as usize..(number as usize + 1) * PAGE as usize;
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            for number in (0..64).step_by(2) {
                volume.write(number * PAGE, &even[page(number)], Durability::Buffered).await.unwrap();
            }
            volume.close().await.unwrap();
        });
        machine.power_cut();
        let offset = machine.plan.testbed.layout(&machine.plan.create).page_offset(11);
        let is_kept = machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            let mut write = Box::pin(ring.write(offset, &late, Durability::Buffered));
            let mut over = Box::pin(run.env.sleep(given_up_ns));
            poll_fn(|context| {
                let is_over =
                    write.as_mut().poll(context).is_ready() || over.as_mut().poll(context).is_ready();
                if is_over { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            drop(write);
            // Whatever comes then ends, well or not.
            let kept = volume.write(20 * PAGE, &late, Durability::Durable).await;
            is_refused |= volume.checkpoint().await.is_err();
            kept.is_ok()
        });
        for lost in 0..3 {
            let mut without = machine.fork(lost as u64);
            without.power_cut();
            without.members_gone = vec![lost];
            let found = without.contents();
            for number in (0..64).step_by(2) {
                let is_late = number == 20 && is_kept;
                let expected = if is_late { &late[..] } else { &even[page(number)] };
                assert!(found[page(number)] == *expected, "page {number}, {given_up_ns} ns, without {lost}");
            }
        }
    }
    assert!(is_refused, "some are given up once they are logged");
}

/// Every page of the log of stripes begins a record as its sum says, of bytes that are others.
#[test]
fn a_log_of_stripes_that_is_full_of_heads_without_their_bytes_ends_an_opening_soon() {
    let mut plan = Plan::striped(2, 1, 2);
    let stripes = Stripes::new(2, 1, 1 << 18).unwrap();
    plan.ring.stripes = Some(stripes);
    let (mut machine, _) = filled(plan, 7);
    let zone = plan.testbed.stripe_log().unwrap();
    let pages = zone.len / PAGE;
    for page in 0..pages {
        let room = (pages - page - 1).min(3 * 64);
        let shards = (0..3).map(|number| (number, room.saturating_sub(number * 64).min(64) * PAGE));
        let range = |(number, len): (u64, u64)| ShardRange { number: number as usize, within: 0, len };
        let record = StripeRecord {
            volume: 7,
            sequence: page + 1,
            floor: 1,
            settled: Mark::default(),
            region_bytes: zone.len,
            offset: Some(page * PAGE),
            stripe: 0,
            ranges: shards.filter(|(_, len)| *len > 0).map(range).collect(),
            body_sum: 0,
            escaped: Vec::new(),
        };
        let head = record.encode(&vec![1; (room * PAGE) as usize]);
        for log in &machine.logs {
            overwrite(log, zone.offset + page * PAGE, |bytes| bytes.copy_from_slice(&head[..PAGE_LEN]), PAGE);
        }
    }
    machine.run_whole(async |run| {
        let Err(Error::Unusable(why)) = run.open().await else { panic!("it opens") };
        assert!(why.contains("cannot be read whole"), "{why}");
        for log in &run.logs {
            let read_bytes = log.counters().read_bytes;
            assert!(read_bytes < 20 * zone.len, "{read_bytes} of a log of {}", zone.len);
        }
    });
}

#[test]
fn seeds_that_broke_a_promise_once_keep_it() {
    for (seed, shape) in STRIPED_ONCE_BROKEN.into_iter().chain(STRIPED_BROKEN_SINCE) {
        let ended = run(draw_striped(seed, 2, shape)).map(drop);
        assert_eq!(ended, Ok(()), "seed {seed} of {shape:?}");
    }
}

/// `FIRST=N SEEDS=N` choose the seeds, `STORY=1 K=2 M=1` tells the story of the first.
#[test]
#[allow(clippy::print_stdout, reason = "the story of a seed is for whoever asks for it")]
fn within_the_redundancy_nothing_is_lost() {
    let number = |name, or| std::env::var(name).map_or(or, |value: String| value.parse().unwrap());
    let (first, seeds) = (number("FIRST", 0u64), number("SEEDS", 300u64));
    let told = (number("K", 4) as usize, number("M", 2) as usize);
    let shapes = if std::env::var("STORY").is_ok() { vec![told] } else { vec![(2, 1), (4, 2)] };
    let mut broken = Vec::new();
    for seed in first..first + seeds {
        for &shape in &shapes {
            let ended = std::panic::catch_unwind(|| run(draw_striped(seed, 2, shape)));
            match ended {
                Ok(Ok(_)) => {}
                Ok(Err(violation)) => broken.push(format!("{seed} {shape:?}: {violation:?}")),
                Err(_) => broken.push(format!("{seed} {shape:?}: panic")),
            }
        }
    }
    if std::env::var("STORY").is_ok() {
        let (story, _) = evenkeel_sim::seeds::tell(draw_striped(first, 2, told));
        story.iter().for_each(|line| println!("{line}"));
    }
    assert!(broken.is_empty(), "{} broken: {}", broken.len(), broken[..broken.len().min(30)].join("\n"));
}
