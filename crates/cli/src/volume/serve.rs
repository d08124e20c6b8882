//! `evenkeel serve`.

use std::fmt::{Display, Write as _};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use evenkeel_engine::options::{Journaling, OpenOptions};
use evenkeel_engine::ring::{Policy, RingOptions};
use evenkeel_host::conditions::Machine;
use evenkeel_host::event_loop::Backend;
use evenkeel_host::front::nbd::NbdSetup;
use evenkeel_host::front::nbd::limits::Limits;
use evenkeel_host::group;
use evenkeel_host::nbd::tls::TlsServer;
use evenkeel_host::nbd::uri::of_place;
use evenkeel_host::net::{Place, SocketAccess};
use evenkeel_host::service::{self, Address, Ended, Event, Options, ScrubOptions};
use evenkeel_host::volume::description::{Description, LayoutKind};
use evenkeel_host::volume::{NBD_SOCKET, RunOptions, VolumeError};
use evenkeel_measure::report::format;

use super::advice::advise;
use super::{event_loop, recovered, with_salvage};
use crate::args::{BackendArg, JournalingArg, MirrorArgs, NbdArg, PolicyArg, ServeArgs};
use crate::failure::Failure;
use crate::logging;
use crate::stdout::announce;

/// Memory for pages unless it was chosen.
const CACHE_BYTES: u64 = 64 << 20;

/// What a mirror's members are expected to take in a second: pages that wait for two turns of each are kept in memory,
/// and as many that come meanwhile.
const DRAINED_BYTES_PER_S: f64 = 64.0 * 1024.0 * 1024.0;

/// Serves a volume until a signal comes.
pub(crate) fn run(args: &ServeArgs) -> Result<(), Failure> {
    logging::begin(args.log_format, args.log_level, &args.volume);
    check_values(args)?;
    let nbd = addresses(args)?;
    let access = access(args, &nbd)?;
    if args.salvage {
        return super::serve_salvage::run(args, nbd, access);
    }
    let journaling = match args.journaling {
        JournalingArg::Wasteless => Journaling::Wasteless,
        JournalingArg::Selective => Journaling::Selective { threshold_bytes: args.threshold },
        JournalingArg::WholePages => Journaling::WholePages,
        JournalingArg::Ordered => Journaling::Ordered,
    };
    let (description, _) = Description::read(&args.volume)?;
    let cache_bytes = args.cache.unwrap_or_else(|| match description.layout {
        LayoutKind::Single => CACHE_BYTES,
        LayoutKind::Mirror => CACHE_BYTES + (4.0 * args.mirror.turn * DRAINED_BYTES_PER_S) as u64,
    });
    let dirty_pages_max = match description.layout {
        LayoutKind::Single => OpenOptions::default().dirty_pages_max,
        LayoutKind::Mirror => usize::MAX, // as many as the cache and the log allow
    };
    let volume = OpenOptions { journaling, dirty_pages_max, ..OpenOptions::default() }
        .with_pages_max(usize::try_from(cache_bytes / 4096).unwrap_or(usize::MAX));
    let open = RunOptions { volume, ring: ring_options(&args.mirror), keeps_writes: false };
    let setup = nbd_setup(args)?;
    let options = Options {
        clients: nbd,
        access,
        metrics: args.metrics.clone(),
        read_only: args.read_only,
        open,
        scrub: ScrubOptions {
            every_s: args.mirror.scrub_every.0,
            bytes_per_s: args.mirror.scrub_rate as u64,
        },
        tell_end: logging::tell_last_words,
        advise,
    };
    let backend = match args.backend {
        BackendArg::Auto => Backend::Auto,
        BackendArg::IoUring => Backend::Uring,
        BackendArg::Threads => Backend::Threads,
    };
    evenkeel_host::allocator::give_back_what_is_large();
    evenkeel_host::writeback::serves_writeback();
    if args.lock_memory {
        evenkeel_host::writeback::lock_memory()
            .map_err(|error| Failure::Unusable(format!("--lock-memory: {error}")))?;
    }
    let event_loop = event_loop(backend)?;
    let has_tls = args.tls.is_some();
    let shown = move |at: &Option<Place>| match at {
        Some(place) => of_place(place, has_tls),
        None => "on a socket without a path, handed over".to_owned(),
    };
    let tell = move |event: Event<'_>| match event {
        Event::Ready { volume, places, metrics } => {
            let _no_service_manager = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
            let mut text = recovered(volume.recovered);
            places.iter().for_each(|at| writeln!(text, "ready: {}", shown(at)).expect("as above"));
            metrics.iter().for_each(|at| writeln!(text, "metrics: http://{at}/metrics").expect("as above"));
            announce(text);
        }
        Event::Stopping => {
            let _no_service_manager = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        }
    };
    let handle = event_loop.handle();
    let ended = event_loop.block_on(service::run(&handle, &args.volume, setup, options, tell));
    match ended {
        Ok(Ended::Closed) => Ok(()),
        Ok(Ended::Gone(what)) => Err(Failure::No(format!("{}: {what}", args.volume.display()))),
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
        Err(VolumeError::Engine { folder, source: evenkeel_engine::error::Error::Latched(reason) }) => {
            Err(Failure::No(format!("{}: it failed while it was served: {reason}", folder.display())))
        }
        Err(error) => Err(match on_read_only(&error) {
            Some(failure) => failure,
            None => with_salvage(&args.volume, error),
        }),
    }
}

/// How volumes are served over NBD.
pub(super) fn nbd_setup(args: &ServeArgs) -> Result<NbdSetup, Failure> {
    let tls = args.tls.as_ref().map(|folder| {
        let refused = |error| Failure::Unusable(format!("--tls {}: {error}", folder.display()));
        TlsServer::from_folder(folder).map_err(refused)
    });
    let limits = Limits { connections_max: args.connections as usize, ..Limits::default() };
    Ok(NbdSetup { limits, tls: tls.transpose()? })
}

/// Why nothing was served, where that is a file system to which nothing can be written.
pub(super) fn on_read_only(error: &VolumeError) -> Option<Failure> {
    match error {
        VolumeError::Path(path) if path.source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            Some(Failure::Unusable(format!(
                "{error}; the file system is read-only: mount it to be written to, or serve what is there to be read: \
                 --salvage --nbd unix:SOCKET, with the socket elsewhere"
            )))
        }
        _ => None,
    }
}

/// Least memory for pages.
const CACHE_MIN_BYTES: u64 = 1 << 20;

/// Least that a rebuild or a search for rot may do in a second: less comes to no end.
const RATE_MIN_BYTES_PER_S: f64 = 65_536.0;

/// That nothing was typed with which no volume could be served well, such as milliseconds for seconds.
fn check_values(args: &ServeArgs) -> Result<(), Failure> {
    let MirrorArgs { turn, rest, rest_max, answer_max, rebuild_rate, scrub_rate, .. } = args.mirror;
    let refused = |what: &str, why: &str| Err(Failure::Unusable(format!("{what}: {why}")));
    let within = |name: &str, value_s: f64, least_s: f64, most_s: f64| match value_s {
        _ if value_s < least_s => refused(
            &format!("{name} {}", format::seconds(value_s)),
            &format!("choose {} at least", format::seconds(least_s)),
        ),
        _ if value_s > most_s => refused(
            &format!("{name} {}", format::duration(value_s)),
            &format!("choose {} at most", format::duration(most_s)),
        ),
        _ => Ok(()),
    };
    within("--turn", turn, 0.01, 60.0)?;
    within("--rest-max", rest_max, 0.0, 60.0)?;
    // What fails for being late is lost until it is rebuilt: a busy drive is not that.
    within("--answer-max", answer_max, 0.1, 3600.0)?;
    within("--scrub-every", args.mirror.scrub_every.0.unwrap_or(1.0), 1.0, f64::INFINITY)?;
    if rest > rest_max {
        let (rest, rest_max) = (format::seconds(rest), format::seconds(rest_max));
        return refused(
            &format!("--rest {rest}"),
            &format!(
                "it is longer than --rest-max, {rest_max}, after which a member is read anyway; choose less, or more for that"
            ),
        );
    }
    for (name, rate) in [("--rebuild-rate", rebuild_rate), ("--scrub-rate", scrub_rate)] {
        if rate < RATE_MIN_BYTES_PER_S {
            return refused(
                &format!("{name} {rate} bytes in a second"),
                "choose 64KiB/s at least, such as 64MiB/s",
            );
        }
    }
    if args.cache.is_some_and(|bytes| bytes < CACHE_MIN_BYTES) {
        return refused(&format!("--cache {}", args.cache.unwrap_or(0)), "choose 1m at least, such as 64m");
    }
    let memory_bytes = Machine::this().memory_bytes;
    if let Some(cache) = args.cache.filter(|&cache| memory_bytes > 0 && cache > memory_bytes) {
        return refused(
            &format!("--cache {}", format::bytes_f64(cache as f64)),
            &format!(
                "this machine has {} of memory; choose less, such as 64m",
                format::bytes_f64(memory_bytes as f64)
            ),
        );
    }
    Ok(())
}

fn ring_options(args: &MirrorArgs) -> RingOptions {
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    RingOptions {
        policy: match args.policy {
            PolicyArg::Turns => Policy::Turns,
            PolicyArg::Mixed => Policy::Mixed,
            PolicyArg::ReadFirst => Policy::ReadFirst,
            PolicyArg::ReadAround => Policy::ReadAround,
        },
        turn_ns: ns(args.turn),
        rest_ns: ns(args.rest),
        rest_max_ns: ns(args.rest_max),
        answer_max_ns: ns(args.answer_max),
        rebuild_bytes_per_s: args.rebuild_rate as u64,
        ..RingOptions::default()
    }
}

/// Who may connect to the Unix sockets.
fn access(args: &ServeArgs, nbd: &[Address]) -> Result<SocketAccess, Failure> {
    let is_asked = args.socket_mode.is_some();
    if is_asked && !nbd.iter().any(|address| matches!(address, Address::Unix(_))) {
        return Err(Failure::Unusable(
            "--socket-mode is for Unix sockets that the server makes: name one with --nbd unix:SOCKET, or leave it out"
                .to_owned(),
        ));
    }
    if let (Some(mode), Some(group)) = (args.socket_mode, &args.socket_group)
        && mode & 0o020 == 0
    {
        return Err(Failure::Unusable(format!(
            "--socket-mode {mode:o}: it does not let the group {group} in, which has to write there: choose 660, or leave \
             --socket-group out"
        )));
    }
    let group = args.socket_group.as_deref().map(|name| {
        let unknown = |why: &dyn Display| Failure::Unusable(format!("--socket-group {name}: {why}"));
        match group::id_of(name) {
            Ok(Some(id)) => Ok(id),
            Ok(None) => Err(unknown(&"there is no such group; `getent group` lists them")),
            Err(error) => Err(unknown(&error)),
        }
    });
    Ok(SocketAccess { mode: args.socket_mode, group: group.transpose()? })
}

/// Where to listen.
fn addresses(args: &ServeArgs) -> Result<Vec<Address>, Failure> {
    let handed_over = sd_notify::listen_fds().map_err(|error| {
        let count = std::env::var("LISTEN_FDS").unwrap_or_default();
        Failure::Unusable(format!(
            "LISTEN_FDS={count}: as many descriptors, from 3 on, are not all open: {error}; start it as a socket unit does"
        ))
    })?;
    let mut addresses: Vec<Address> = inherited(handed_over);
    let default = [NbdArg::Unix(args.volume.join(NBD_SOCKET))];
    let asked = match (args.nbd.is_empty(), addresses.is_empty()) {
        (true, true) => &default[..],
        _ => &args.nbd[..],
    };
    addresses.extend(asked.iter().map(|address| match address {
        NbdArg::Unix(path) => Address::Unix(path.clone()),
        NbdArg::Tcp(address) => Address::Tcp(address.clone()),
    }));
    Ok(addresses)
}

#[allow(unsafe_code)]
fn inherited(sockets: impl Iterator<Item = i32>) -> Vec<Address> {
    // SAFETY: a service manager hands these descriptors over for this process alone.
    sockets.map(|socket| Address::Inherited(unsafe { OwnedFd::from_raw_fd(socket) })).collect()
}
