//! `evenkeel serve`.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use evenkeel_engine::options::{Journaling, OpenOptions};
use evenkeel_engine::ring::{Policy, RingOptions};
use evenkeel_host::cpu_latency::CpuLatency;
use evenkeel_host::event_loop::Backend;
use evenkeel_host::front::nbd::NbdSetup;
use evenkeel_host::net::Place;
use evenkeel_host::service::{self, Address, Ended, Event, Options, ScrubOptions};
use evenkeel_host::volume::description::Description;
use evenkeel_host::volume::{RunOptions, RunOptionsByLayout, VolumeError};

use super::advice::advise;
use super::listening::{access, addresses, nbd_setup, on_read_only, shown};
use super::serve_limits::check_values;
use super::tune::{chosen, chosen_turn_s};
use super::{event_loop, recovered, serve_salvage, with_salvage};
use crate::args::{BackendArg, CacheArg, JournalingArg, MirrorArgs, PolicyArg, RejoinArg, ServeArgs};
use crate::failure::Failure;
use crate::logging;
use crate::stdout::announce;

/// From this size on a write goes straight home, unless it was chosen.
pub(super) const STRAIGHT_HOME_BYTES: u64 = 256 << 10;

/// Memory for pages unless it was chosen.
const CACHE_BYTES: u64 = 64 << 20;

/// What a mirror's members are expected to take in a second: pages that wait for two turns of each are kept in memory,
/// and as many that come meanwhile.
const DRAINED_BYTES_PER_S: f64 = 64.0 * 1024.0 * 1024.0;

/// Serves a volume until a signal comes.
pub(crate) fn run(args: &ServeArgs) -> Result<(), Failure> {
    logging::begin(args.log_format, args.log_level, &args.volume);
    check_values(&args.mirror, args.cache.bytes())?;
    let nbd = addresses(args)?;
    if args.salvage {
        let access = access(args, &nbd)?;
        return serve_salvage::run(args, nbd, access);
    }
    let (setup, options) = prepare(args, nbd)?;
    evenkeel_host::allocator::give_back_what_is_large();
    evenkeel_host::writeback::serves_writeback();
    if args.lock_memory {
        evenkeel_host::writeback::lock_memory()
            .map_err(|error| Failure::Unusable(format!("--lock-memory: {error}")))?;
    }
    let event_loop = event_loop(backend(args))?;
    let has_tls = args.tls.is_some();
    let tell = move |event: Event<'_>| match event {
        Event::Ready { volume, places, metrics, http } => {
            let _no_service_manager = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
            announce(recovered(volume.recovered) + &said_of_places(&places, has_tls, metrics, http));
        }
        Event::Stopping => {
            let _no_service_manager = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        }
    };
    let handle = event_loop.handle();
    let ended = event_loop.block_on(service::run(&handle, &args.volume, setup, options, tell));
    told_end(&args.volume, ended)
}

/// What is to be served, and how, at these addresses.
pub(super) fn prepare(args: &ServeArgs, nbd: Vec<Address>) -> Result<(NbdSetup, Options), Failure> {
    check_values(&args.mirror, args.cache.bytes())?;
    let access = access(args, &nbd)?;
    let journaling = match args.journaling {
        JournalingArg::Wasteless => Journaling::Wasteless,
        JournalingArg::Selective => selective(&args.volume, args.threshold)?,
        JournalingArg::WholePages => Journaling::WholePages,
        JournalingArg::Ordered => Journaling::Ordered,
    };
    let converted = match args.journaling {
        JournalingArg::Selective => selective_from(args.threshold.or(Some(STRAIGHT_HOME_BYTES))),
        _ => journaling,
    };
    let open = run_options(&args.volume, journaling, args.cache.bytes(), &args.mirror)?;
    let options = Options {
        clients: nbd,
        access,
        metrics: args.metrics.clone(),
        http: args.http.options(),
        read_only: args.read_only,
        open,
        open_converted: converted_options(converted, args.cache.bytes(), &args.mirror),
        // What was touched once stays with the server then.
        cache_follows_memory: args.cache == CacheArg::Auto && !args.lock_memory,
        cpu_latency: cpu_latency(args.cpu_latency)?,
        scrub: ScrubOptions {
            every_s: args.mirror.scrub_every.0,
            bytes_per_s: args.mirror.scrub_rate as u64,
        },
        rejoins: args.mirror.rejoin == RejoinArg::Auto,
        signals: None,
        tell_end: logging::tell_last_words,
        advise,
    };
    Ok((nbd_setup(args)?, options))
}

/// How quickly processors are to wake while clients ask.
pub(super) fn cpu_latency(max_s: Option<f64>) -> Result<Option<CpuLatency>, Failure> {
    let wanted = max_s.map(|max_s| CpuLatency::new(Duration::from_secs_f64(max_s))).transpose();
    wanted.map_err(|error| {
        Failure::Unusable(format!(
            "--cpu-latency: /dev/cpu_dma_latency: {error}; run as root, or leave it out"
        ))
    })
}

/// The interface to the kernel.
pub(super) fn backend(args: &ServeArgs) -> Backend {
    match args.backend {
        BackendArg::Auto => Backend::Auto,
        BackendArg::IoUring => Backend::Uring,
        BackendArg::Threads => Backend::Threads,
    }
}

/// A line for each place where the volume can be reached, or looked at.
pub(super) fn said_of_places(
    places: &[Option<Place>],
    has_tls: bool,
    metrics: Option<SocketAddr>,
    http: Option<SocketAddr>,
) -> String {
    let mut text = String::new();
    places
        .iter()
        .for_each(|at| writeln!(text, "ready: {}", shown(at.as_ref(), has_tls)).expect("it is memory"));
    text + &said_of_sites(metrics, http)
}

/// The same of what answers over HTTP.
pub(super) fn said_of_sites(metrics: Option<SocketAddr>, http: Option<SocketAddr>) -> String {
    let mut text = String::new();
    metrics.iter().for_each(|at| writeln!(text, "metrics: http://{at}/metrics").expect("it is memory"));
    http.iter().for_each(|at| writeln!(text, "page: http://{at}/").expect("it is memory"));
    text
}

/// For how long a member writes at most, unless something else was chosen.
pub(super) fn default_turn_s() -> f64 {
    RingOptions::default().turn_ns as f64 / 1e9
}

/// How a volume is run.
pub(super) fn run_options(
    volume: &Path,
    journaling: Journaling,
    cache_bytes: Option<u64>,
    mirror: &MirrorArgs,
) -> Result<RunOptions, Failure> {
    let (description, _) = Description::read(volume)?;
    let turn_s = mirror.turn.or_else(|| chosen_turn_s(&description)).unwrap_or_else(default_turn_s);
    let mut volume = open_options(description.layout.is_ring(), journaling, cache_bytes, turn_s);
    if let Some(chosen) = chosen(&description) {
        volume.batch_max_bytes = usize::try_from(chosen.batch_max_bytes).unwrap_or(usize::MAX);
    }
    Ok(RunOptions { volume, ring: ring_options(mirror, turn_s), keeps_writes: false })
}

/// The same once it is converted: what was chosen for its drives is forgotten then.
pub(super) fn converted_options(
    journaling: Journaling,
    cache_bytes: Option<u64>,
    mirror: &MirrorArgs,
) -> RunOptionsByLayout {
    let turn_s = mirror.turn.unwrap_or_else(default_turn_s);
    let [single, ring] = [false, true].map(|is_ring| RunOptions {
        volume: open_options(is_ring, journaling, cache_bytes, turn_s),
        ring: ring_options(mirror, turn_s),
        keeps_writes: false,
    });
    RunOptionsByLayout { single, ring }
}

/// Selective journaling with a threshold that was typed, or was chosen for the volume, or as it is otherwise.
pub(super) fn selective(volume: &Path, typed_bytes: Option<u64>) -> Result<Journaling, Failure> {
    let (description, _) = Description::read(volume)?;
    let threshold_bytes = typed_bytes.or_else(|| match chosen(&description) {
        Some(chosen) => chosen.threshold_bytes,
        None => Some(STRAIGHT_HOME_BYTES),
    });
    Ok(selective_from(threshold_bytes))
}

/// Selective journaling from so many bytes on, or never.
pub(super) fn selective_from(threshold_bytes: Option<u64>) -> Journaling {
    threshold_bytes.map_or(Journaling::Wasteless, |threshold_bytes| Journaling::Selective { threshold_bytes })
}

/// How a volume is run whose memory nobody chose.
pub(super) fn cache_options(is_ring: bool, journaling: Journaling) -> OpenOptions {
    open_options(is_ring, journaling, None, default_turn_s())
}

/// Memory for pages of a ring with turns of this length, unless it was chosen.
pub(super) fn ring_cache_bytes(turn_s: f64) -> u64 {
    CACHE_BYTES + (4.0 * turn_s * DRAINED_BYTES_PER_S) as u64
}

fn open_options(is_ring: bool, journaling: Journaling, cache_bytes: Option<u64>, turn_s: f64) -> OpenOptions {
    let cache_bytes = cache_bytes.unwrap_or_else(|| match is_ring {
        false => CACHE_BYTES,
        true => ring_cache_bytes(turn_s),
    });
    let dirty_pages_max = match is_ring {
        false => OpenOptions::default().dirty_pages_max,
        true => usize::MAX, // as many as the cache and the log allow
    };
    OpenOptions { journaling, dirty_pages_max, ..OpenOptions::default() }
        .with_pages_max(usize::try_from(cache_bytes / 4096).unwrap_or(usize::MAX))
}

/// What is said of the end of a server.
pub(super) fn told_end(volume: &Path, ended: Result<Ended, VolumeError>) -> Result<(), Failure> {
    match ended {
        Ok(Ended::Closed) => Ok(()),
        Ok(Ended::Gone(what)) => Err(Failure::No(format!("{}: {what}", volume.display()))),
        Ok(Ended::BeforeServing) => {
            Err(Failure::Stopped("interrupted before it was served; nothing is lost".to_owned()))
        }
        Ok(Ended::AtOnce { gone }) => {
            match gone {
                Some(gone) => {
                    tracing::error!(target: "evenkeel", event = "ended", volume = logging::volume(), "ended at once: {gone}");
                }
                None => tracing::info!(
                    target: "evenkeel",
                    event = "ended",
                    volume = logging::volume(),
                    "ended at once: what was acknowledged is kept until the next start"
                ),
            }
            // Nothing is waited for: what is under way ends with the process, as after a kill.
            std::process::exit(evenkeel_host::interrupt::EXIT_INTERRUPTED);
        }
        Err(error) => Err(failure_of(volume, error)),
    }
}

/// What is said of a volume that could not be served, or not to its end.
pub(super) fn failure_of(volume: &Path, error: VolumeError) -> Failure {
    match error {
        VolumeError::Engine { folder, source: evenkeel_engine::error::Error::Latched(reason) } => {
            Failure::No(format!("{}: it failed while it was served: {reason}", folder.display()))
        }
        error => on_read_only(&error).unwrap_or_else(|| with_salvage(volume, error)),
    }
}

fn ring_options(args: &MirrorArgs, turn_s: f64) -> RingOptions {
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    RingOptions {
        policy: match args.policy {
            PolicyArg::Auto => Policy::Auto,
            PolicyArg::Turns => Policy::Turns,
            PolicyArg::Mixed => Policy::Mixed,
            PolicyArg::ReadFirst => Policy::ReadFirst,
            PolicyArg::ReadAround => Policy::ReadAround,
        },
        turn_ns: ns(turn_s),
        rest_ns: ns(args.rest),
        rest_max_ns: ns(args.rest_max),
        answer_max_ns: ns(args.answer_max),
        rebuild_bytes_per_s: args.rebuild_rate as u64,
        ..RingOptions::default()
    }
}
