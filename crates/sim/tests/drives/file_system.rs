//! The model of a file system: what an fsync makes durable, what it leaves alone, and whom it holds up.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::common_models::{MIB, drive};
use evenkeel_engine::env::Env;
use evenkeel_sim::executor::Executor;
use evenkeel_sim::file_system::{Barrier, FileSystem, FlushQueueing, Metadata, PAGE_BYTES, Setup, nodes};
use evenkeel_sim::model::flash::Flash;
use evenkeel_sim::random::Random;

const ALL: [(Barrier, FlushQueueing); 4] = [
    (Barrier::Flush, FlushQueueing::Queued),
    (Barrier::Flush, FlushQueueing::Alone),
    (Barrier::RangeFlush, FlushQueueing::Queued),
    (Barrier::RangeFlush, FlushQueueing::Alone),
];

struct Story {
    executor: Executor,
    drive: Rc<RefCell<Flash>>,
    file_system: FileSystem,
}

/// A board that keeps dirty pages until somebody asks, and a cache whose flushers begin at once.
fn story(barrier: Barrier, queueing: FlushQueueing) -> Story {
    let mut flash = drive("open-channel", 64 * MIB);
    flash.keep_contents();
    let drive = Rc::new(RefCell::new(flash));
    let executor = Executor::new(1);
    let setup = Setup {
        barrier,
        queueing,
        metadata: Metadata::InTandem,
        inodes_max: 8,
        background_pages: 0,
        dirty_pages_max: 1024,
        copy_page_ns: 1_000,
        flushers: 4,
        keeps_contents: true,
    };
    let file_system = FileSystem::mount(Rc::clone(&drive) as _, &executor.env(), setup);
    Story { executor, drive, file_system }
}

#[test]
fn a_cut_leaves_what_was_synced_and_nothing_of_what_was_not() {
    for (barrier, queueing) in ALL {
        let Story { mut executor, drive, file_system } = story(barrier, queueing);
        let [synced, other] = [file_system.create(), file_system.create()];
        let (run, env) = (file_system.clone(), executor.env());
        let version = executor.block_on(async move {
            run.write(other, 0, 100).await;
            run.write(synced, 0, 100).await;
            run.fsync(synced).await;
            run.write(synced, 50, 10).await;
            let version = run.fsync(synced).await;
            run.write(synced, 0, 100).await;
            env.sleep(1_000_000).await;
            version
        });
        drop(executor);
        drive.borrow_mut().power_cut(&mut Random::new(1));
        let found = nodes::find(&*drive.borrow(), synced);
        assert_eq!((Ok(found.version), found.pages_missing), (version, 0), "{barrier:?}");
        assert_eq!(nodes::find(&*drive.borrow(), other).version, 0, "{barrier:?}");
    }
}

#[test]
fn a_range_flush_leaves_other_files_in_the_buffer_and_a_flush_does_not() {
    let left = |barrier| {
        let Story { mut executor, drive, file_system } = story(barrier, FlushQueueing::Queued);
        let [synced, other] = [file_system.create(), file_system.create()];
        let (run, env) = (file_system.clone(), executor.env());
        let ended = executor.block_on(async move {
            run.write(other, 0, 200).await;
            env.sleep(10_000_000).await;
            run.write(synced, 0, 10).await;
            run.fsync(synced).await;
        });
        assert_eq!(ended, Ok(()));
        drive.borrow().dirty_bytes()
    };
    assert_eq!(left(Barrier::RangeFlush), 200 * PAGE_BYTES);
    assert_eq!(left(Barrier::Flush), 0);
}

#[test]
fn only_a_flush_that_is_not_queued_holds_other_writes_up() {
    let written_during_fsync = |(barrier, queueing)| {
        let Story { mut executor, file_system, .. } = story(barrier, queueing);
        let [synced, other] = [file_system.create(), file_system.create()];
        let (run, env) = (file_system.clone(), executor.env());
        let (begun, done) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let told = Rc::clone(&done);
        let writer = file_system.clone();
        let ended = executor.block_on(async move {
            run.write(synced, 0, 200).await;
            env.sleep(10_000_000).await;
            env.spawn({
                let env = env.clone();
                async move {
                    // The barrier is under way: its 200 programs take more than a millisecond.
                    env.sleep(500_000).await;
                    writer.write(other, 0, 1).await;
                    begun.set(writer.written_bytes());
                    env.sleep(200_000).await;
                    told.set(writer.written_bytes() - begun.get());
                }
            });
            run.fsync(synced).await;
        });
        assert_eq!(ended, Ok(()));
        done.get()
    };
    assert_eq!(ALL.map(written_during_fsync), [PAGE_BYTES, 0, PAGE_BYTES, 0]);
}

#[test]
fn writers_of_one_file_share_fsyncs() {
    let Story { mut executor, file_system, .. } = story(Barrier::RangeFlush, FlushQueueing::Queued);
    let log = file_system.create();
    let (run, env) = (file_system.clone(), executor.env());
    let done = Rc::new(Cell::new(0));
    let ended = executor.block_on(async move {
        for writer in 0..10 {
            let (run, done) = (run.clone(), Rc::clone(&done));
            env.spawn(async move {
                for _ in 0..5 {
                    run.write_at_once(log, writer, 1).await;
                    run.fsync_together(log).await;
                    done.set(done.get() + 1);
                }
            });
        }
        while done.get() < 50 {
            env.sleep(1_000_000).await;
        }
    });
    assert_eq!(ended, Ok(()));
    let fsyncs = file_system.counters().fsyncs;
    assert!((5..=25).contains(&fsyncs), "{fsyncs} fsyncs for 50 writes by 10 writers");
}
