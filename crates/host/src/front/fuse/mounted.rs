//! A mounted file system, from the first request to the end.
//!
//! 1. Each request is a task of its own: one that waits for the disk holds up no other.
//! 2. The end is the same whoever wants it: what is open may end for [`OPEN_FILES_MAX_NS`]; then nothing more is taken, and
//!    everything is durable.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_ext2::{FORGOTTEN_MAX, Store};
use fuser::{SessionACL, SessionUnmounter};

use super::device::Device;
use super::forgotten::Forgotten;
use super::mount_point::detach;
use super::requests::Files;
use super::session::{Broken, Handshake, Session};
use super::slots;
use super::under_way::{UNDER_WAY_MAX_BYTES, UnderWay};
use crate::event_loop::{Loop, race};
use crate::front::Front;
use crate::front::session::{ConnectionStatus, FrontStatus};
use crate::path_error::PathError;
use crate::volume::VolumeError;
use crate::wait::yield_now;

/// How long a stop waits for files that are open.
const OPEN_FILES_MAX_NS: u64 = 2_000_000_000;

/// How long a stop waits between two looks at requests that are under way.
const LOOK_NS: u64 = 1_000_000;

/// A mounted file system. A clone is another handle to it.
pub struct Mounted<S: Store>(Rc<Inner<S>>);

impl<S: Store> Clone for Mounted<S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

struct Inner<S: Store> {
    env: Loop,
    at: PathBuf,
    files: Rc<Files<S>>,
    under_way: Rc<UnderWay>,
    forgotten: Rc<Forgotten>,
    began_ns: u64,
    unmounter: RefCell<Option<Unmounter>>,
    session: Arc<Ending>,
}

/// Who takes a mount away at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unmounts {
    /// The crate that made it.
    ByFuser,
    /// This module made it, and knows where it is.
    ByPath,
}

enum Unmounter {
    Fuser(SessionUnmounter),
    Path,
}

/// Something on another thread that ends.
#[derive(Debug, Default)]
struct Ending(Mutex<(bool, Vec<Waker>)>);

impl Ending {
    fn end(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        let wakers = std::mem::take(&mut state.1);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn has_come(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    async fn come(&self) {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if state.0 {
                return Poll::Ready(());
            }
            state.1.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Ends it however its thread ends.
struct EndsWithThread(Arc<Ending>);

impl Drop for EndsWithThread {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<S: Store> Mounted<S> {
    pub(super) fn new(env: &Loop, at: PathBuf, files: Rc<Files<S>>) -> Self {
        Self(Rc::new(Inner {
            env: env.clone(),
            at,
            files,
            under_way: Rc::default(),
            forgotten: Rc::default(),
            began_ns: env.now_ns(),
            unmounter: RefCell::new(None),
            session: Arc::default(),
        }))
    }

    /// Takes requests from the kernel, and carries them out.
    pub(super) fn run(
        &self,
        mut mount: fuser::Session<Handshake>,
        unmounts: Unmounts,
        allowed: SessionACL,
        slot_queues: Option<usize>,
    ) -> Result<(), VolumeError> {
        let inner = &self.0;
        let cannot = |error| PathError::new(&inner.at, "cannot be served", error);
        let device = mount.as_fd().try_clone_to_owned().map_err(cannot)?;
        inner.files.set_notifier(mount.notifier());
        inner.unmounter.replace(Some(match unmounts {
            Unmounts::ByFuser => Unmounter::Fuser(mount.unmount_callable()),
            Unmounts::ByPath => Unmounter::Path,
        }));
        let session = Rc::new(Session {
            env: inner.env.clone(),
            device: Device::new(&inner.env, device).map_err(|error| cannot(error.into()))?,
            files: Rc::clone(&inner.files),
            under_way: Rc::clone(&inner.under_way),
            forgotten: Rc::clone(&inner.forgotten),
            allowed,
            buffers: Rc::default(),
            broken: Broken::default(),
        });
        if let Some(queues) = slot_queues {
            slots::serve(&session, queues).map_err(cannot)?;
        }
        let (env, ends) = (inner.env.clone(), EndsWithThread(Arc::clone(&inner.session)));
        inner.env.spawn(async move {
            session.run().await;
            // Nothing more is taken, so the mount goes: on a thread, for the kernel may wait for what nobody answers.
            let _gone = env.blocking(move || drop((mount, ends))).await;
        });
        let (files, forgotten) = (Rc::clone(&inner.files), Rc::clone(&inner.forgotten));
        let under_way = Rc::clone(&inner.under_way);
        inner.env.spawn(async move {
            let mut some = Vec::new();
            while forgotten.take(FORGOTTEN_MAX, &mut some).await {
                let room = under_way.enter(0);
                files.forget(&some).await;
                some.clear();
                drop(room);
                // Those that wait for something else come in between.
                yield_now().await;
            }
        });
        Ok(())
    }

    /// Makes durable what nobody asks for, every so often, and writes out data while there is much of it.
    pub(super) fn commit_now_and_then(&self, every_ns: u64) {
        let written_out = self.0.files.file_system.clone();
        self.0.env.spawn(async move { written_out.write_out_in_background().await });
        let (files, session) = (Rc::clone(&self.0.files), Arc::clone(&self.0.session));
        self.0.env.spawn(async move {
            while !session.has_come() {
                files.env.sleep(every_ns).await;
                // A failure makes the file system read-only: whoever writes hears of it.
                let _whoever_writes_hears = files.sync_all().await;
            }
        });
    }

    /// Unmounts it; what is open stays usable. On a thread: the kernel may have requests before that is done.
    async fn unmount(&self) {
        let Some(unmounter) = self.0.unmounter.take() else { return };
        let at = self.0.at.clone();
        let done = Arc::<Ending>::default();
        let ends = EndsWithThread(Arc::clone(&done));
        let spawned =
            std::thread::Builder::new().name("unmount".to_owned()).spawn(move || -> io::Result<()> {
                let _ends = ends;
                match unmounter {
                    Unmounter::Fuser(mut it) => it.unmount().or_else(|_busy| detach(&at)),
                    Unmounter::Path => detach(&at),
                }
            });
        done.come().await;
        if let Ok(thread) = spawned
            && let Ok(Err(error)) = thread.join()
        {
            tracing::warn!(target: "evenkeel", "{}: it could not be unmounted: {error}", self.0.at.display());
        }
    }
}

impl<S: Store> Front for Mounted<S> {
    async fn ended(&self) {
        self.0.session.come().await;
    }

    async fn stop(&self) -> Result<(), VolumeError> {
        let inner = &self.0;
        if !inner.session.has_come() {
            self.unmount().await;
            race(inner.session.come(), inner.env.sleep(OPEN_FILES_MAX_NS)).await;
        }
        inner.under_way.close();
        inner.forgotten.close();
        inner.files.long_requests.interrupt_all();
        while inner.under_way.requests() > 0 {
            inner.env.sleep(LOOK_NS).await;
        }
        inner.files.file_system.end_background();
        let Err(error) = inner.files.unmount().await else { return Ok(()) };
        let why = inner.files.file_system.failure().await.unwrap_or_else(|| error.to_string());
        let reason = format!("what was not synced is lost: {why}");
        tracing::error!(target: "evenkeel", "{}: {reason}", inner.at.display());
        Err(VolumeError::Engine { folder: inner.at.clone(), source: Error::Latched(reason.into()) })
    }

    fn status(&self) -> FrontStatus {
        let inner = &self.0;
        let (in_flight, peak) = inner.under_way.bytes();
        let statistics = inner.files.counting.snapshot();
        let connection = ConnectionStatus {
            id: 1,
            peer: inner.at.display().to_string().into(),
            began_ns: inner.began_ns,
            is_open: !inner.session.has_come(),
            has_tls: false,
            requests_in_flight: u32::try_from(inner.under_way.requests()).unwrap_or(u32::MAX),
            in_flight_bytes: in_flight as u64,
            statistics,
        };
        FrontStatus {
            statistics,
            in_flight_bytes: in_flight as u64,
            in_flight_peak_bytes: peak as u64,
            in_flight_max_bytes: UNDER_WAY_MAX_BYTES as u64,
            connections_accepted: 1,
            connections_refused: 0,
            connections_evicted: 0,
            connections: vec![connection],
            file_system: Some(inner.files.figures()),
        }
    }
}
