//! A mounted file system on the board, in virtual time, and who uses it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::join::all;
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::volume::{Volume, create};
use evenkeel_ext2::{
    Caller, Errno, FileSystem, FormatOptions, MountOptions, ROOT_INODE, SetAttributes, Timestamp,
};
use evenkeel_sim::arena::{ArenaBytes, SimArena};
use evenkeel_sim::cuts::Cuts;
use evenkeel_sim::executor::{Executor, SimEnv};
use evenkeel_sim::model::flash::Flash;
use evenkeel_sim::model::pump::Pump;

use super::super::host::MIB;
use super::Way;
use super::board::Board;
use super::waiting::Waiting;

const GIB: u64 = 1 << 30;
const VOLUME_BYTES: u64 = 24 * GIB;
const LOG_BYTES: u64 = 512 * MIB;
const ARENA_BYTES: usize = 128 << 20;

/// What copying a page takes.
const COPY_PAGE_NS: u64 = 1_000;

/// How long something may take in virtual time before it is taken for stuck.
const POLLS_MAX: u64 = 1 << 32;

type SiteVolume = Volume<SimEnv, SimArena, Board, Board>;

/// A mounted file system, and the executor in whose time it is.
pub(super) struct Site {
    pub(super) executor: Executor,
    pub(super) env: SimEnv,
    pub(super) board: Board,
    pub(super) files: Files,
}

/// The files of a mounted file system. A clone is another handle to them.
#[derive(Clone)]
pub(super) struct Files(Rc<State>);

struct State {
    env: SimEnv,
    file_system: FileSystem<SiteVolume>,
    takes_everything: bool,
    page: Vec<u8>,
    /// Files that were written since they were made durable.
    dirty: RefCell<BTreeSet<File>>,
    /// Syncs that are shared: how many were begun, and how many are done.
    begun: Cell<u64>,
    done: Cell<u64>,
    waiting: Waiting,
}

/// A file by its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct File(u32);

impl Site {
    /// Makes and mounts a file system. As many bytes stay in memory until somebody syncs; from there on they are written out.
    pub(super) fn new(drive: Flash, memory_bytes: u64, way: Way, seed: u64) -> Self {
        let mut executor = Executor::new(seed);
        executor.limit_polls(POLLS_MAX);
        let env = executor.env();
        let pump = Pump::new(Rc::new(RefCell::new(drive)), env.clone(), 0, || false);
        let board = Board::new(pump, way.barrier, way.queueing);
        let cuts = Cuts::none(executor.stop());
        // It is written out from half of that on.
        let options = MountOptions { dirty_bytes_max: 2 * memory_bytes as usize, ..MountOptions::default() };
        let mounted = executor.block_on(mount(env.clone(), board.clone(), cuts, options, seed));
        let files = Files(Rc::new(State {
            env: env.clone(),
            file_system: mounted.expect("a healthy board takes a file system"),
            takes_everything: way.takes_everything,
            page: vec![0x5a; 1 << 20],
            dirty: RefCell::default(),
            begun: Cell::default(),
            done: Cell::default(),
            waiting: Waiting::default(),
        }));
        let written_out = files.0.file_system.clone();
        env.spawn(async move { written_out.write_out_in_background().await });
        Self { executor, env, board, files }
    }

    /// Lets everything run for so long.
    pub(super) fn run_for(&mut self, ns: u64) {
        let sleep = self.env.sleep(ns);
        self.executor.block_on(sleep).expect("the host goes on");
    }
}

async fn mount(
    env: SimEnv,
    board: Board,
    cuts: Cuts,
    mounted: MountOptions,
    seed: u64,
) -> FileSystem<SiteVolume> {
    let options =
        CreateOptions { size_bytes: VOLUME_BYTES, log_bytes: LOG_BYTES, atomic_max_bytes: 4 * PAGE_BYTES };
    create(&board, &board, false, options, seed | 1).await.expect("a healthy board takes a volume");
    let arena = SimArena::open(ArenaBytes::new(ARENA_BYTES), env.clone(), cuts, seed);
    let (home, log) = (Rc::new(board.clone()), Rc::new(board));
    let volume = Volume::open(env.clone(), arena, home, log, false, OpenOptions::default())
        .await
        .expect("a new volume opens");
    evenkeel_ext2::format(&volume, &FormatOptions::default()).await.expect("there is room");
    let clock = move || {
        let now_ns = env.now_ns();
        Timestamp { secs: (now_ns / 1_000_000_000) as i64, nanos: (now_ns % 1_000_000_000) as u32 }
    };
    let files = FileSystem::mount(volume, mounted, clock).await;
    files.expect("a new file system is mounted")
}

impl Files {
    /// Makes an empty file.
    pub(super) async fn create(&self, name: u64) -> File {
        let name = name.to_string();
        let made = self.0.file_system.create(ROOT_INODE, name.as_bytes(), 0o644, &Caller::ROOT).await;
        File(made.expect("there is room for a file").inode)
    }

    /// Deletes a file.
    pub(super) async fn delete(&self, name: u64, file: File) {
        self.0.dirty.borrow_mut().remove(&file);
        let deleted = self.0.file_system.unlink(ROOT_INODE, name.to_string().as_bytes()).await;
        deleted.expect("the file is there");
        self.0.file_system.forget(file.0, 1).await.expect("it was looked up once");
    }

    /// Makes a file empty.
    pub(super) async fn truncate(&self, file: File) {
        let empty = SetAttributes { size: Some(0), ..SetAttributes::default() };
        self.0.file_system.setattr(file.0, &empty).await.expect("the file is there");
    }

    /// Writes pages.
    pub(super) async fn write(&self, file: File, first_page: u64, pages: u64) {
        self.0.env.sleep(pages * COPY_PAGE_NS).await;
        let bytes = &self.0.page[..(pages * PAGE_BYTES) as usize];
        let offset = first_page * PAGE_BYTES;
        let written = self.0.file_system.write(file.0, offset, bytes, &Caller::ROOT).await;
        assert_eq!(written, Ok(bytes.len()), "there is room for the data");
        self.0.dirty.borrow_mut().insert(file);
    }

    /// Makes a file durable, and perhaps everything else.
    pub(super) async fn sync(&self, file: File) {
        let mut synced = match self.0.takes_everything {
            true => self.0.dirty.take(),
            false => BTreeSet::new(),
        };
        synced.insert(file);
        all(synced.into_iter().map(async |file| match self.0.file_system.fsync(file.0).await {
            // It was deleted meanwhile.
            Ok(()) | Err(Errno::Stale) => {}
            Err(error) => panic!("a healthy board takes a sync: {error}"),
        }))
        .await;
    }

    /// As [`Self::sync`], shared by those who wait together.
    pub(super) async fn sync_together(&self, file: File) {
        let state = &*self.0;
        let wanted = state.begun.get() + 1;
        let is_free = || state.begun.get() == state.done.get();
        while state.done.get() < wanted {
            if is_free() {
                state.begun.set(state.begun.get() + 1);
                self.sync(file).await;
                state.done.set(state.begun.get());
                state.waiting.look();
            } else {
                state.waiting.until(is_free).await;
            }
        }
    }

    /// Makes everything durable.
    pub(super) async fn sync_all(&self) {
        self.0.dirty.take();
        self.0.file_system.sync_all().await.expect("a healthy board takes a sync");
    }

    /// Bytes in memory that are not written.
    pub(super) async fn dirty_bytes(&self) -> u64 {
        self.0.file_system.activity().await.dirty_pages * PAGE_BYTES
    }
}
