//! What the tests share: an executor, e2fsck as the judge, and stores to begin with.
#![allow(dead_code, clippy::print_stderr)] // Each story file uses its own part of this.

pub(crate) mod client;

use std::cell::Cell;
use std::future::Future;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::pin;
use std::process::Command;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use evenkeel_ext2::store::Store;
use evenkeel_ext2::{
    Caller, FileSystem, FormatOptions, MemoryStore, MountOptions, ROOT_INODE, SetAttributes, Timestamp,
    format,
};

/// Runs a future that waits for nothing but its turn.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100_000_000_u64 {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
    }
    panic!("it never ends");
}

/// Runs futures side by side until all are done, each turn of the one that `choose` names.
pub(crate) fn run_all(
    mut futures: Vec<std::pin::Pin<Box<dyn Future<Output = ()> + '_>>>,
    mut choose: impl FnMut(u64) -> u64,
) {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100_000_000_u64 {
        if futures.is_empty() {
            return;
        }
        let at = choose(futures.len() as u64) as usize;
        if futures[at].as_mut().poll(&mut context).is_ready() {
            drop(futures.swap_remove(at));
        }
    }
    panic!("they never end");
}

/// A clock that goes on by a microsecond with each look.
pub(crate) fn clock() -> impl Fn() -> Timestamp {
    let ticks = Rc::new(Cell::new(0u64));
    move || {
        let now = ticks.replace(ticks.get() + 1);
        Timestamp { secs: 1_700_000_000 + (now / 1_000_000) as i64, nanos: (now % 1_000_000) as u32 * 1000 }
    }
}

/// How the tests make file systems.
pub(crate) fn format_options() -> FormatOptions {
    FormatOptions {
        uuid: *b"evenkeel-ext2-ek",
        hash_seed: *b"a seed of hashes",
        label: "test".to_owned(),
        now: Timestamp { secs: 1_700_000_000, nanos: 0 },
        ..FormatOptions::default()
    }
}

/// A store with a new file system.
pub(crate) fn formatted(size_bytes: u64) -> MemoryStore {
    let store = MemoryStore::new(size_bytes);
    run(format(&store, &format_options())).unwrap();
    store
}

/// A mounted file system.
pub(crate) fn mounted<S: Store>(store: S) -> FileSystem<S> {
    run(FileSystem::mount(store, MountOptions::default(), clock())).unwrap()
}

/// Whether a tool of e2fsprogs is there; says so where it is not.
pub(crate) fn has_tool(tool: &str) -> bool {
    let is_there = Command::new(tool).arg("-V").output().is_ok();
    if !is_there {
        eprintln!("skipped: {tool} of e2fsprogs is not installed");
    }
    is_there
}

/// Writes a store to a sparse file.
pub(crate) fn write_image(store: &MemoryStore, path: &Path) {
    let file = std::fs::File::create(path).unwrap();
    file.set_len(store.size_bytes()).unwrap();
    store.for_each_block(|number, bytes| file.write_all_at(bytes, number * 4096).unwrap());
}

/// What `e2fsck -fn` finds wrong; nothing where it is not installed.
pub(crate) fn e2fsck(store: &MemoryStore) -> Result<(), String> {
    if !has_tool("e2fsck") {
        return Ok(());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    write_image(store, &path);
    let output = Command::new("e2fsck").args(["-f", "-n"]).arg(&path).output().unwrap();
    match output.status.code() {
        Some(0) => Ok(()),
        code => {
            let said = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            Err(format!("e2fsck says {code:?}: {}", said.chars().take(2000).collect::<String>()))
        }
    }
}

/// What debugfs answers to a request.
pub(crate) fn debugfs(store: &MemoryStore, request: &str) -> Option<String> {
    if !has_tool("debugfs") {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    write_image(store, &path);
    let output = Command::new("debugfs").args(["-R", request]).arg(&path).output().unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lets the others go on.
async fn another_turn() {
    let mut has_waited = false;
    std::future::poll_fn(|_| match std::mem::replace(&mut has_waited, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// Reads a file with a hole in its page while a commit puts that page on a block that held something.
pub(crate) fn read_beside_a_commit() {
    let store = MemoryStore::new(16 << 20);
    for block in 0..4096 {
        store.patch(block * 4096, &[0xdd; 4096]);
    }
    run(format(&store, &format_options())).unwrap();
    let files = mounted(store.clone());
    let file = run(async {
        let file = files.create(ROOT_INODE, b"file", 0o644, &Caller::ROOT).await.unwrap().inode;
        files.write(file, 3000, &[1; 100], &Caller::ROOT).await.unwrap();
        file
    });
    store.pause_each(3);
    let (syncing, reading) = (files.clone(), files.clone());
    let is_synced = Rc::new(Cell::new(false));
    let synced = Rc::clone(&is_synced);
    let sync = Box::pin(async move {
        syncing.fsync(file).await.unwrap();
        synced.set(true);
    });
    let read = Box::pin(async move {
        let mut is_last = false;
        while !is_last {
            is_last = is_synced.get();
            another_turn().await;
            let mut bytes = [0xaa; 3100];
            assert_eq!(reading.read(file, 0, &mut bytes).await, Ok(3100));
            assert!(bytes[3000..] == [1; 100] && bytes[..3000].iter().all(|&byte| byte == 0));
        }
    });
    let mut turn = 0;
    run_all(vec![sync, read], |bound| {
        turn += 1;
        u64::from(bound > 1 && turn % 10 != 0)
    });
}

/// Reads a file slowly while it loses its blocks to another file, again and again.
pub(crate) fn read_beside_an_unmapping() {
    const LEN: usize = 8 * 4096;
    // So few blocks that those of one file are soon those of the other.
    let store = formatted(1 << 20);
    let files = mounted(store.clone());
    let (one, other) = run(async {
        let one = files.create(ROOT_INODE, b"one", 0o644, &Caller::ROOT).await.unwrap().inode;
        let other = files.create(ROOT_INODE, b"other", 0o644, &Caller::ROOT).await.unwrap().inode;
        (one, other)
    });
    store.pause_each(2);
    let (writing, reading) = (files.clone(), files.clone());
    let (is_over, is_reading) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (over, begun) = (Rc::clone(&is_over), Rc::clone(&is_reading));
    let write = Box::pin(async move {
        for _ in 0..20 {
            for (file, byte) in [(one, 1), (other, 2)] {
                writing.write(file, 0, &[byte; LEN], &Caller::ROOT).await.unwrap();
                writing.fsync(file).await.unwrap();
                is_reading.set(false);
                while file == one && !is_reading.get() {
                    another_turn().await;
                }
                let set = SetAttributes { size: Some(0), ..SetAttributes::default() };
                writing.setattr(file, &set).await.unwrap();
                writing.fsync(file).await.unwrap();
            }
        }
        over.set(true);
    });
    let read = Box::pin(async move {
        while !is_over.get() {
            another_turn().await;
            begun.set(true);
            let mut bytes = [0; LEN];
            let len = reading.read(one, 0, &mut bytes).await.unwrap();
            assert!(bytes[..len].iter().all(|&byte| byte == 1), "bytes of another file");
        }
    });
    // The reader has a turn now and then: what it reads is long gone when it has it.
    let mut turn = 0;
    run_all(vec![write, read], |bound| {
        turn += 1;
        u64::from(bound > 1 && turn % 30 == 0)
    });
}
