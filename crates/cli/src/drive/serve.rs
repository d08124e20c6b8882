//! Serving a drive, and pulling its plug.
//!
//! 1. SIGUSR1, or a word on the control socket, is a power cut: connections end, and whoever connects again comes to
//!    the drive as it is after it.
//! 2. The first SIGTERM or Ctrl-C lets requests under way finish; the second leaves at once.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, Loop, race};
use evenkeel_host::front::nbd::limits::Limits;
use evenkeel_host::front::nbd::server::Server;
use evenkeel_host::nbd::uri::of_place;
use evenkeel_host::net::Listener;
use evenkeel_host::stop_signals::STOP_SIGNALS;
use evenkeel_measure::drive::{DriveStatus, SCHEMA};
use evenkeel_sim::model::pump::Pump;
use evenkeel_sim::random::Random;
use serde_json::{Value, json};
use signal_hook::consts::SIGUSR1;

use super::Served;
use super::control;
use super::export::DriveExport;
use crate::args::{AfterCut, DriveArgs, NbdArg};
use crate::failure::Failure;
use crate::models;
use crate::stdout::{announce, mention, say};

/// How long before an answer is due the clock is watched: timers of the kernel come up to about so late.
const WATCH_NS: u64 = 100_000;
/// The same where timers have a resolution of a millisecond.
const WATCH_COARSE_NS: u64 = 1_200_000;
/// How long to wait before connections are accepted again after that has failed.
pub(super) const ACCEPT_AGAIN_NS: u64 = 100_000_000;

type DriveServer = Server<Loop, DriveExport>;

/// A drive that is served.
pub(super) struct Drive {
    env: Loop,
    name: String,
    size_bytes: u64,
    export: DriveExport,
    server: RefCell<DriveServer>,
    random: RefCell<Random>,
    after_cut: AfterCut,
    has_ended: Cell<bool>,
    waits: RefCell<Option<Waker>>,
}

impl Drive {
    fn new(env: &Loop, args: &DriveArgs, name: &str, served: Served) -> Self {
        let Served { model, store } = served;
        let watch_ns = if env.backend() == Backend::Uring { WATCH_NS } else { WATCH_COARSE_NS };
        let size_bytes = model.borrow().size_bytes();
        let pump = Pump::new(model, env.clone(), watch_ns, || false);
        let export = DriveExport::new(pump, env.clone(), !models::is_flash(name), store);
        Self {
            env: env.clone(),
            name: name.to_owned(),
            size_bytes,
            server: RefCell::new(new_server(env, export.clone())),
            export,
            random: RefCell::new(Random::new(args.seed)),
            after_cut: args.after_cut,
            has_ended: Cell::new(false),
            waits: RefCell::default(),
        }
    }

    /// Pulls the plug; answers what is to be told of it.
    pub(super) fn cut(&self) -> Value {
        let ready_ns = self.export.cut(&mut self.random.borrow_mut());
        let next = new_server(&self.env, self.export.of_this_life());
        let before = self.server.replace(next);
        self.env.spawn(async move { before.stop().await });
        let ready_s = (self.after_cut == AfterCut::Recover).then_some(ready_ns as f64 / 1e9);
        let told = json!({ "cuts": self.export.cuts(), "ready_in_s": ready_s });
        mention(&cut_text(&told));
        told
    }

    /// Ends it, if a power cut is to do that.
    pub(super) fn end_after_cut(&self) {
        if self.after_cut == AfterCut::Exit {
            self.has_ended.set(true);
            if let Some(waker) = self.waits.take() {
                waker.wake();
            }
        }
    }

    /// Ends once a power cut has ended it.
    async fn ended(&self) {
        poll_fn(|context| {
            if self.has_ended.get() {
                return Poll::Ready(());
            }
            *self.waits.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// What it is and does.
    pub(super) fn status(&self) -> DriveStatus {
        let server = self.server.borrow().status();
        DriveStatus {
            schema: SCHEMA.to_owned(),
            model: self.name.clone(),
            size_bytes: self.size_bytes,
            pid: std::process::id(),
            cuts: self.export.cuts(),
            ready_in_s: self.export.recovers_ns() as f64 / 1e9,
            connections: server.connections.len() as u64,
            lateness_s: self.export.precision().facts(),
        }
    }
}

fn new_server(env: &Loop, export: DriveExport) -> DriveServer {
    DriveServer::new(env.clone(), export, Limits::default(), None)
}

/// What is said of a cut that [`Drive::cut`] answered.
pub(super) fn cut_text(told: &Value) -> String {
    match told["ready_in_s"].as_f64() {
        Some(ready_s) => format!("power cut: ready again in {:.1} ms", ready_s * 1e3),
        None => "power cut: it ends".to_owned(),
    }
}

/// Serves a drive at `nbd` until a signal comes, or a cut that ends it.
pub(super) async fn run(
    env: &Loop,
    args: &DriveArgs,
    name: &str,
    served: Served,
    nbd: &NbdArg,
) -> Result<(), Failure> {
    let signals = env
        .signals(&[STOP_SIGNALS.as_slice(), &[SIGUSR1]].concat())
        .map_err(|error| Failure::Unusable(format!("cannot listen for signals: {error}")))?;
    let listener = listen(env, nbd)?;
    let ready = listener.place().map(|place| of_place(&place, false));
    let drive = Rc::new(Drive::new(env, args, name, served));
    accept(listener, &drive);
    if let NbdArg::Unix(path) = nbd {
        control::listen(env, path, &drive)?;
    }
    announce(format!("ready: {}\n", ready.expect("what listens here has a name")));
    let signal = async {
        while matches!(signals.next().await, Ok(SIGUSR1)) {
            drive.cut();
            drive.end_after_cut();
        }
    };
    race(signal, drive.ended()).await;
    let last = drive.server.borrow().clone();
    let again = async { while matches!(signals.next().await, Ok(SIGUSR1)) {} };
    race(last.stop(), again).await;
    say(&format!("{}\n", drive.export.precision().text()))
}

fn listen(env: &Loop, nbd: &NbdArg) -> Result<Listener, Failure> {
    match nbd {
        NbdArg::Unix(path) => Listener::unix(env, path).map_err(|error| Failure::Unusable(error.to_string())),
        NbdArg::Tcp(address) => Listener::tcp(env, address.as_str()).map_err(|error| {
            Failure::Unusable(format!("cannot listen on {address}: {error}; choose another"))
        }),
    }
}

/// Serves whoever connects, by the server that is there then.
fn accept(listener: Listener, drive: &Rc<Drive>) {
    let (env, drive) = (drive.env.clone(), Rc::clone(drive));
    env.clone().spawn(async move {
        loop {
            let Ok(stream) = listener.accept().await else {
                env.sleep(ACCEPT_AGAIN_NS).await;
                continue;
            };
            let server = drive.server.borrow().clone();
            env.spawn(async move {
                let _ended = server.serve(stream, "client").await;
            });
        }
    });
}
