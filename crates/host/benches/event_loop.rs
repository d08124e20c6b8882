//! What the event loop, the drive and the arena cost: `cargo bench -p evenkeel-host --bench event_loop [-- FOLDER
//! [drive|tasks|messages|arena]]`.
//!
//! Durable writes of 4 KiB at random places of a written file in FOLDER, 1 and 32 at a time, for each way of asking
//! the kernel; beside them what tasks, messages over a socket and stores into the arena cost.
//! fio does the same with `--rw=randwrite --bs=4k --direct=1 --sync=dsync --ioengine=io_uring --overwrite=1`.

#![allow(clippy::print_stdout)]

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use evenkeel_engine::device::{Device, Durability};
use evenkeel_engine::env::{Arena, Env};
use evenkeel_host::arena::SharedArena;
use evenkeel_host::drive::{DriveOptions, DurableWay, FileDrive, Fill};
use evenkeel_host::event_loop::{Backend, EventLoop};
use evenkeel_host::net::{ByteStream, Stream};

const FILE_BYTES: u64 = 256 << 20;
const WRITE_BYTES: usize = 4096;
const RUN: Duration = Duration::from_secs(3);

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let folder = tempfile::tempdir_in(arguments.next().map_or(PathBuf::from("."), PathBuf::from)).unwrap();
    let part = arguments.next();
    let wanted = |name: &str| part.as_ref().is_none_or(|part| part == name);
    for backend in [Backend::Uring, Backend::Threads] {
        let Ok(event_loop) = EventLoop::new(backend) else {
            println!("{backend:?}: not to be had here");
            continue;
        };
        if wanted("tasks") {
            tasks(&event_loop);
        }
        if wanted("drive") {
            drive(&event_loop, folder.path());
        }
        if wanted("messages") {
            messages(&event_loop);
        }
    }
    if wanted("arena") {
        arena(folder.path());
    }
}

/// Runs all of them at the same time.
async fn all<'a>(futures: impl IntoIterator<Item = Pin<Box<dyn Future<Output = ()> + 'a>>>) {
    let mut futures: Vec<_> = futures.into_iter().collect();
    poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn report(backend: Backend, what: &str, count: u64, taken: Duration) {
    let seconds = taken.as_secs_f64();
    let (rate, each_us) = (count as f64 / seconds, seconds / count as f64 * 1e6);
    println!("{:8} {what:44} {rate:12.0} /s {each_us:10.3} us each", format!("{backend:?}"));
}

fn tasks(event_loop: &EventLoop) {
    let env = event_loop.handle();
    let (count, left) = (1_000_000, Rc::new(Cell::new(0)));
    let began = Instant::now();
    event_loop.block_on(async {
        for _ in 0..count / 100 {
            left.set(100);
            for _ in 0..100 {
                let left = Rc::clone(&left);
                env.spawn(async move { left.set(left.get() - 1) });
            }
            while left.get() > 0 {
                yield_now().await;
            }
        }
    });
    report(event_loop.backend(), "tasks spawned and run", count, began.elapsed());
    let began = Instant::now();
    event_loop.block_on(async {
        for _ in 0..5_000_000 {
            yield_now().await;
        }
    });
    report(event_loop.backend(), "wakes", 5_000_000, began.elapsed());
}

async fn yield_now() {
    let mut been_here = false;
    poll_fn(|context| {
        if std::mem::replace(&mut been_here, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// 32 connections in the same loop, each with one message of 64 bytes under way, there and back.
fn messages(event_loop: &EventLoop) {
    let env = event_loop.handle();
    let answered = Rc::new(Cell::new(0_u64));
    for _ in 0..32 {
        let (one, other) = UnixStream::pair().unwrap();
        let (client, server) = (Stream::new(&env, one.into()), Stream::new(&env, other.into()));
        let answered = Rc::clone(&answered);
        env.spawn(async move {
            let mut buffer = vec![0; 64];
            loop {
                buffer = client.write(buffer).await.1;
                let (count, answer) = client.read(buffer, 0).await;
                assert_eq!(count.unwrap(), 64);
                answered.set(answered.get() + 1);
                buffer = answer;
            }
        });
        env.spawn(async move {
            let mut buffer = vec![0; 64];
            loop {
                let (count, request) = server.read(buffer, 0).await;
                if count.unwrap_or(0) == 0 {
                    return;
                }
                buffer = server.write(request).await.1;
            }
        });
    }
    let began = Instant::now();
    event_loop.block_on(env.sleep(1_000_000_000));
    report(
        event_loop.backend(),
        "messages answered, both sides on one core",
        answered.get(),
        began.elapsed(),
    );
}

fn drive(event_loop: &EventLoop, folder: &Path) {
    let env = event_loop.handle();
    let path = folder.join(format!("{:?}", event_loop.backend()));
    let options = DriveOptions { pool_bytes: 8 << 20, ..DriveOptions::default() };
    let made = FileDrive::create(&env, &path, FILE_BYTES, Fill::Written, options, |_, _| ());
    drop(event_loop.block_on(made).unwrap());
    for durable_way in [DurableWay::Dsync, DurableWay::Linked] {
        let options = DriveOptions { durable_way: Some(durable_way), ..options };
        let drive = FileDrive::open(&env, &path, options).unwrap();
        for durability in [Durability::Durable, Durability::Buffered] {
            for depth in [1, 32] {
                let written = Cell::new(0);
                let began = Instant::now();
                event_loop.block_on(all((0..depth).map(|_| -> Pin<Box<dyn Future<Output = ()> + '_>> {
                    Box::pin(write_until(&env, &drive, began, durability, &written))
                })));
                let what = format!(
                    "{durability:?} writes, {depth} deep, {durable_way:?}, direct {}",
                    drive.is_direct()
                );
                report(event_loop.backend(), &what, written.get(), began.elapsed());
            }
        }
    }
}

async fn write_until(
    env: &impl Env,
    drive: &FileDrive,
    began: Instant,
    durability: Durability,
    written: &Cell<u64>,
) {
    let bytes = vec![0xa5; WRITE_BYTES];
    while began.elapsed() < RUN {
        let place = env.random() % (FILE_BYTES / WRITE_BYTES as u64);
        drive.write(place * WRITE_BYTES as u64, &bytes, durability).await.unwrap();
        written.set(written.get() + 1);
    }
}

fn arena(folder: &Path) {
    let len = 64 << 20;
    for place in [Path::new("/dev/shm"), folder] {
        let path = place.join(format!("evenkeel-bench-{}", std::process::id()));
        for opening in ["new", "kept"] {
            let began = Instant::now();
            let arena = SharedArena::open(&path, len).unwrap();
            println!("arena of 64 MiB in {}, {opening}: opened in {:?}", place.display(), began.elapsed());
            if opening == "new" {
                continue;
            }
            for size in [64_usize, 4096] {
                let bytes = vec![1; size];
                let mut private = vec![0_u8; len];
                let count = (len / size) as u64;
                let began = Instant::now();
                (0..len).step_by(size).for_each(|offset| arena.store(offset, &bytes));
                let shared = began.elapsed();
                private.fill(1);
                let began = Instant::now();
                (0..len).step_by(size).for_each(|offset| {
                    std::hint::black_box(&mut private[offset..offset + size]).copy_from_slice(&bytes);
                });
                let own = began.elapsed();
                let each_ns = |taken: Duration| taken.as_nanos() as f64 / count as f64;
                println!(
                    "stores of {size} bytes: {:.0} ns each, into memory of the process's own {:.0} ns",
                    each_ns(shared),
                    each_ns(own)
                );
            }
            arena.remove().unwrap();
        }
    }
}
