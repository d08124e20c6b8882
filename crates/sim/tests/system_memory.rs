//! What the system keeps of the home device in memory makes reads faster, and nothing else: it may be older than the
//! device, or wrong, and hides no damage.

#[path = "../benches/ram/mod.rs"]
mod ram;

use evenkeel_engine::device::{Durability, FlushScope};
use evenkeel_engine::error::Error;
use evenkeel_engine::options::{Journaling, OpenOptions};
use evenkeel_engine::volume::check;
use evenkeel_sim::random::Random;

use ram::{MIB, Noise, Opened, PAGE, Testbed};

const SIZE: u64 = 2 * MIB;

fn testbed(journaling: Journaling) -> Testbed {
    // So few pages in memory that most reads need the device.
    let open = OpenOptions { journaling, cached_pages_max: 16, ..OpenOptions::default() };
    Testbed::new(SIZE, 4 * MIB, open, 1 << 20)
}

/// Writes every page, takes it home, and lets the system have all of it in memory; what was written.
async fn written(opened: &Opened) -> Vec<u8> {
    let bytes = Noise::new(3).slice(SIZE as usize).to_vec();
    opened.volume.write(0, &bytes, Durability::Durable).await.unwrap();
    opened.volume.checkpoint().await.unwrap();
    let home = opened.home.bytes.borrow().clone();
    opened.home.cached.replace(Some(home));
    bytes
}

#[test]
fn what_the_system_has_in_memory_is_served_without_the_device() {
    testbed(Journaling::Wasteless).run(async |opened| {
        let bytes = written(&opened).await;
        let before = opened.volume.counters();
        for (offset, len) in [(0, 4096), (8192, 100), (5000, 70_000), (1 << 20, 1 << 20), (SIZE - 1, 1)] {
            let mut found = vec![0; len as usize];
            assert!(opened.volume.try_read(offset, &mut found), "nothing has to be waited for");
            opened.volume.read(offset, &mut found).await.unwrap();
            assert!(found == bytes[offset as usize..][..len as usize], "{len} bytes from {offset}");
        }
        let after = opened.volume.counters();
        assert!(after.cached_reads > before.cached_reads);
        assert_eq!(after.home_reads, before.home_reads);
    });
}

#[test]
fn the_system_gives_up_what_long_reads_brought_where_whoever_asks_keeps_it() {
    for system_keeps_long_reads in [true, false] {
        let mut testbed = testbed(Journaling::Wasteless);
        testbed.open.cached_pages_max = 256;
        testbed.open.tuning.system_keeps_long_reads = system_keeps_long_reads;
        testbed.run(async |opened| {
            let bytes = written(&opened).await;
            let stored = opened.home.bytes.borrow().clone();
            for at_once in [true, false] {
                if !at_once {
                    opened.home.cached.replace(None);
                }
                for (offset, len) in [(40_960, 8192_u64), (3 * PAGE, 16 * PAGE), (5000, 70_000)] {
                    let mut found = vec![0; len as usize];
                    opened.volume.read(offset, &mut found).await.unwrap();
                    assert!(found == bytes[offset as usize..][..len as usize], "{len} bytes from {offset}");
                    let given_up = opened.home.given_up.take();
                    if system_keeps_long_reads || len == 8192 {
                        assert_eq!(given_up, []);
                        continue;
                    }
                    let first_page = &bytes[(offset / PAGE * PAGE) as usize..][..PAGE as usize];
                    assert_eq!(given_up.len(), 1);
                    assert_eq!(&stored[given_up[0].offset as usize..][..PAGE as usize], first_page);
                    assert!(given_up[0].len >= len);
                }
            }
        });
    }
}

#[test]
fn a_read_is_right_whatever_the_system_has_in_memory() {
    for journaling in [Journaling::Wasteless, Journaling::Selective { threshold_bytes: 32 << 10 }] {
        testbed(journaling).run(async |opened| {
            let mut model = written(&opened).await;
            let (mut random, mut noise) = (Random::new(5), Noise::new(6));
            for step in 0..3000 {
                let is_long = random.below(8) == 0;
                let len = 1 + random.below(if is_long { 100 << 10 } else { 9000 });
                let offset = random.below(SIZE - len);
                match random.below(12) {
                    0..5 => {
                        let bytes = noise.slice(len as usize);
                        opened.volume.write(offset, bytes, Durability::Buffered).await.unwrap();
                        model[offset as usize..][..len as usize].copy_from_slice(bytes);
                    }
                    5 => opened.volume.flush(FlushScope::Whole).await.unwrap(),
                    // What is there stays while the device goes on: from here on it is old.
                    6 => {
                        let now = opened.home.bytes.borrow().clone();
                        opened.home.cached.replace(Some(now));
                    }
                    7 => {
                        let mut cached = opened.home.cached.borrow_mut();
                        let bytes = cached.as_mut().expect("it was put there");
                        let wrong = random.index(bytes.len());
                        bytes[wrong] ^= 1;
                    }
                    _ => {
                        let mut found = vec![0; len as usize];
                        opened.volume.read(offset, &mut found).await.unwrap();
                        assert!(found == model[offset as usize..][..len as usize], "step {step}");
                    }
                }
            }
            let counters = opened.volume.counters();
            assert!(counters.home_reads > 0 && counters.cached_reads > 0, "both ways were gone");
        });
    }
}

#[test]
fn right_bytes_in_memory_hide_no_damage_from_a_check_and_wrong_ones_are_no_damage() {
    testbed(Journaling::Wasteless).run(async |opened| {
        let bytes = written(&opened).await;
        let place = {
            let home = opened.home.bytes.borrow();
            let page = &bytes[100 * PAGE as usize..][..PAGE as usize];
            home.windows(PAGE as usize).step_by(512).position(|found| found == page).expect("it is home")
                * 512
        };
        let mut found = vec![0; PAGE as usize];
        opened.home.bytes.borrow_mut()[place] ^= 1;
        opened.volume.read(100 * PAGE, &mut found).await.unwrap();
        assert!(found == bytes[100 * PAGE as usize..][..PAGE as usize], "memory has it right");
        assert_eq!(check(&opened.volume).await.unwrap().damaged_pages, [100]);

        // Others need the room of what was just read.
        opened.volume.read(0, &mut vec![0; 8 * PAGE as usize]).await.unwrap();
        opened.volume.read(8 * PAGE, &mut vec![0; 8 * PAGE as usize]).await.unwrap();
        opened.home.cached.borrow_mut().as_mut().expect("it was put there")[place] ^= 1;
        let failed = opened.volume.read(100 * PAGE, &mut found).await;
        assert_eq!(failed, Err(Error::Damaged { page: 100 }));

        opened.home.bytes.borrow_mut()[place] ^= 1;
        opened.volume.read(100 * PAGE, &mut found).await.unwrap();
        assert!(found == bytes[100 * PAGE as usize..][..PAGE as usize], "the device has it right");
        assert!(check(&opened.volume).await.unwrap().is_clean());
    });
}

#[test]
fn pages_in_memory_stay_within_their_number_whatever_they_are_there_for() {
    let open = OpenOptions::default().with_pages_max(1024);
    let testbed = Testbed::new(16 * MIB, 16 * MIB, open, 4 << 20);
    testbed.run(async |opened| {
        let mut noise = Noise::new(1);
        for _ in 0..20_000 {
            let offset = noise.random.below(16 * MIB / PAGE) * PAGE;
            let len = 1 + noise.random.below(PAGE) as usize;
            let bytes = noise.slice(len);
            opened.volume.write(offset, bytes, Durability::Buffered).await.unwrap();
            opened.volume.read(offset, &mut vec![0; len]).await.unwrap();
        }
        opened.volume.flush(FlushScope::Whole).await.unwrap();
        let occupancy = opened.volume.occupancy();
        assert!(opened.volume.counters().checkpoints > 3, "pages were on their way home, too");
        assert_eq!(occupancy.pages_max_bytes, 1024 * PAGE);
        assert!(occupancy.pages_bytes <= occupancy.pages_peak_bytes);
        assert!(occupancy.pages_peak_bytes <= occupancy.pages_max_bytes, "{occupancy:?}");
        assert!(occupancy.pages_peak_bytes > occupancy.pages_max_bytes / 2, "{occupancy:?}");
    });
}
