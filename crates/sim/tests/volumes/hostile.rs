//! Devices that someone prepared: every sum fits, and the numbers are such that no volume writes them.

use crate::machine::{Machine, PAGE, Plan, Run, SimVolume, WHOLE_RUN};
use evenkeel_engine::device::{Device, Durability};
use evenkeel_engine::error::Error;
use evenkeel_engine::format::page_sum;
use evenkeel_engine::format::record::{Header, RecordBuilder, RecordKind, Tag};
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::options::{CreateOptions, Journaling};
use evenkeel_engine::volume::create;
use evenkeel_sim::cuts::{CutKind, CutPlan};

const PAGES: u64 = 40;

/// What is changed, in words and in fact.
type Change<T> = (&'static str, fn(&mut T));

/// Puts the first `len` bytes of a record into the log of a closed volume: at its tail where its number is the next, else
/// at the end of the log.
async fn put_record(run: &Run, kind: RecordKind, tag: Tag, payload: &[u8], number: u64, len: usize) {
    let mut page = vec![0; PAGE as usize];
    run.home.read(0, &mut page).await.unwrap();
    let superblock = Superblock::decode(&page).unwrap();
    let mut builder = RecordBuilder::default();
    builder.clear();
    builder.tag(&tag);
    builder.payload(payload.len()).copy_from_slice(payload);
    let header = Header {
        kind,
        epoch: superblock.epoch,
        sequence: superblock.tail_sequence + number,
        acknowledged: 0,
        through: 0,
        tags: 0,
        payload_bytes: 0,
        len_bytes: 0,
    };
    let record = builder.seal(superblock.volume, header, 512);
    let part = &record[..len.min(record.len())];
    let place = match number {
        0 => superblock.tail_offset,
        _ => superblock.log_bytes - part.len() as u64,
    };
    run.log.write(2 * PAGE + place, part, Durability::Durable).await.unwrap();
}

/// What a volume serves of page 8 after [`put_record`].
fn page_after_part(
    kind: RecordKind,
    tag: Tag,
    payload: &[u8],
    number: u64,
    len: usize,
) -> Result<Vec<u8>, Error> {
    let mut machine = Machine::new(Plan::of_pages(PAGES), 1);
    machine.run_whole(async |run| put_record(&run, kind, tag, payload, number, len).await);
    machine.run_whole(async |run| {
        let volume = run.open().await?;
        let mut found = vec![0; PAGE as usize];
        volume.read(8 * PAGE, &mut found).await.map(|()| found)
    })
}

/// As [`page_after_part`], of a whole record at the tail.
fn page_after(kind: RecordKind, tag: Tag, payload: &[u8]) -> Result<Vec<u8>, Error> {
    page_after_part(kind, tag, payload, 0, usize::MAX)
}

#[test]
fn a_record_that_says_it_is_longer_than_the_log_is_none() {
    let zeros = vec![0; PAGE as usize];
    let tag = Tag::Page { page: 8, sum: 5 };
    let log_bytes = Plan::of_pages(PAGES).create.log_bytes as usize;
    for payload_bytes in [2 * PAGE as usize, log_bytes - 512, log_bytes, 2 * log_bytes] {
        for number in [0, 3] {
            let found = page_after_part(RecordKind::Images, tag, &vec![7; payload_bytes], number, 512);
            assert_eq!(found.as_ref(), Ok(&zeros), "{payload_bytes} bytes, {number} behind the tail");
        }
    }
}

#[test]
fn an_image_that_does_not_fit_its_sum_is_not_served() {
    let image = vec![7; PAGE as usize];
    let with_sum = |sum| page_after(RecordKind::Images, Tag::Page { page: 8, sum }, &image);
    assert_eq!(with_sum(page_sum(&image)), Ok(image.clone()));
    assert_eq!(with_sum(page_sum(&image) ^ 1), Err(Error::Damaged { page: 8 }));
    assert_eq!(with_sum(0), Ok(vec![0; PAGE as usize]), "a page without contents");
}

#[test]
fn a_log_that_speaks_of_pages_that_are_not_there_is_refused() {
    let last = PAGES - 1;
    let taken = [
        (RecordKind::Commit, Tag::Zero { page: last, offset: 0, len: 1 }),
        (RecordKind::Commit, Tag::Discard { page: last - 1, count: 2 }),
        (RecordKind::Intent, Tag::Page { page: last, sum: 5 }),
    ];
    for (kind, tag) in taken {
        assert!(page_after(kind, tag, &[]).is_ok(), "{tag:?}");
    }
    let refused = [
        (RecordKind::Commit, Tag::Zero { page: PAGES, offset: 0, len: 1 }),
        (RecordKind::Commit, Tag::Zero { page: u64::MAX, offset: 0, len: 1 }),
        (RecordKind::Commit, Tag::Discard { page: last, count: 2 }),
        (RecordKind::Commit, Tag::Discard { page: 0, count: u32::MAX }),
        (RecordKind::Commit, Tag::Discard { page: u64::MAX, count: u32::MAX }),
        (RecordKind::Intent, Tag::Page { page: PAGES, sum: 5 }),
        (RecordKind::Sums, Tag::Page { page: PAGES, sum: 5 }),
        (RecordKind::Sums, Tag::TablePage { page: 1, sum: 5 }),
    ];
    for (kind, tag) in refused {
        assert!(matches!(page_after(kind, tag, &[]), Err(Error::Unusable(_))), "{tag:?}");
    }
}

#[test]
fn a_log_that_changes_more_pages_than_its_checkpoints_could_name_is_refused_before_they_fill_memory() {
    const PAGES: u64 = 64 << 10;
    let mut machine = Machine::new(Plan::of_pages(PAGES), 1);
    let all = Tag::Discard { page: 0, count: PAGES as u32 };
    machine.run_whole(async |run| put_record(&run, RecordKind::Commit, all, &[], 0, usize::MAX).await);
    let opened = machine.run_whole(async |run| run.open().await.map(drop));
    assert!(matches!(&opened, Err(Error::Unusable(why)) if why.contains("more pages")), "{opened:?}");
}

#[test]
fn what_a_device_held_before_is_nothing_to_a_new_volume() {
    for plan in Plan::every_kind(PAGES) {
        let mut machine = Machine::new(plan, 1);
        let layout = plan.layout();
        machine.run_whole(async |run| {
            for zone in [layout.segments[0].table, layout.segments[0].data] {
                let old = vec![0xA5; zone.len as usize];
                run.home.write(zone.offset, &old, Durability::Durable).await.unwrap();
            }
        });
        let mut expected = vec![0; (PAGES * PAGE) as usize];
        assert!(machine.fork(1).contents() == expected, "{plan:?}");
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            volume.write(8 * PAGE + 10, &[1; 100], Durability::Durable).await.unwrap();
        });
        expected[8 * PAGE as usize + 10..][..100].fill(1);
        // Twice: the first opening takes it home.
        for _ in 0..2 {
            machine.power_cut();
            assert!(machine.contents() == expected, "{plan:?}");
        }
    }
}

#[test]
fn a_large_write_to_new_pages_that_a_cut_met_uncovers_nothing_that_a_device_held_before() {
    for journaling in [Journaling::Selective { threshold_bytes: 16384 }, Journaling::Ordered] {
        let mut plan = Plan::of_pages(PAGES);
        plan.open.journaling = journaling;
        let mut machine = Machine::new(plan, 1);
        let data = plan.layout().segments[0].data;
        machine.run_whole(async |run| {
            let old = vec![0xA5; data.len as usize];
            run.home.write(data.offset, &old, Durability::Durable).await.unwrap();
        });
        let new = vec![0x77; 6 * PAGE as usize];
        let story = async |run: Run| {
            let volume = run.open().await.unwrap();
            volume.write(4 * PAGE, &new, Durability::Durable).await.unwrap();
        };
        let (ended, events) = machine.fork(1).run(WHOLE_RUN, story);
        ended.unwrap();
        let (mut empty, mut full) = (0, 0);
        for at in 0..events {
            let mut ended = machine.fork(1);
            let cut = CutPlan { at_event: Some(at), kind: CutKind::PowerCut };
            assert!(ended.run(cut, story).0.is_err());
            for chance in 0..4 {
                let mut machine = ended.fork(chance);
                machine.power_cut();
                for page in machine.contents().chunks(PAGE as usize) {
                    match page[0] {
                        0 => empty += 1,
                        _ => full += 1,
                    }
                    let is_whole = page.iter().all(|&byte| byte == page[0]) && page[0] != 0xA5;
                    assert!(is_whole, "event {at} of {events}, chance {chance}, {journaling:?}");
                }
            }
        }
        assert!(empty > 0 && full > 0, "{empty} and {full}");
    }
}

/// Opens a volume whose superblocks were changed and summed anew.
fn open_with(change: impl Fn(&mut Superblock)) -> Result<(), Error> {
    let mut machine = Machine::new(Plan::of_pages(PAGES), 1);
    machine.run_whole(async |run| {
        for drive in [&run.home, &run.log] {
            for offset in (0..drive.geometry().size_bytes).step_by(PAGE as usize) {
                let mut page = vec![0; PAGE as usize];
                drive.read(offset, &mut page).await.unwrap();
                if let Some(mut superblock) = Superblock::decode(&page) {
                    change(&mut superblock);
                    drive.write(offset, &superblock.encode(), Durability::Durable).await.unwrap();
                }
            }
        }
    });
    machine.run(WHOLE_RUN, async |run| run.open().await.map(drop)).0.expect("it comes to an end")
}

#[test]
fn numbers_that_no_volume_writes_are_refused_and_break_nothing() {
    assert_eq!(open_with(|_| ()), Ok(()));
    let changes: [Change<Superblock>; 7] = [
        ("a generation that cannot be followed", |it| it.generation = u64::MAX),
        ("a log as large as numbers go", |it| it.log_bytes = u64::MAX / 4096 * 4096),
        ("a home as large as numbers go", |it| it.home_bytes = u64::MAX),
        ("as many pages as numbers go", |it| it.pages = u64::MAX),
        ("atomic writes of half a page", |it| it.atomic_max_bytes = 2048),
        ("atomic writes that the log cannot take", |it| it.atomic_max_bytes = it.log_bytes),
        ("a log in which no checkpoint fits", |it| it.log_bytes = 16384),
    ];
    for (what, change) in changes {
        assert!(matches!(open_with(change), Err(Error::Unusable(_))), "{what}");
    }
}

#[test]
fn a_volume_that_could_not_work_is_not_made() {
    let plan = Plan::of_pages(PAGES);
    let changes: [Change<CreateOptions>; 7] = [
        ("no page", |it| it.size_bytes = 0),
        ("half a page", |it| it.size_bytes += 2048),
        ("more pages than fit", |it| it.size_bytes += PAGE),
        ("as many pages as numbers go", |it| it.size_bytes = u64::MAX / PAGE * PAGE),
        ("atomic writes smaller than a page", |it| it.atomic_max_bytes = 2048),
        ("atomic writes that the log cannot take", |it| it.atomic_max_bytes = it.log_bytes),
        ("a log in which no checkpoint fits", |it| it.log_bytes = 16384),
    ];
    for (what, change) in changes {
        let mut machine = Machine::new(plan, 1);
        let mut options = plan.create;
        change(&mut options);
        let made = machine.run_whole(async |run| create(&*run.home, &*run.log, true, options, 9).await);
        assert!(matches!(made, Err(Error::Unusable(_))), "{what}");
    }
}

/// Two machines; `first` was killed after `story`, and `second`, which was opened as often, is given its arena.
fn with_arena_of(mut first: Machine, mut second: Machine, story: impl AsyncFnOnce(&SimVolume)) -> Machine {
    first.run_whole(async |run| story(&run.open().await.unwrap()).await);
    first.kill();
    second.run_whole(async |run| run.open().await.map(drop)).unwrap();
    second.power_cut();
    second.arena = first.arena.clone();
    second
}

#[test]
fn an_arena_with_writes_beyond_the_end_of_the_volume_brings_those_before_them() {
    let (large, small) = (Machine::new(Plan::of_pages(80), 1), Machine::new(Plan::of_pages(PAGES), 1));
    let mut machine = with_arena_of(large, small, async |volume| {
        volume.write(3 * PAGE, &[3; 100], Durability::Buffered).await.unwrap();
        volume.write(60 * PAGE, &[6; 100], Durability::Buffered).await.unwrap();
        volume.write(4 * PAGE, &[4; 100], Durability::Buffered).await.unwrap();
    });
    let mut expected = vec![0; (PAGES * PAGE) as usize];
    expected[3 * PAGE as usize..][..100].fill(3);
    for _ in 0..2 {
        machine.run_whole(async |run| run.open().await.unwrap().close().await.unwrap());
        machine.power_cut();
        assert!(machine.contents() == expected);
    }
}

#[test]
fn an_arena_with_a_write_that_the_log_could_never_take_is_refused() {
    let plan = Plan { arena_bytes: 4 << 20, ..Plan::of_pages(200) };
    let create = CreateOptions { log_bytes: 8 << 20, atomic_max_bytes: 512 << 10, ..plan.create };
    let (large, small) = (Machine::new(Plan { create, ..plan }, 1), Machine::new(plan, 1));
    let mut machine = with_arena_of(large, small, async |volume| {
        volume.write(0, &vec![7; 400 << 10], Durability::Buffered).await.unwrap();
    });
    let opened = machine.run_whole(async |run| run.open().await.map(drop));
    assert!(matches!(opened, Err(Error::Unusable(_))), "{opened:?}");
}

#[test]
fn an_arena_of_another_volume_or_of_a_later_opening_is_refused_and_said_to_be_which() {
    let write = async |volume: &SimVolume| {
        volume.write(3 * PAGE, &[3; 100], Durability::Buffered).await.unwrap();
    };
    let plan = Plan::of_pages(PAGES);
    let mut machine = with_arena_of(Machine::new(plan, 1), Machine::new(plan, 3), write);
    let opened = machine.run_whole(async |run| run.open().await.map(drop));
    assert_eq!(opened, Err(Error::ForeignWrites { writes: 1, is_later: false }));

    let mut later = Machine::new(plan, 1);
    later.run_whole(async |run| run.open().await.map(drop)).unwrap();
    later.power_cut();
    later.run_whole(async |run| run.open().await.map(drop)).unwrap();
    later.power_cut();
    let mut machine = with_arena_of(later, Machine::new(plan, 1), write);
    let opened = machine.run_whole(async |run| run.open().await.map(drop));
    assert_eq!(opened, Err(Error::ForeignWrites { writes: 1, is_later: true }));
}
