//! Stories of stripes with a sector that cannot be read, while too few members are there to compute what it held.

use std::iter::from_fn;

use evenkeel_engine::device::{Durability, Extent};
use evenkeel_engine::events::Event;
use evenkeel_sim::random::Random;
use evenkeel_sim::testbed::Testbed;

use crate::machine::mirror::{Machine, Plan, filled, noise, whole};
use crate::machine::{PAGE, patch};

/// A page that cannot be read, and those that are stored in one row with it.
struct Row {
    lost: u64,
    /// The member that has it, and where.
    place: usize,
    at: Extent,
    beside: Vec<u64>,
}

/// A volume with a log that can carry some pages.
fn with_room(data: usize, parity: usize) -> Plan {
    let mut plan = Plan::striped(data, parity, 2);
    plan.create.log_bytes = 4 << 20;
    plan.testbed = plan.testbed.with_journal_of(&plan.create);
    plan
}

/// The row of this page.
fn row_of(machine: &Machine, lost: u64) -> Row {
    let stripes = machine.plan.ring.stripes.unwrap();
    let layout = machine.plan.testbed.layout(&machine.plan.create);
    let piece_of = |page: u64| {
        let mut pieces = stripes.pieces(Extent::new(layout.page_offset(page), PAGE));
        pieces.next().expect("a page is in a stripe")
    };
    let piece = piece_of(lost);
    let pages = machine.plan.create.size_bytes / PAGE;
    let is_beside = |&page: &u64| page != lost && piece_of(page).on_member == piece.on_member;
    Row {
        lost,
        place: piece.place,
        at: Extent::new(machine.plan.data_offset() + piece.on_member.offset, PAGE),
        beside: (0..pages).filter(is_beside).collect(),
    }
}

/// Writes these pages, durably, takes home what can be, and looks at all of the volume, of which one page cannot be read.
fn write_beside(machine: &mut Machine, bytes: &mut [u8], row: &Row, seed: u64, closes: bool) {
    let new = noise(seed, PAGE as usize);
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.expect("one sector keeps no volume shut");
        for &page in &row.beside {
            volume.write(page * PAGE, &new, Durability::Durable).await.unwrap();
        }
        volume.checkpoint().await.expect("what cannot go home stays in the log");
        volume.checkpoint().await.unwrap();
        let told = from_fn(|| volume.events().take());
        assert_eq!(told.filter(|event| matches!(event, Event::PagesStay { .. })).count(), 1);
        row.beside.iter().for_each(|page| patch(bytes, page * PAGE, &new));
        for page in 0..bytes.len() as u64 / PAGE {
            let mut found = vec![0; PAGE as usize];
            let read = volume.read(page * PAGE, &mut found).await;
            assert_eq!(read.is_err(), page == row.lost, "page {page}");
            assert!(
                read.is_err() || found == bytes[(page * PAGE) as usize..][..PAGE as usize],
                "page {page}"
            );
        }
        if closes {
            volume.close().await.unwrap();
        }
    });
    machine.power_cut();
}

#[test]
fn what_is_written_beside_a_lost_sector_waits_in_the_log_until_a_member_comes_back() {
    for (data, parity) in [(2, 1), (4, 2)] {
        let members = data + parity;
        let (machine, bytes) = filled(with_room(data, parity), 17);
        let row = row_of(&machine, 9);
        assert_eq!(row.beside.len(), data - 1);
        for first in 0..members {
            let gone: Vec<usize> = (first..first + parity).map(|place| place % members).collect();
            if gone.contains(&row.place) {
                continue;
            }
            let (mut machine, mut bytes) = (machine.fork(first as u64), bytes.clone());
            machine.members_gone = gone.clone();
            machine.members[row.place].borrow_mut().make_unreadable(row.at);
            for closes in [false, true] {
                write_beside(&mut machine, &mut bytes, &row, 1 + u64::from(closes), closes);
            }
            // With them the sector is computed again, and then everything can go home.
            machine.members_gone = vec![];
            machine.run_whole(async |run| {
                let (volume, ring, _) = run.open().await.unwrap();
                whole(&ring, &run.env).await;
                let mut found = vec![0; PAGE as usize];
                volume.read(row.lost * PAGE, &mut found).await.expect("nothing was lost");
                volume.checkpoint().await.unwrap();
                volume.close().await.unwrap();
            });
            for first in 0..members {
                let mut machine = machine.fork(first as u64);
                machine.members_gone = (first..first + parity).map(|place| place % members).collect();
                assert!(
                    machine.contents() == bytes,
                    "{data}+{parity} {gone:?}, then without {first} and more"
                );
            }
        }
    }
}

#[test]
fn a_lost_sector_that_is_overwritten_lets_what_waits_beside_it_go_home() {
    let (mut machine, mut bytes) = filled(with_room(2, 1), 19);
    let row = row_of(&machine, 9);
    machine.members_gone = vec![(row.place + 1) % 3];
    machine.members[row.place].borrow_mut().make_unreadable(row.at);
    write_beside(&mut machine, &mut bytes, &row, 3, true);
    let new = noise(5, PAGE as usize);
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        volume.write(row.lost * PAGE, &new, Durability::Durable).await.unwrap();
        volume.close().await.unwrap();
    });
    patch(&mut bytes, row.lost * PAGE, &new);
    machine.power_cut();
    machine.logs_gone = vec![0];
    assert!(machine.contents() == bytes);
}

#[test]
fn what_is_written_beside_a_page_that_nobody_has_right_is_protected() {
    let (mut machine, mut bytes) = filled(with_room(2, 1), 29);
    let stripes = machine.plan.ring.stripes.unwrap();
    let layout = machine.plan.testbed.layout(&machine.plan.create);
    let piece_of = |page: u64| {
        let mut pieces = stripes.pieces(Extent::new(layout.page_offset(page), PAGE));
        pieces.next().expect("a page is in a stripe")
    };
    let (mut written, mut rotten) = (vec![], vec![]);
    for page in (0..64).filter(|&page| piece_of(page).shard.number == 0) {
        let piece = piece_of(page);
        let stripe = piece.shard.stripe;
        written.push((page, piece.place));
        rotten.extend((0..64).find(|&other| other != page && piece_of(other).on_member == piece.on_member));
        for place in (0..3).filter(|&place| place != piece.place) {
            debug_assert!(stripes.shard_on(stripe, place).number > 0);
            let at = machine.plan.data_offset() + piece.on_member.offset;
            machine.members[place].borrow_mut().rot(at, PAGE, &mut Random::new(at + place as u64));
        }
    }
    let new = noise(31, PAGE as usize);
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        for &(page, _) in &written {
            volume.write(page * PAGE, &new, Durability::Buffered).await.unwrap();
            patch(&mut bytes, page * PAGE, &new);
        }
        volume.close().await.unwrap();
    });
    machine.power_cut();
    for lost in 0..3 {
        let mut machine = machine.fork(lost as u64);
        machine.members_gone = vec![lost];
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            for page in 0..64 {
                let mut found = vec![0; PAGE as usize];
                let read = volume.read(page * PAGE, &mut found).await;
                assert!(read.is_ok() || rotten.contains(&page), "page {page} without {lost}: {read:?}");
                assert!(read.is_err() || found == bytes[(page * PAGE) as usize..][..PAGE as usize]);
            }
        });
    }
}
