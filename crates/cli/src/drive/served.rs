//! A drive that is served, and its power cuts.
//!
//! A power cut ends all connections. Whoever connects again comes to the drive as it is after the cut.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, Loop};
use evenkeel_host::front::nbd::limits::Limits;
use evenkeel_host::front::nbd::server::Server;
use evenkeel_host::net::Stream;
use evenkeel_measure::drive::{DriveStatus, SCHEMA};
use evenkeel_sim::model::pump::Pump;
use evenkeel_sim::random::Random;
use serde_json::{Value, json};

use super::Served;
use super::export::DriveExport;
use crate::args::{AfterCut, DriveArgs};
use crate::models;
use crate::stdout::mention;

/// How long before an answer is due the clock is watched: timers of the kernel come up to about so late.
const WATCH_NS: u64 = 100_000;
/// The same where timers have a resolution of a millisecond.
const WATCH_COARSE_NS: u64 = 1_200_000;

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
    pub(super) fn new(env: &Loop, args: &DriveArgs, name: &str, served: Served) -> Self {
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
    pub(super) async fn ended(&self) {
        poll_fn(|context| {
            if self.has_ended.get() {
                return Poll::Ready(());
            }
            *self.waits.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Serves a client, by the server that is there now.
    pub(super) fn serve(&self, stream: Stream) {
        let server = self.server.borrow().clone();
        self.env.spawn(async move {
            let _ended = server.serve(stream, "client").await;
        });
    }

    /// Ends once requests under way are finished.
    pub(super) async fn stop(&self) {
        let server = self.server.borrow().clone();
        server.stop().await;
    }

    /// How late its answers were.
    pub(super) fn precision_text(&self) -> String {
        self.export.precision().text()
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
