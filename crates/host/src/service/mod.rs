//! A volume served by a front end ([`crate::front`]), from the first signal that is heard to the last byte that is taken home.
//!
//! ```text
//! mod          lock, take addresses, open, accept, stop
//! listen       the addresses, and who connects there
//! opening      ends the process at a signal where opening the volume holds the loop
//! status       what it does, as one document: over a socket in the volume's folder; mirror_status what a mirror's members do
//! counters     those of the engine, in that document; latencies of requests; recent what was done between two documents
//! metrics      the same for Prometheus, of one moment (scrape)
//! http         both, and a page, over HTTP, in a thread of its own
//! term         the time of one opening of the volume, and what is done for it
//! control      orders to replace a member, to grow or to convert, over another socket; conversion carries the latter out
//! events       what an operator should hear of: lines, counts, and what is wrong now
//! wakefulness  processors that wake quickly while clients ask
//! cache_size   how much memory pages take, where that follows what is free
//! maintenance  of a mirror: scrubs, and members that are slow
//! rejoin       of a mirror: members that answer again
//! salvage      a damaged volume, to be read only
//! ```
//!
//! 1. Every address is taken before anything of the volume is written: a start that cannot listen has changed nothing.
//!    Nobody is accepted before recovery is done.
//! 2. The first SIGTERM, SIGHUP or Ctrl-C lets requests under way finish, makes everything durable and takes it home; the
//!    second, which is no SIGHUP, leaves at once. Then the arena keeps what was acknowledged, as after a kill.
//! 3. Where files had been removed while they were served, without which the volume is not whole, its end is an error.
//! 4. Several volumes can be served by one process, a thread each; each is then told of signals for itself.
//! 5. One connection's end, or a client that cannot be accepted, ends nothing else.
//! 6. A volume that is converted gets a new term, of the volume as it is opened then. Clients stay connected meanwhile.

mod cache_size;
pub mod control;
mod conversion;
mod counters;
pub mod events;
pub mod http;
mod latencies;
mod listen;
mod maintenance;
mod metrics;
pub mod mirror_status;
mod opening;
pub mod recent;
mod rejoin;
pub mod salvage;
#[cfg(test)]
mod samples;
mod scrape;
pub mod status;
mod term;
mod wakefulness;

use std::future::Future;
use std::mem;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use evenkeel_engine::env::Env;
use signal_hook::consts::SIGHUP;

use crate::event_loop::{Loop, Signals, race};
use crate::front::{Front, FrontSetup};
use crate::net::{ByteStream, Listener, Place, SocketAccess, SocketFile};
use crate::path_error::PathError;
use crate::process::cpu_latency::CpuLatency;
use crate::remedy::Advise;
use crate::stop_signals::STOP_SIGNALS;
use crate::volume::convert_served::Converter;
use crate::volume::{LockedVolume, OpenVolume, RunOptions, RunOptionsByLayout, SwitchedVolume, VolumeError};

use conversion::Conversions;
use events::watch::{CopyCommand, Watcher};
use events::{About, Kind, Reporter};
use http::HttpOptions;
use listen::Listeners;
use maintenance::Maintenance;
pub use maintenance::ScrubOptions;
use opening::Opening;
use status::SharedWatched;
use term::Term;

/// How long to wait after a connection could not be accepted: descriptors may be short.
const ACCEPT_AGAIN_NS: u64 = 100_000_000;

/// How long a stop waits for file systems to say where the members' paths lead by now.
const LAST_LOOK_MAX_NS: u64 = 1_000_000_000;

/// An address to listen on.
#[derive(Debug)]
pub enum Address {
    /// A Unix socket, for this user only.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
    /// A socket that listens already.
    Inherited(OwnedFd),
}

/// What to serve, and where.
#[derive(Debug)]
pub struct Options {
    /// Addresses for clients.
    pub clients: Vec<Address>,
    /// Access to the Unix sockets among them.
    pub access: SocketAccess,
    /// `HOST:PORT` of the metrics.
    pub metrics: Option<String>,
    /// Where the page is, if anywhere.
    pub http: Option<HttpOptions>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// How the volume is run.
    pub open: RunOptions,
    /// How it is run once it is converted.
    pub open_converted: RunOptionsByLayout,
    /// Whether the memory for pages follows what is free; it begins with what [`Self::open`] says.
    pub cache_follows_memory: bool,
    /// How quickly processors are to wake while clients ask, where somebody wants that.
    pub cpu_latency: Option<CpuLatency>,
    /// How a mirror is scrubbed.
    pub scrub: ScrubOptions,
    /// Whether members of a mirror that answer again are taken back.
    pub rejoins: bool,
    /// A pipe of which each byte is a signal for this volume alone; `None` where signals of the process are meant.
    pub signals: Option<OwnedFd>,
    /// Says why the process ends where nothing else can, since its loop is held.
    pub tell_end: fn(&str),
    /// What an operator is told to do, in the words of the program that serves.
    pub advise: Advise,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Everything is durable and home.
    Closed,
    /// Everything is durable and home, but files had been removed without which the volume is not whole: which, and what
    /// is left to do.
    Gone(String),
    /// A signal came before the volume was open: nothing was served.
    BeforeServing,
    /// A second signal came: what was acknowledged is kept in memory until the next opening.
    AtOnce {
        /// Which files went with the server, as they had been removed, where the next opening cannot do without them.
        gone: Option<String>,
    },
}

/// Moments that somebody may want to hear of.
#[derive(Debug)]
pub enum Event<'a> {
    /// Clients may connect.
    Ready {
        /// The volume.
        volume: &'a OpenVolume,
        /// The places where they may: one for each of [`Options::clients`]; `None` for a socket that has no name.
        places: Vec<Option<Place>>,
        /// The address of the metrics.
        metrics: Option<std::net::SocketAddr>,
        /// The address of the page.
        http: Option<std::net::SocketAddr>,
    },
    /// A signal came; the volume is being closed.
    Stopping,
}

/// Serves the volume in `folder` by the front end of `setup`, until a signal comes.
///
/// # Errors
///
/// Those of opening it and of listening; the volume's failure where it could not be closed.
pub async fn run(
    event_loop: &Loop,
    folder: &Path,
    setup: impl FrontSetup<SwitchedVolume>,
    mut options: Options,
    tell: impl Fn(Event<'_>) + 'static,
) -> Result<Ended, VolumeError> {
    let cannot_listen = |error| PathError::new(folder, "cannot listen for signals", error);
    let is_alone = options.signals.is_none();
    let signals = match options.signals.take() {
        None => event_loop.signals(&STOP_SIGNALS),
        Some(pipe) => event_loop.passed_on_signals(pipe),
    };
    let signals = signals.map_err(cannot_listen)?;
    let reporter = Reporter::new(event_loop, folder.display().to_string(), options.advise);
    let locked = LockedVolume::lock(folder)?;
    let listeners = {
        let (metrics, http) = (options.metrics.as_deref(), options.http.as_ref());
        Listeners::take(event_loop, &locked, mem::take(&mut options.clients), options.access, metrics, http)?
    };
    reporter.report(
        Kind::Starting,
        &About::default(),
        "starting: what a cut or a kill left undone is done first",
    );
    let places = listen::places(&listeners.clients);
    let reachable = places.iter().flatten().cloned();
    listen::warn_of_open_addresses(&reporter, reachable, options.access, setup.protection());
    listen::warn_of_open_sites(&reporter, &listeners);
    // One of several ends no process.
    let opening = is_alone.then(|| Opening::begin(options.tell_end)).transpose().map_err(cannot_listen)?;
    let opened = race(async { Some(locked.open(event_loop, options.open).await) }, async {
        let _came = signals.next().await;
        None
    });
    let Some(open) = opened.await else {
        // What is under way may hold the end of the loop as well.
        opening.into_iter().for_each(Opening::stay);
        return Ok(Ended::BeforeServing);
    };
    let mut open = open?;
    drop(opening);

    let copy = places.iter().flatten().next().and_then(|at| {
        let socket = match at {
            Place::Unix(path) => Some(path.clone()),
            Place::Tcp(_) => None,
        };
        Some(Rc::new(CopyCommand { command: setup.copy_command(at)?, socket }))
    });
    let sockets: Rc<[SocketFile]> = listeners.files().into();
    let watch = |term: &Term, open: &OpenVolume| {
        let (reporter, copy, sockets) = (reporter.clone(), copy.clone(), Rc::clone(&sockets));
        Watcher::begin(event_loop, term, open, reporter, copy, (sockets, is_alone))
    };
    let mut term = Term::begin(event_loop);
    let mut watcher = watch(&term, &open);
    let switched = SwitchedVolume::new(open.volume.clone());
    let begun =
        race(async { Some(setup.begin(event_loop, switched.clone(), options.read_only).await) }, async {
            let _came = signals.next().await;
            None
        });
    let front = match begun.await {
        Some(Ok(front)) => front,
        Some(Err(error)) => {
            open.close().await?;
            return Err(error);
        }
        None => {
            open.close().await?;
            return Ok(Ended::BeforeServing);
        }
    };
    let [metrics, http] = [&listeners.metrics, &listeners.http].map(|site| site.as_ref().map(|site| site.at));
    // Nobody is accepted before the loop runs again.
    for listener in listeners.clients {
        listen::accept(event_loop, listener, front.clone(), reporter.clone());
    }
    if let Some(latency) = options.cpu_latency.take() {
        wakefulness::follow(event_loop, latency);
    }
    let conversions = Conversions::default();
    let workers = |open: &OpenVolume| {
        let keeps_it = options.read_only || options.open.keeps_writes;
        let converter =
            (!keeps_it).then(|| Converter::new(event_loop, open, &switched, options.open_converted));
        let (replacer, grower) = (open.replacer(), open.grower());
        control::Workers { replacer, grower, converter, advise: options.advise }
    };
    let desk = control::Desk::new(event_loop, workers(&open), &conversions, &reporter);
    control::serve(event_loop, listeners.control, &desk);
    let serving = status::Serving::begin(event_loop, options.read_only);
    let work = |term: &Term, open: &OpenVolume, watcher: &Watcher| {
        let what = Work { term, open, watcher, options: &options };
        let maintenance = what.begin(event_loop);
        let (front, watcher) = (front.clone(), watcher.clone());
        status::Watched::new(event_loop, serving, open, front, maintenance, &conversions, watcher)
    };
    let watched = SharedWatched::new(work(&term, &open, &watcher));
    serve_status(event_loop, listeners.status, watched.clone());
    let sites = listeners.metrics.into_iter().chain(listeners.http).collect();
    let begun = http::serve(event_loop, sites, watched.clone(), options.advise);
    let _answers_until_the_end = match begun {
        Ok(server) => server,
        Err(error) => {
            open.close().await?;
            return Err(VolumeError::Refused(format!("cannot answer over HTTP: {error}")));
        }
    };
    let ready = format!("ready: clients may connect to this volume of layout {}", open.description().layout);
    reporter.report(Kind::Ready, &About::default(), ready);
    tell(Event::Ready { volume: &open, places, metrics, http });
    let mut is_over = false;
    while !is_over {
        let ends = async {
            race(front.ended(), async {
                let _came = signals.next().await;
            })
            .await;
            true
        };
        let switches = async {
            conversions.switches().await;
            false
        };
        is_over = race(ends, switches).await;
        if is_over && !soon(&signals, conversions.stop()).await {
            return Ok(Ended::AtOnce { gone: watcher.gone() });
        }
        if let Some(next) = conversions.take() {
            term.end();
            term = Term::begin(event_loop);
            watcher = watch(&term, &next);
            desk.put(workers(&next));
            watched.put(work(&term, &next, &watcher));
            let converted = format!("converted: layout {} from now on", next.description().layout);
            reporter.report(Kind::ConversionEnded, &About::default(), converted);
            conversions.give_back(mem::replace(&mut open, next));
        }
    }
    let stopping = "stopping: what is acknowledged is made durable (a second signal ends at once)";
    reporter.report(Kind::Stopping, &About::default(), stopping);
    watcher.look_at_lengths();
    watcher.stopping();
    tell(Event::Stopping);
    if !stop(&signals, &front, open).await? || !soon(&signals, conversions.end()).await {
        return Ok(Ended::AtOnce { gone: watcher.gone() });
    }
    if let Some(what) = watcher.gone() {
        return Ok(Ended::Gone(what));
    }
    race(watcher.look_at_paths(), event_loop.sleep(LAST_LOOK_MAX_NS)).await;
    let stopped = format!("stopped: everything is durable and home{}", watcher.not_found_again());
    reporter.report(Kind::Stopped, &About::default(), stopped);
    Ok(Ended::Closed)
}

/// What is done for an open volume for as long as its term lasts.
struct Work<'a> {
    term: &'a Term,
    open: &'a OpenVolume,
    watcher: &'a Watcher,
    options: &'a Options,
}

impl Work<'_> {
    /// Begins it; answers the maintenance of a mirror, if the volume is one.
    fn begin(&self, event_loop: &Loop) -> Maintenance {
        let Self { term, open, watcher, options } = *self;
        if options.cache_follows_memory {
            cache_size::follow(event_loop, term, &open.volume);
        }
        let Some(mirror) = open.mirror() else { return Maintenance::default() };
        if let (true, Some(replacer)) = (options.rejoins, open.replacer()) {
            rejoin::begin(event_loop, term, mirror, replacer, watcher);
        }
        Maintenance::begin(event_loop, term, &open.volume, mirror, options.scrub, watcher)
    }
}

/// Closes the volume, unless a second signal comes before: whether it is closed.
async fn stop(signals: &Signals, front: &impl Front, open: OpenVolume) -> Result<bool, VolumeError> {
    let mut closed = Ok(());
    let is_closed = soon(signals, async {
        let ended = front.stop().await;
        closed = open.close().await.and(ended);
    });
    let is_closed = is_closed.await;
    closed.map(|()| is_closed)
}

/// Does `work` unless a second signal comes before: whether it is done.
async fn soon(signals: &Signals, work: impl Future<Output = ()>) -> bool {
    let done = async {
        work.await;
        true
    };
    let second = async {
        // A terminal that closes may tell its shell and the kernel, and both tell the server.
        while matches!(signals.next().await, Ok(SIGHUP)) {}
        false
    };
    race(done, second).await
}

fn serve_status(event_loop: &Loop, listener: Listener, watched: SharedWatched) {
    let env = event_loop.clone();
    event_loop.spawn(async move {
        loop {
            let Ok(stream) = listener.accept().await else {
                env.sleep(ACCEPT_AGAIN_NS).await;
                continue;
            };
            let document = watched.now().document().to_json().into_bytes();
            let limit = env.clone();
            env.spawn(async move {
                let write = async {
                    let _a_reader_that_left_is_fine = stream.write(document).await;
                };
                race(write, limit.sleep(10 * ACCEPT_AGAIN_NS)).await;
                stream.shutdown();
            });
        }
    });
}
