//! `evenkeel drive`.

mod export;

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop, Loop};
use evenkeel_host::nbd::limits::Limits;
use evenkeel_host::nbd::server::Server;
use evenkeel_host::net::Listener;
use evenkeel_measure::report::format;
use evenkeel_sim::model::presets::{self, DISKS, PRESETS};
use evenkeel_sim::model::pump::{Lateness, Pump, SharedStorage};
use evenkeel_sim::random::Random;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};

use crate::args::{DriveArgs, NbdArg};
use crate::failure::Failure;
use crate::stdout::{mention, say};
use export::DriveExport;

/// How long before an answer is due the clock is watched: timers of the kernel come up to about so late.
const WATCH_NS: u64 = 100_000;
/// How long to wait before connections are accepted again after that has failed.
const ACCEPT_AGAIN_NS: u64 = 100_000_000;

type DriveServer = Server<Loop, DriveExport>;

/// Names the drives, or serves one until a signal comes.
pub(crate) fn run(args: &DriveArgs) -> Result<(), Failure> {
    let (Some(name), Some(size_bytes), Some(nbd)) = (&args.model, args.size, &args.nbd) else {
        return say(&list());
    };
    let model = model(args, name, size_bytes)?;
    let event_loop = EventLoop::new(Backend::Auto)
        .map_err(|error| Failure::Unusable(format!("cannot ask the kernel for I/O: {error}")))?;
    let handle = event_loop.handle();
    event_loop.block_on(serve(&handle, model, nbd, args.seed))
}

fn list() -> String {
    let mut text = String::new();
    let flash = PRESETS.iter().map(|preset| (preset.name, preset.about, preset.source));
    for (name, about, source) in
        flash.chain(DISKS.iter().map(|preset| (preset.name, preset.about, preset.source)))
    {
        writeln!(text, "{name:<13} {about}\n{:13} from: {source}", "").expect("a string takes it");
    }
    text
}

fn model(args: &DriveArgs, name: &str, size_bytes: u64) -> Result<SharedStorage, Failure> {
    let unusable = |error| Failure::Unusable(format!("--size: {error}; choose another size"));
    if let Some(preset) = presets::find(name) {
        let mut flash = preset.flash(size_bytes).map_err(unusable)?;
        if let Some(overwrites) = args.precondition {
            flash.precondition(overwrites, args.seed);
        }
        flash.keep_contents();
        return Ok(Rc::new(RefCell::new(flash)));
    }
    let Some(preset) = presets::find_disk(name) else {
        return Err(Failure::Unusable(format!(
            "there is no drive `{name}`; `evenkeel drive --list` names them"
        )));
    };
    if args.precondition.is_some() {
        return Err(Failure::Unusable(format!(
            "{name} is a disk: it has no garbage; leave --precondition out"
        )));
    }
    let mut disk = preset.disk(size_bytes).map_err(unusable)?;
    disk.keep_contents();
    Ok(Rc::new(RefCell::new(disk)))
}

async fn serve(env: &Loop, model: SharedStorage, nbd: &NbdArg, seed: u64) -> Result<(), Failure> {
    let signals = env
        .signals(&[SIGTERM, SIGINT, SIGUSR1])
        .map_err(|error| Failure::Unusable(format!("cannot listen for signals: {error}")))?;
    let (listener, ready) = listen(env, nbd)?;
    let pump = Pump::new(model, env.clone(), WATCH_NS, || false);
    let export = DriveExport::new(pump.clone(), env.clone());
    let new_server = || DriveServer::new(env.clone(), export.clone(), Limits::default(), None);
    let server = Rc::new(RefCell::new(new_server()));
    accept(env, listener, Rc::clone(&server));
    say(&format!("ready: {ready}\n"))?;
    let mut random = Random::new(seed);
    loop {
        let signal = signals.next().await;
        if !matches!(signal, Ok(SIGUSR1)) {
            break;
        }
        let ready_ns = export.cut(&mut random);
        mention(&format!("power cut: ready again in {:.1} ms", ready_ns as f64 / 1e6));
        let before = server.replace(new_server());
        env.spawn(async move { before.stop().await });
    }
    let last = server.borrow().clone();
    last.stop().await;
    say(&achieved(pump.lateness()))
}

/// How precise it was.
fn achieved(lateness: Lateness) -> String {
    let Lateness { completions, sum_ns, most_ns, within_20_us } = lateness;
    if completions == 0 {
        return "answered: 0 requests\n".to_owned();
    }
    format!(
        "answered: {} requests, late by {:.1} us on average and {:.1} us at most; {:.2} % within 20 us\n",
        format::count(completions),
        sum_ns as f64 / completions as f64 / 1e3,
        most_ns as f64 / 1e3,
        within_20_us as f64 * 100.0 / completions as f64,
    )
}

fn listen(env: &Loop, nbd: &NbdArg) -> Result<(Listener, String), Failure> {
    match nbd {
        NbdArg::Unix(path) => {
            let listener = Listener::unix(env, path).map_err(|error| Failure::Unusable(error.to_string()))?;
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            Ok((listener, format!("nbd+unix:///?socket={}", absolute.display())))
        }
        NbdArg::Tcp(address) => {
            let cannot =
                |error| Failure::Unusable(format!("cannot listen on {address}: {error}; choose another"));
            let listener = Listener::tcp(env, address.as_str()).map_err(cannot)?;
            let at = listener.tcp_address().map_err(cannot)?;
            Ok((listener, format!("nbd://{at}")))
        }
    }
}

/// Serves whoever connects, by the server that is there then.
fn accept(env: &Loop, listener: Listener, server: Rc<RefCell<DriveServer>>) {
    let env = env.clone();
    env.clone().spawn(async move {
        loop {
            let Ok(stream) = listener.accept().await else {
                env.sleep(ACCEPT_AGAIN_NS).await;
                continue;
            };
            let server = server.borrow().clone();
            env.spawn(async move {
                let _ended = server.serve(stream, "client").await;
            });
        }
    });
}
