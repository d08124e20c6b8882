//! An open volume is a device: whatever takes a device takes it, and another volume may lie on it.

use std::cell::RefCell;
use std::rc::Rc;

use crate::machine::{self, Machine, PAGE, Plan, Run, SimVolume};
use evenkeel_engine::device::{Device, Durability, Extent, FlushScope};
use evenkeel_engine::error::Error;
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::salvage::MemoryArena;
use evenkeel_engine::volume::{Volume, create};
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::executor::SimEnv;

type Inner = Volume<SimEnv, MemoryArena, SimVolume, SimVolume>;

/// The volume that lies on the machine's.
async fn open_inner(run: &Run) -> Result<Inner, Error> {
    let outer = Rc::new(run.open().await?);
    let memory = MemoryArena::empty(256 << 10);
    Volume::open(run.env.clone(), memory, Rc::clone(&outer), outer, false, OpenOptions::default()).await
}

/// Uses a device by the words that all have.
async fn use_words<D: Device>(device: &D) -> Vec<u8> {
    let size_bytes = device.geometry().size_bytes;
    device.write(512, &[7; 4096], Durability::Durable).await.unwrap();
    device.write_parts(8192, &[&[1; 512], &[2; 512]], Durability::Buffered).await.unwrap();
    device.flush(FlushScope::Ranges(&[Extent::new(8192, 1024)])).await.unwrap();
    device.write_zeroes(Extent::new(1024, 512), Durability::Durable).await.unwrap();
    device.discard(Extent::new(size_bytes - PAGE, PAGE)).await.unwrap();
    let refused = device.write(size_bytes, &[1], Durability::Buffered).await.unwrap_err();
    assert_eq!(refused.errno, Error::OutOfRange.errno());
    let mut found = vec![0; 9216];
    device.read(0, &mut found).await.unwrap();
    let mut cached = vec![0; 9216];
    assert_eq!(device.try_read_cached(0, &mut cached), cached.len(), "a read just brought it");
    assert_eq!(cached, found);
    found
}

#[test]
fn a_volume_does_what_every_device_does() {
    let mut machine = Machine::new(Plan::of_pages(100), 1);
    let found = machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        use_words(&volume).await
    });
    let mut expected = vec![0; 9216];
    expected[512..4608].fill(7);
    expected[1024..1536].fill(0);
    expected[8192..8704].fill(1);
    expected[8704..].fill(2);
    assert!(found == expected);
    machine.power_cut();
    assert!(machine.contents()[..9216] == expected);
}

/// The inner volume writes its number to each page in turn, durably; the power is cut at every so-many-th event.
#[test]
fn what_a_volume_on_a_volume_acknowledged_outlives_a_power_cut() {
    const WRITES: u64 = 40;
    let plan = Plan::of_pages(1000);
    let create_inner =
        CreateOptions { size_bytes: 100 * PAGE, log_bytes: 256 << 10, atomic_max_bytes: 16384 };
    let made = || {
        let mut machine = Machine::new(plan, 2);
        machine.run_whole(async |run| {
            let outer = run.open().await.unwrap();
            create(&outer, &outer, false, create_inner, 77).await.unwrap();
            outer.close().await.unwrap();
        });
        machine.power_cut();
        machine
    };
    let acknowledged = Rc::new(RefCell::new(0));
    let run = |machine: &mut Machine, cut: CutPlan| {
        acknowledged.replace(0);
        let acknowledged = Rc::clone(&acknowledged);
        machine.run(cut, async move |run| {
            let inner = open_inner(&run).await.unwrap();
            for number in 1..=WRITES {
                let page = number % 100;
                inner.write(page * PAGE, &[number as u8; 600], Durability::Durable).await.unwrap();
                acknowledged.replace(number);
            }
        })
    };
    let (ended, events) = run(&mut made(), machine::WHOLE_RUN);
    ended.expect("no cut");
    assert!(events > 100, "{events} events");
    let mut cut_between = 0;
    for at_event in (1..events).step_by(7) {
        let mut machine = made();
        let (ended, _) = run(&mut machine, CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut });
        assert!(ended.is_err(), "cut at {at_event}");
        machine.power_cut();
        let acknowledged = *acknowledged.borrow();
        cut_between += u64::from(acknowledged > 0 && acknowledged < WRITES);
        machine.run_whole(async |run| {
            let inner = open_inner(&run).await.unwrap();
            for number in 1..=acknowledged {
                let mut found = [0; 600];
                inner.read(number % 100 * PAGE, &mut found).await.unwrap();
                assert_eq!(found, [number as u8; 600], "cut at event {at_event}");
            }
        });
    }
    assert!(cut_between > 10, "{cut_between} cuts came between writes");
}
