//! What the engine notes of what happens: once each, and in its order.

use std::rc::Rc;

use crate::machine::{self, PAGE, Plan, filled, noise};
use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::events::{Event, Events};
use evenkeel_engine::volume::Volume;
use evenkeel_sim::arena::{ArenaBytes, SimArena};
use evenkeel_sim::cuts::Cuts;
use evenkeel_sim::drive::{DriveOptions, SimDrive};
use evenkeel_sim::executor::Executor;
use evenkeel_sim::faults::Faults;
use evenkeel_sim::image::Image;
use evenkeel_sim::latency::Latency;
use evenkeel_sim::random::Random;

const PAGES: u64 = 40;

fn all(events: &Rc<Events>) -> Vec<Event> {
    std::iter::from_fn(|| events.take()).collect()
}

#[test]
fn a_volume_that_turns_read_only_says_so_once_and_with_its_first_cause() {
    for separate_log in [true, false] {
        let (mut machine, _) = filled(Plan::of_pages(PAGES).with_separate_log(separate_log), 3);
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            assert_eq!(all(&volume.events()), []);
            run.log.set_faults(Faults { full_writes: 0..u64::MAX, ..Faults::default() });
            for number in 0..5 {
                volume.write(number * PAGE, &[1], Durability::Durable).await.unwrap_err();
                volume.flush(FlushScope::Whole).await.unwrap_err();
                volume.checkpoint().await.unwrap_err();
            }
            volume.fail("something else");
            let noted = all(&volume.events());
            assert!(
                matches!(&noted[..], [Event::ReadOnly(Error::Device(error))] if error.errno == 28),
                "{noted:?}"
            );
        });
    }
}

#[test]
fn each_read_that_fails_is_counted_and_noted_with_its_bytes() {
    let (mut machine, bytes) = filled(Plan::of_pages(PAGES), 5);
    let offset = machine.plan.layout().page_offset(7);
    machine.home.borrow_mut().rot(offset + 17, 1, &mut Random::new(1));
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let mut found = vec![0; 3 * PAGE as usize];
        for _ in 0..3 {
            assert_eq!(volume.read(6 * PAGE, &mut found).await, Err(Error::Damaged { page: 7 }));
        }
        assert_eq!(volume.read(7 * PAGE + 100, &mut found[..50]).await, Err(Error::Damaged { page: 7 }));
        let damaged = |offset, len| Event::ReadFailed {
            extent: Extent::new(offset, len),
            error: Error::Damaged { page: 7 },
        };
        let mut expected = vec![damaged(7 * PAGE, PAGE); 3];
        expected.push(damaged(7 * PAGE + 100, 50));
        assert_eq!(all(&volume.events()), expected);
        let counters = volume.counters();
        assert_eq!((counters.damaged_reads, counters.failed_reads), (4, 0));
        // What goes well is neither.
        volume.read(8 * PAGE, &mut found).await.unwrap();
        assert!(found == bytes[8 * PAGE as usize..][..found.len()]);
        run.home.set_faults(Faults { failing_operations: 0..u64::MAX, ..Faults::default() });
        volume.read(20 * PAGE, &mut found).await.unwrap_err();
        assert_eq!((volume.counters().damaged_reads, volume.counters().failed_reads), (4, 1));
        let noted = all(&volume.events());
        let [Event::ReadFailed { extent, error: Error::Device(_) }] = &noted[..] else { panic!("{noted:?}") };
        assert_eq!(*extent, Extent::new(20 * PAGE, found.len() as u64));
    });
}

/// What a volume notes whose home device takes so long to flush, while ten times its log is written.
fn noted_with_flushes_of(flush_ns: u64) -> (Vec<Event>, u64) {
    let plan = Plan::of_pages(PAGES);
    let mut executor = Executor::new(1);
    let (env, cuts) = (executor.env(), Cuts::none(executor.stop()));
    let machine = machine::Machine::new(plan, 1);
    let drive = |image, latency| {
        let options = DriveOptions { latency, ..DriveOptions::default() };
        Rc::new(SimDrive::open(image, env.clone(), cuts.clone(), options))
    };
    let home = drive(machine.home.clone(), Latency { flush_ns, ..Latency::default() });
    let log = drive(machine.log.clone(), Latency::default());
    let arena = SimArena::open(ArenaBytes::new(plan.arena_bytes), env.clone(), cuts.clone(), 1);
    let story = async {
        let volume = Volume::open(env.clone(), arena, home, log, true, plan.open).await.unwrap();
        for number in 0..10 * plan.create.log_bytes / 8192 {
            assert_eq!(volume.commits_wait_ns(), 0, "nobody waits when a durable write has ended");
            let bytes = noise(number, 8192);
            volume.write(number * 8192 % (32 * PAGE), &bytes, Durability::Durable).await.unwrap();
        }
        (all(&volume.events()), volume.counters().long_waits)
    };
    executor.block_on(story).unwrap()
}

#[test]
fn commits_that_wait_long_for_room_are_noted_with_their_time_and_short_waits_are_not() {
    let (noted, long_waits) = noted_with_flushes_of(3_000_000_000);
    assert!(long_waits > 1 && noted.len() as u64 == long_waits, "{long_waits}: {noted:?}");
    for event in noted {
        let Event::CommitsWaited { waited_ns } = event else { panic!("{event:?}") };
        assert!((1_000_000_000..7_000_000_000).contains(&waited_ns), "{waited_ns}");
    }
    assert_eq!(noted_with_flushes_of(300_000_000), (Vec::new(), 0));
}

#[test]
fn a_log_device_that_gets_slower_is_noted_once_and_the_volume_knows_what_it_takes() {
    const SECOND_NS: u64 = 1_000_000_000;
    let plan = Plan::of_pages(PAGES);
    let mut executor = Executor::new(1);
    let (env, cuts) = (executor.env(), Cuts::none(executor.stop()));
    let machine = machine::Machine::new(plan, 1);
    let drive = |image| {
        Rc::new(SimDrive::open(
            image,
            env.clone(),
            cuts.clone(),
            DriveOptions { seed: 2, ..DriveOptions::default() },
        ))
    };
    let (home, log) = (drive(machine.home.clone()), drive(machine.log.clone()));
    let arena = SimArena::open(ArenaBytes::new(plan.arena_bytes), env.clone(), cuts.clone(), 1);
    let story = async {
        let volume = Volume::open(env.clone(), arena, home, log.clone(), true, plan.open).await.unwrap();
        let for_a_while = async |seconds: u64| {
            for number in 0..4 * seconds {
                let page = number % 32 * PAGE;
                volume.write(page, &noise(number, 512), Durability::Durable).await.unwrap();
                env.sleep(SECOND_NS / 4).await;
            }
        };
        for_a_while(300).await;
        let known = volume.record_cost().unwrap();
        // Durable writes of the default drive: 0.4 ms, and up to 0.2 ms by chance.
        assert!((450_000..560_000).contains(&known.latency_ns), "{known:?}");
        assert_eq!((all(&volume.events()), known.line), (Vec::new(), None), "all of one size");
        let latency = Latency { durable_write_ns: 4_000_000, ..Latency::default() };
        log.set_latency(latency);
        for_a_while(120).await;
        let noted = all(&volume.events());
        let [Event::RecordsChanged { bytes, before_ns, now_ns }] = noted[..] else { panic!("{noted:?}") };
        assert!((512..2048).contains(&bytes), "{bytes}");
        assert!(
            (400_000..700_000).contains(&before_ns) && (3_000_000..4_300_000).contains(&now_ns),
            "{noted:?}"
        );
    };
    executor.block_on(story).unwrap();
}

#[test]
fn members_and_log_devices_that_are_lost_and_rebuilds_are_noted_once_each() {
    let (mut machine, _) = machine::mirror::filled(machine::mirror::Plan::mirror(3, 2), 7);
    let other = Image::shared(machine.members[0].borrow().geometry());
    machine.run_whole(async |run| {
        let (volume, ring, logs) = run.open().await.unwrap();
        let (of_ring, of_logs) = (ring.events(), logs.events().unwrap());
        assert_eq!((all(&of_ring), all(&of_logs)), (Vec::new(), Vec::new()));
        run.members[1].set_faults(machine::mirror::dead());
        run.logs[0].set_faults(machine::mirror::dead());
        for number in 0..10 {
            volume.write(number * PAGE, &noise(number, 4096), Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap();
        }
        let noted = all(&of_ring);
        assert!(
            matches!(noted[..], [Event::MemberLost { place: 1, was_rebuilding: false, .. }]),
            "{noted:?}"
        );
        let noted = all(&of_logs);
        assert!(matches!(noted[..], [Event::LogDeviceLost { place: 0, .. }]), "{noted:?}");
        // One that fails while it is rebuilt, and one that does not.
        let failing = run.another(&other);
        ring.replace(1, failing.clone().into()).await.unwrap();
        failing.set_faults(machine::mirror::dead());
        let begun = of_ring.next().await;
        assert_eq!(begun, Event::RebuildBegun { place: 1, lacks_bytes: None });
        let failed = of_ring.next().await;
        assert!(matches!(failed, Event::MemberLost { place: 1, was_rebuilding: true, .. }), "{failed:?}");
        ring.replace(1, run.another(&other).into()).await.unwrap();
        assert_eq!(of_ring.next().await, Event::RebuildBegun { place: 1, lacks_bytes: None });
        assert_eq!(of_ring.next().await, Event::RebuildEnded { place: 1 });
        volume.close().await.unwrap();
        assert_eq!((all(&of_ring), all(&of_logs)), (Vec::new(), Vec::new()));
    });
}
