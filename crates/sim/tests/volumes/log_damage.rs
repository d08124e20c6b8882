//! Damage to the log: below the newest acknowledged record it is reported, at the end it is where the log ends.

use std::ops::Range;

use crate::machine::{Machine, PAGE, Plan};
use evenkeel_engine::device::{Device, Durability, Extent};
use evenkeel_engine::error::Error;
use evenkeel_engine::format::record::decode_header;
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_sim::faults::Faults;
use evenkeel_sim::random::Random;

const PAGES: u64 = 40;

/// What is written one after the other, each of it at the start of four pages of its own.
fn written(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(number).fill(&mut bytes);
    bytes
}

/// Durable writes, each a record of its own, none of them home.
fn write_one_by_one(machine: &mut Machine, lens: &[usize]) {
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let before = volume.counters();
        for (number, &len) in (1..).zip(lens) {
            volume.write(number * 4 * PAGE, &written(number, len), Durability::Durable).await.unwrap();
        }
        let after = volume.counters();
        assert_eq!(after.commits - before.commits, lens.len() as u64, "one record each");
        assert_eq!(after.checkpoints, before.checkpoints, "and all of them in the log alone");
    });
    machine.power_cut();
}

/// Takes everything home until the next record would begin in the last `bytes` of the log.
fn move_tail_to_the_last(machine: &mut Machine, bytes: u64) {
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        for number in 0.. {
            let mut page = vec![0; PAGE as usize];
            let mut newest: Option<Superblock> = None;
            for offset in [0, PAGE] {
                run.log.read(offset, &mut page).await.unwrap();
                newest = newest.into_iter().chain(Superblock::decode(&page)).max_by_key(|it| it.generation);
            }
            let newest = newest.expect("an open volume has one");
            if newest.tail_offset + bytes >= newest.log_bytes {
                return;
            }
            volume.write(0, &written(number, 1), Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap();
        }
    });
    machine.power_cut();
}

/// Where the records of the last opening lie on the log device, in their sequence.
fn places(machine: &mut Machine, count: usize) -> Vec<Range<u64>> {
    let sector = u64::from(machine.plan.sector_bytes);
    machine.run_whole(async |run| {
        let mut bytes = vec![0; run.log.geometry().size_bytes as usize];
        run.log.read(0, &mut bytes).await.unwrap();
        let mut found = Vec::new();
        for start in (2 * PAGE..bytes.len() as u64).step_by(sector as usize) {
            if let Some(header) = decode_header(&bytes[start as usize..], sector as usize) {
                found.push((header.epoch, header.sequence, start..start + u64::from(header.len_bytes)));
            }
        }
        found.sort_by_key(|&(epoch, sequence, _)| (epoch, sequence));
        found.split_off(found.len() - count).into_iter().map(|(_, _, place)| place).collect()
    })
}

/// Opens it, and reads what each of the writes left.
fn read_back(machine: &mut Machine, lens: &[usize]) -> Result<Vec<Vec<u8>>, Error> {
    machine.run_whole(async |run| {
        let volume = run.open().await?;
        let mut found = Vec::new();
        for (number, &len) in (1..).zip(lens) {
            let mut bytes = vec![0; len];
            volume.read(number * 4 * PAGE, &mut bytes).await?;
            found.push(bytes);
        }
        Ok(found)
    })
}

type Harm = fn(&mut Machine, &Range<u64>);

/// Each way in which a record may be damaged.
const HARMS: [(&str, Harm); 4] = [
    ("its header rots", |machine, at| {
        machine.log.borrow_mut().rot(at.start, 64, &mut Random::new(1));
    }),
    ("its last bytes rot", |machine, at| {
        machine.log.borrow_mut().rot(at.end - 200, 100, &mut Random::new(1));
    }),
    ("its first sector cannot be read", |machine, at| {
        let sector = u64::from(machine.plan.sector_bytes);
        machine.log.borrow_mut().make_unreadable(Extent::new(at.start, sector));
    }),
    ("its last sector cannot be read", |machine, at| {
        let sector = u64::from(machine.plan.sector_bytes);
        machine.log.borrow_mut().make_unreadable(Extent::new(at.end - sector, sector));
    }),
];

/// Damages each record in each way, and opens.
fn assert_damage_is_told_from_the_end(machine: &mut Machine, lens: &[usize]) {
    let whole: Vec<Vec<u8>> = (1..).zip(lens).map(|(number, &len)| written(number, len)).collect();
    let places = places(machine, lens.len());
    assert_eq!(read_back(&mut machine.fork(1), lens).as_ref(), Ok(&whole));
    for (number, place) in places.iter().enumerate() {
        for (how, harm) in HARMS {
            let mut machine = machine.fork(1);
            harm(&mut machine, place);
            let found = read_back(&mut machine, lens);
            if number + 1 < lens.len() {
                // The next record says that this one was acknowledged.
                let is_reported = matches!(&found, Err(Error::Unusable(why)) if why.contains("acknowledged"));
                assert!(is_reported, "record {number}: {how}: {found:?}");
            } else {
                // Nothing says so of the last: nobody can tell it from one that the cut met.
                let found = found.unwrap_or_else(|error| panic!("the last record: {how}: {error}"));
                assert!(found[..number] == whole[..number], "{how}");
                assert!(found[number] != whole[number], "{how}");
            }
        }
    }
}

#[test]
fn a_damaged_record_below_an_acknowledged_one_is_reported_and_a_damaged_last_one_is_the_end() {
    let lens = [700, 100, 3000, 1, 9000, 400, 5000];
    for sector_bytes in [512, 4096] {
        let plan = Plan { sector_bytes, ..Plan::of_pages(PAGES) };
        let mut machine = Machine::new(plan, 1);
        write_one_by_one(&mut machine, &lens);
        assert_damage_is_told_from_the_end(&mut machine, &lens);
    }
}

#[test]
fn a_damaged_record_is_reported_across_the_end_of_the_log() {
    let lens = [2000, 3000, 1500, 9000, 400, 2500, 700];
    // What is left before the end takes one record, or a few, or is too short for any.
    let mut wrapped = 0;
    for bytes in (1500..9000).step_by(512) {
        let mut machine = Machine::new(Plan::of_pages(PAGES), 1);
        move_tail_to_the_last(&mut machine, bytes);
        write_one_by_one(&mut machine, &lens);
        let places = places(&mut machine, lens.len());
        wrapped += usize::from(places.windows(2).any(|pair| pair[1].start < pair[0].start));
        assert_damage_is_told_from_the_end(&mut machine, &lens);
    }
    assert!(wrapped >= 10, "{wrapped}");
}

#[test]
fn two_damaged_records_in_a_row_are_reported_by_the_third() {
    let lens = [700, 100, 3000, 1, 9000];
    let mut machine = Machine::new(Plan::of_pages(PAGES), 1);
    write_one_by_one(&mut machine, &lens);
    let places = places(&mut machine, lens.len());
    for (_, harm) in HARMS {
        let mut machine = machine.fork(1);
        harm(&mut machine, &places[2]);
        harm(&mut machine, &places[3]);
        assert!(matches!(read_back(&mut machine, &lens), Err(Error::Unusable(_))));
    }
}

#[test]
fn a_log_larger_than_what_is_read_at_once_is_read_to_its_end() {
    let mut plan = Plan::of_pages(PAGES);
    plan.create.log_bytes = 16 << 20;
    plan.arena_bytes = 1 << 20;
    plan.create.atomic_max_bytes = 128 << 10;
    // Records of about 100 KB, so that some lie across each end of what is read at once.
    let lens: Vec<usize> = (0..30).map(|number| 90_000 + number * 517).collect();
    let mut machine = Machine::new(plan, 1);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        for (number, &len) in (1..).zip(&lens) {
            volume.write(number * 100, &written(number, len), Durability::Durable).await.unwrap();
        }
    });
    machine.power_cut();
    let mut expected = vec![0; (PAGES * PAGE) as usize];
    for (number, &len) in (1..).zip(&lens[..29]) {
        expected[number as usize * 100..][..len].copy_from_slice(&written(number, len));
    }
    // A sector of the last record that cannot be read hides none of those before it.
    let place = places(&mut machine, 1).remove(0);
    assert!(place.start > 2 << 20, "{place:?}");
    machine.log.borrow_mut().make_unreadable(Extent::new(place.start + 512, 512));
    assert!(machine.contents() == expected);
}

#[test]
fn what_fails_for_a_moment_while_a_volume_is_opened_takes_nothing_that_was_acknowledged() {
    // Of one record nothing else says that it was acknowledged.
    for (lens, separate_log) in [(&[700][..], true), (&[700], false), (&[700, 100, 3000, 9000], true)] {
        let whole: Vec<Vec<u8>> = (1..).zip(lens).map(|(number, &len)| written(number, len)).collect();
        let mut machine = Machine::new(Plan::of_pages(PAGES).with_separate_log(separate_log), 1);
        write_one_by_one(&mut machine, lens);
        let (mut opened, mut refused) = (0, 0);
        for first in 0..40 {
            for count in [1, 2, 3, 4, 6] {
                let mut machine = machine.fork(first);
                let found = machine.run_whole(async |run| {
                    let first = run.log.counters().operations + first;
                    run.log
                        .set_faults(Faults { failing_operations: first..first + count, ..Faults::default() });
                    run.open().await.map(drop)
                });
                match found {
                    Ok(()) => opened += 1,
                    Err(_) => refused += 1,
                }
                machine.power_cut();
                let found = read_back(&mut machine, lens);
                assert!(found.as_ref() == Ok(&whole), "{count} operations from {first} on");
            }
        }
        assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused");
    }
}
