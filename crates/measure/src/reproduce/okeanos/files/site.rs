//! Files that a story makes, appends to, reads and deletes, on a disk in virtual time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_ext2::{Caller, FileSystem, FormatOptions, ROOT_INODE, Timestamp, format};
use evenkeel_sim::executor::SimEnv;
use evenkeel_sim::random::Random;

use super::super::Mode;
use super::super::bed::{Bed, VOLUME_BYTES, WRITE_BACK_NS, layout, noise};
use super::super::drive::Drive;
use super::super::streams::{Load, SECOND_NS, Target};
use super::super::written::Traffic;
use super::jbd::Jbd;
use super::journaled::Journaled;
use super::mount_options;
use crate::reproduce::{Halted, Work};

/// After which time is committed what nobody syncs: as ext3 does, and `evenkeel mount` unless told otherwise.
const COMMIT_NS: u64 = 5 * SECOND_NS;

struct State {
    env: SimEnv,
    store: Journaled,
    files: FileSystem<Journaled>,
    random: RefCell<Random>,
    /// Bytes that resemble nothing, cut at random for each write.
    noise: Vec<u8>,
    user_bytes: Cell<u64>,
    writes: Cell<u64>,
}

/// A mounted file system. A clone is another handle to the same.
#[derive(Clone)]
pub(super) struct Site(Rc<State>);

/// A file, and how long it is.
#[derive(Clone)]
pub(super) struct File {
    inode: u32,
    bytes: Rc<Cell<u64>>,
}

/// Makes a file system on a new disk, mounts it, tells the story, and kills whatever is left.
pub(super) fn live<R>(
    work: &Work<'_>,
    mode: Mode,
    seed: u64,
    story: impl AsyncFnOnce(Site) -> R,
) -> Result<R, Halted> {
    let bed = Bed::new(work, seed)?;
    bed.run(work, async |env, drive| {
        let site = Site::mount(&bed, env, drive, mode, seed).await?;
        site.write_back_now_and_then();
        Ok(story(site).await)
    })
}

impl Site {
    async fn mount(bed: &Bed, env: SimEnv, drive: Drive, mode: Mode, seed: u64) -> Result<Self, Halted> {
        let store = match mode {
            Mode::Data | Mode::Ext3 => Journaled::Blocks(Rc::new(Jbd::new(drive, layout()))),
            _ => Journaled::Volume(bed.open(&env, &drive, mode).await?),
        };
        let unusable =
            |error: evenkeel_ext2::MountError| Halted::Unavailable(format!("no file system: {error}"));
        format(&store, &FormatOptions::default()).await.map_err(unusable)?;
        let clock_env = env.clone();
        let clock = move || {
            let now_ns = clock_env.now_ns();
            Timestamp { secs: (now_ns / SECOND_NS) as i64, nanos: (now_ns % SECOND_NS) as u32 }
        };
        let files = FileSystem::mount(store.clone(), mount_options(mode), clock).await.map_err(unusable)?;
        store.write_back().await;
        let mut random = Random::new(seed);
        let noise = noise(&mut random);
        let (user_bytes, writes) = (Cell::default(), Cell::default());
        let random = RefCell::new(random);
        Ok(Self(Rc::new(State { env, store, files, random, noise, user_bytes, writes })))
    }

    /// Makes an empty file.
    pub(super) async fn create(&self, name: u64) -> File {
        let made = self.0.files.create(ROOT_INODE, name.to_string().as_bytes(), 0o644, &Caller::ROOT).await;
        let inode = made.expect("there is room for a file").inode;
        File { inode, bytes: Rc::default() }
    }

    /// Deletes a file; whatever comes next makes that durable.
    pub(super) async fn delete(&self, name: u64, file: &File) {
        let deleted = self.0.files.unlink(ROOT_INODE, name.to_string().as_bytes()).await;
        deleted.expect("the file is there");
        self.0.files.forget(file.inode, 1).await.expect("it was looked up once");
    }

    /// Appends `len` new bytes, and syncs the file; answers how long that took.
    pub(super) async fn append(&self, random: &mut Random, file: &File, len: u64) -> u64 {
        let began_ns = self.0.env.now_ns();
        let start = random.below(self.0.noise.len() as u64 - len) as usize;
        let bytes = &self.0.noise[start..start + len as usize];
        let offset = file.bytes.replace(file.bytes.get() + len);
        let written = self.0.files.write(file.inode, offset, bytes, &Caller::ROOT).await;
        assert_eq!(written, Ok(bytes.len()), "there is room for the data");
        self.0.files.fsync(file.inode).await.expect("a healthy disk takes a sync");
        self.0.user_bytes.set(self.0.user_bytes.get() + len);
        self.0.writes.set(self.0.writes.get() + 1);
        self.0.env.now_ns() - began_ns
    }

    /// Reads a file from beginning to end.
    pub(super) async fn read(&self, file: &File) {
        let mut bytes = vec![0; file.bytes.get() as usize];
        let read = self.0.files.read(file.inode, 0, &mut bytes).await;
        assert_eq!(read, Ok(bytes.len()), "a healthy disk gives what was written");
    }

    /// Everything home, now.
    pub(super) async fn settle(&self) {
        self.0.files.sync_all().await.expect("a healthy disk takes a sync");
        self.0.store.write_back().await;
    }

    /// As `evenkeel mount` and Linux do.
    fn write_back_now_and_then(&self) {
        let files = self.0.files.clone();
        self.0.env.spawn(async move { files.write_out_in_background().await });
        let site = self.clone();
        self.0.env.spawn(async move {
            loop {
                site.0.env.sleep(COMMIT_NS).await;
                site.0.files.sync_all().await.expect("a healthy disk takes a sync");
            }
        });
        let site = self.clone();
        self.0.env.spawn(async move {
            loop {
                site.0.env.sleep(WRITE_BACK_NS).await;
                site.0.store.write_back().await;
            }
        });
    }

    pub(super) fn env(&self) -> &SimEnv {
        &self.0.env
    }

    /// A stream of chance of its own.
    pub(super) fn random(&self) -> Random {
        self.0.random.borrow_mut().fork()
    }

    /// What was written so far.
    pub(super) fn traffic(&self) -> Traffic {
        let (user_bytes, writes) = (self.0.user_bytes.get(), self.0.writes.get());
        Traffic { user_bytes, writes, ..self.0.store.traffic() }
    }
}

/// Streams, each of which appends to a file of its own.
#[derive(Clone)]
pub(super) struct Streams {
    site: Site,
    files: Rc<Vec<File>>,
}

impl Streams {
    /// With empty files, which are durable.
    pub(super) async fn new(site: &Site, streams: u64) -> Self {
        let mut files = Vec::new();
        for stream in 0..streams {
            files.push(site.create(stream).await);
        }
        site.settle().await;
        Self { site: site.clone(), files: Rc::new(files) }
    }
}

impl Target for Streams {
    fn env(&self) -> &SimEnv {
        self.site.env()
    }

    fn random(&self) -> Random {
        self.site.random()
    }

    fn traffic(&self) -> Traffic {
        self.site.traffic()
    }

    fn room_bytes(&self, streams: u64) -> u64 {
        VOLUME_BYTES / 2 / streams
    }

    async fn request(&self, random: &mut Random, load: &Load, stream: u64, _number: u64) -> u64 {
        self.site.append(random, &self.files[stream as usize], load.request_bytes).await
    }
}
