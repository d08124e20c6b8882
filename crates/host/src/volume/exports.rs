//! What the exports are that a volume is to have as members: looked at before anything is written.
//!
//! 1. Nothing is written, nobody's session is ended, and nobody is kept from writing: who looks names no number
//!    ([`super::fencing`]).
//! 2. What is refused here is what [`super::create::create`] would refuse, as far as that can be known so.

use std::fmt;
use std::io;
use std::time::Instant;

use evenkeel_engine::device::Device;
use evenkeel_engine::env::Env;
use evenkeel_engine::volume::identify;

use super::VolumeError;
use super::create::{Plan, PlannedMember, Request};
use super::fencing::check_takes_one;
use super::label::labels;
use super::member::Place;
use super::slot::Slot;
use crate::event_loop::Loop;
use crate::nbd::client::{Client, NbdDrive, NotConnected, connect};
use crate::nbd::proto::transmission_flag;
use crate::nbd::proto::writer::Writer;
use crate::nbd::uri::NbdUri;
use crate::net::Stream;
use crate::path_error::PathError;
use crate::size_text::size;

/// Between two attempts to connect.
const PAUSE_NS: u64 = 50_000_000;

/// What an export is, as its server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportFound {
    /// Where it is.
    pub place: Place,
    /// Bytes that it has.
    pub size_bytes: u64,
    /// Whether a write can be durable by itself; else a flush follows each.
    pub fua: bool,
    /// Whether a flush makes durable what was written before.
    pub flush: bool,
    /// Whether it can be told what is not needed any more.
    pub trim: bool,
    /// Whether its server says that several connections see the same.
    pub multi_conn: bool,
    /// Whether its server keeps everybody else from writing while the volume does.
    pub keeps_others_off: bool,
    /// The volume, or the part of one, that it holds already.
    pub holds: Option<String>,
}

impl fmt::Display for ExportFound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "an export of {}", size(self.size_bytes))?;
        for (has, with, without) in [
            (self.flush, "flush", "no flush"),
            (self.fua, "FUA", "no FUA (a flush follows each durable write)"),
            (self.trim, "trim", "no trim (what is freed keeps its room)"),
            (self.multi_conn, "multi-conn", "no multi-conn"),
        ] {
            write!(out, ", {}", if has { with } else { without })?;
        }
        out.write_str(match self.keeps_others_off {
            true => "; its server keeps other writers off",
            false => "; its server knows nothing of writers",
        })?;
        match &self.holds {
            Some(holds) => write!(out, "; it holds {holds}"),
            None => out.write_str("; it holds no volume"),
        }
    }
}

/// Looks at the exports of `plan`, each with what was found, or why it can hold no member.
pub async fn look_at_exports(
    event_loop: &Loop,
    request: &Request,
    plan: &Plan,
) -> Vec<(Place, Result<ExportFound, VolumeError>)> {
    let mut found = Vec::new();
    for member in plan.places() {
        if let Place::Nbd(uri) = &member.place {
            found.push((member.place.clone(), look_at(event_loop, request, member, uri).await));
        }
    }
    found
}

async fn look_at(
    event_loop: &Loop,
    request: &Request,
    member: &PlannedMember,
    uri: &NbdUri,
) -> Result<ExportFound, VolumeError> {
    let options = request.options_of(&member.place);
    let place = &member.place;
    let unfit = |error: io::Error| PathError::new(&place.shown(), "cannot hold a member", error);
    let open = |client: Client<Stream>| {
        NbdDrive::to_look_at(client, options.atomic_sectors, None, uri.as_str())
            .map_err(|error| unfit(io::Error::other(error.to_string())))
    };
    let asked_ns = event_loop.now_ns();
    // It changes nothing, and keeps nobody off: see number 0 in docs/nbd.md.
    let looker = Writer { volume: event_loop.random(), opening: 0, drive: 0, number: Some(0) };
    let client = patiently(event_loop, options.busy_timeout, uri, Some(looker)).await;
    let client = client.map_err(|error| PathError::new(&place.shown(), "cannot connect", error))?;
    let took_ns = event_loop.now_ns() - asked_ns;
    let negotiated = *client.negotiated();
    let drive = open(client)?;
    member.check_size(drive.geometry().size_bytes)?;
    let holds = held(&drive).await;
    if let Some(failure) = drive.client().failure() {
        return Err(
            PathError::new(&place.shown(), "cannot read", io::Error::other(failure.to_string())).into()
        );
    }
    let (mut flags, knows_writers) = (negotiated.flags, negotiated.only_looks() || negotiated.is_exclusive);
    if knows_writers {
        // Who looks may write to nothing; others may, unless a volume does.
        drop(drive);
        let other = patiently(event_loop, options.busy_timeout, uri, None).await;
        let other = other.map_err(|error| PathError::new(&place.shown(), "cannot connect", error))?;
        flags = other.negotiated().flags;
    } else if !request.unfenced && flags & transmission_flag::READ_ONLY == 0 {
        check_takes_one(event_loop, uri, took_ns).await.map_err(unfit)?;
    }
    let has = |flag: u16| flags & flag != 0;
    if has(transmission_flag::READ_ONLY) {
        let why = match knows_writers {
            true => "a volume that is being served writes to it: stop that one first, or name another export",
            false => {
                "its server lets nobody write to it: serve it so that it can be written to, or name another export"
            }
        };
        return Err(unfit(io::Error::other(why)).into());
    }
    Ok(ExportFound {
        place: place.clone(),
        size_bytes: negotiated.size_bytes,
        fua: has(transmission_flag::SEND_FUA),
        flush: has(transmission_flag::SEND_FLUSH),
        trim: has(transmission_flag::SEND_TRIM),
        multi_conn: has(transmission_flag::CAN_MULTI_CONN),
        keeps_others_off: knows_writers,
        holds,
    })
}

/// Connects, and again for a while where a server takes one connection at a time.
async fn patiently(
    event_loop: &Loop,
    busy_timeout: std::time::Duration,
    uri: &NbdUri,
    writer: Option<Writer>,
) -> io::Result<Client<Stream>> {
    let began = Instant::now();
    loop {
        match connect(event_loop, uri, writer).await {
            Err(NotConnected { is_passing: true, .. }) if began.elapsed() < busy_timeout => {
                event_loop.sleep(PAUSE_NS).await;
            }
            connected => return connected.map_err(|error| error.source),
        }
    }
}

/// The volume, or the part of one, that is on `drive`.
async fn held(drive: &NbdDrive<Stream>) -> Option<String> {
    if let Some(label) = labels(drive).await.first() {
        let (what, place) = match label.slot {
            Slot::Member(place) => ("member", place),
            Slot::Log(place) => ("log device", place),
        };
        return Some(format!("{what} {place} of volume {:016x}", label.volume));
    }
    for separate_log in [false, true] {
        if let Ok(found) = identify(drive, drive, separate_log).await {
            return Some(format!("volume {:016x} of {}, or its log", found.volume, size(found.size_bytes)));
        }
    }
    None
}
