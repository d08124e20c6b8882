//! The thread of an embedded volume: an event loop, the volume on it, and a task for each request.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::{mem, thread};

use evenkeel_engine::device::FlushScope;
use evenkeel_engine::env::Env;

use super::pending;
use super::queue::{Admitted, Ending, Job, Queue};
use super::reply::Reply;
use super::{Creation, Description, Error, Facts, Options, Pending, Status, Volume};
use crate::event_loop::{Backend, EventLoop, Loop};
use crate::volume::{LocalVolume, OpenVolume};

/// Makes a volume on a thread of its own.
pub(super) fn create(request: Creation) -> Pending<Description> {
    start("evenkeel create", move |reply| {
        let made = EventLoop::new(Backend::Auto).map_err(Error::Thread).and_then(|event_loop| {
            let handle = event_loop.handle();
            let created = crate::volume::create::create(&handle, &request, |_, _, _| ());
            event_loop.block_on(created).map_err(Error::from)
        });
        reply.put(made);
    })
}

/// Opens a volume on a thread of its own, which carries out what its handles ask for until it ends.
pub(super) fn open(folder: PathBuf, options: Options) -> Pending<Volume> {
    start("evenkeel volume", move |reply| {
        let event_loop = match EventLoop::new(options.backend) {
            Ok(event_loop) => event_loop,
            Err(error) => return reply.put(Err(Error::Thread(error))),
        };
        let handle = event_loop.handle();
        if let Some((told, reply)) = event_loop.block_on(serve(&handle, &folder, options, reply)) {
            // Whoever is told may open it again at once: nothing of it is left here by then.
            drop(event_loop);
            reply.put(told);
        }
    })
}

fn start<T: Send + 'static>(name: &str, run: impl FnOnce(Reply<T>) + Send + 'static) -> Pending<T> {
    let (reply, pending) = pending::pair();
    match thread::Builder::new().name(name.to_owned()).spawn(move || run(reply)) {
        Ok(_detached) => pending,
        Err(error) => Pending::ready(Err(Error::Thread(error))),
    }
}

/// Tells everyone that the thread is gone, however it goes.
struct Abandon(Arc<Queue>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

type Told = (Result<(), Error>, Reply<()>);

async fn serve(event_loop: &Loop, folder: &Path, options: Options, opened: Reply<Volume>) -> Option<Told> {
    let open = match OpenVolume::open(event_loop, folder, options.open).await {
        Ok(open) => open,
        Err(error) => {
            opened.put(Err(error.into()));
            return None;
        }
    };
    let queue = Queue::new(options.under_way_max_bytes);
    let _abandon = Abandon(Arc::clone(&queue));
    let facts = Facts {
        size_bytes: open.volume.size_bytes(),
        atomic_max_bytes: open.volume.atomic_max_bytes(),
        commit_max_bytes: open.volume.commit_max_bytes(),
    };
    opened.put(Ok(Volume::new(Arc::clone(&queue), facts)));

    let running = Rc::new(Running::default());
    let mut batch = Vec::new();
    let ending = loop {
        let ending = queue.take(&mut batch).await;
        for admitted in batch.drain(..) {
            let (volume, running) = (open.volume.clone(), Running::one_more(&running));
            event_loop.spawn(async move {
                let Admitted { job, room } = admitted;
                carry_out(job, &volume).await;
                drop((room, running));
            });
        }
        if let Some(ending) = ending {
            break ending;
        }
    };
    running.none().await;
    match ending {
        Ending::Dropped => None,
        Ending::Close(reply) => Some((open.close().await.map_err(Error::from), reply)),
    }
}

async fn carry_out(job: Job, volume: &LocalVolume) {
    match job {
        Job::Write { offset, bytes, durability, reply } => {
            reply.put(volume.write(offset, &bytes, durability).await.map_err(Error::from));
        }
        Job::Commit { parts, bytes, reply } => {
            let mut rest = &bytes[..];
            let ranges: Vec<(u64, &[u8])> = parts
                .iter()
                .map(|&(offset, len)| {
                    let (part, after) = rest.split_at(len);
                    rest = after;
                    (offset, part)
                })
                .collect();
            reply.put(volume.commit(&ranges).await.map_err(Error::from));
        }
        Job::Flush { extents, reply } => {
            reply.put(volume.flush(FlushScope::Ranges(&extents)).await.map_err(Error::from));
        }
        Job::Read { offset, len, reply } => {
            let mut into = vec![0; len];
            let read = volume.read(offset, &mut into).await;
            reply.put(read.map(|()| into).map_err(Error::from));
        }
        Job::Zero { extent, durability, reply } => {
            reply.put(volume.write_zeroes(extent, durability).await.map_err(Error::from));
        }
        Job::Checkpoint { reply } => reply.put(volume.checkpoint().await.map_err(Error::from)),
        Job::Status { reply } => {
            reply.put(Ok(Status { occupancy: volume.occupancy(), counters: volume.counters() }));
        }
    }
}

/// Requests that are being carried out.
#[derive(Default)]
struct Running {
    count: Cell<usize>,
    waits: RefCell<Option<Waker>>,
}

/// One of them.
struct One(Rc<Running>);

impl Running {
    fn one_more(running: &Rc<Self>) -> One {
        running.count.set(running.count.get() + 1);
        One(Rc::clone(running))
    }

    /// Ends once there are none.
    async fn none(&self) {
        poll_fn(|context| {
            if self.count.get() == 0 {
                return Poll::Ready(());
            }
            *self.waits.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        if self.0.count.get() == 0
            && let Some(waker) = mem::take(&mut *self.0.waits.borrow_mut())
        {
            waker.wake();
        }
    }
}
