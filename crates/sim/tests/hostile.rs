//! Devices that someone prepared: every sum fits, and the numbers are such that no volume writes them.

mod machine;

use evenkeel_engine::device::{Device, Durability};
use evenkeel_engine::error::Error;
use evenkeel_engine::format::page_sum;
use evenkeel_engine::format::record::{Header, RecordBuilder, RecordKind, Tag};
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::options::CreateOptions;
use evenkeel_engine::volume::create;
use machine::{Machine, PAGE, Plan, WHOLE_LIFE};

/// What a volume serves of page 8 after an image of it, all 7, whose sum is `sum`, came into its log.
fn page_after_image(sum: u64) -> Result<Vec<u8>, Error> {
    let mut machine = Machine::new(Plan::of_pages(40), 1);
    machine.live_whole(async |life| {
        let mut page = vec![0; PAGE as usize];
        life.home.read(0, &mut page).await.unwrap();
        let superblock = Superblock::decode(&page).unwrap();
        let mut builder = RecordBuilder::default();
        builder.clear();
        builder.tag(&Tag::Page { page: 8, sum });
        builder.payload(PAGE as usize).fill(7);
        let header = Header {
            kind: RecordKind::Images,
            epoch: superblock.epoch,
            sequence: superblock.tail_sequence,
            acknowledged: 0,
            through: 0,
            tags: 0,
            payload_bytes: 0,
            len_bytes: 0,
        };
        let record = builder.seal(superblock.volume, header, 512);
        life.log.write(2 * PAGE + superblock.tail_offset, record, Durability::Durable).await.unwrap();
    });
    machine.live_whole(async |life| {
        let volume = life.open().await?;
        let mut found = vec![0; PAGE as usize];
        volume.read(8 * PAGE, &mut found).await.map(|()| found)
    })
}

#[test]
fn an_image_that_does_not_fit_its_sum_is_not_served() {
    let image = vec![7; PAGE as usize];
    let sum = page_sum(&image);
    assert_eq!(page_after_image(sum), Ok(image));
    assert_eq!(page_after_image(sum ^ 1), Err(Error::Damaged { page: 8 }));
    assert_eq!(page_after_image(0), Ok(vec![0; PAGE as usize]), "a page without contents");
}

/// Opens a volume whose superblocks were changed and summed anew.
fn open_with(change: impl Fn(&mut Superblock)) -> Result<(), Error> {
    let mut machine = Machine::new(Plan::of_pages(40), 1);
    machine.live_whole(async |life| {
        for drive in [&life.home, &life.log] {
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
    machine.live(WHOLE_LIFE, async |life| life.open().await.map(drop)).0.expect("it comes to an end")
}

#[test]
fn numbers_that_no_volume_writes_are_refused_and_break_nothing() {
    assert_eq!(open_with(|_| ()), Ok(()));
    let changes: [(&str, fn(&mut Superblock)); 7] = [
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
    let plan = Plan::of_pages(40);
    let changes: [(&str, fn(&mut CreateOptions)); 7] = [
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
        let made = machine.live_whole(async |life| create(&*life.home, &*life.log, true, options, 9).await);
        assert!(matches!(made, Err(Error::Unusable(_))), "{what}");
    }
}
