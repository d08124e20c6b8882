//! Nothing that an earlier process of a volume sent to an export is carried out once a later one has opened it.
//!
//! 1. The export's server ends what came before, as evenkeel's own does when the writer is named to it; or it takes one
//!    connection at a time and is waited for, for as long as [`crate::drive::DriveOptions::busy_timeout`] says. A server that does neither is
//!    refused, unless its owner answers for it.
//! 2. Each opening names a number that is larger than those before it ([`Writer::number`]): what the drive itself says of its
//!    openings. It is read before anybody's session is ended for it. So an opening that was superseded is refused when it
//!    comes back, for a member that is replaced too: there it names no more than it was told when it began.
//!
//! This file, `member` and `description` import one another: a description names members, each fenced by what it says.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_engine::env::Env;
use evenkeel_engine::format::PAGE;
use evenkeel_engine::format::ring_head::MEMBERS_MAX;
use evenkeel_engine::format::unit::OPENING_END;

use super::description::{FILE_NAME, UNFENCED};
use super::label::{TOLD_PAGES, openings_told};
use crate::event_loop::{Loop, race};
use crate::nbd::client::{Client, NotConnected, connect};
use crate::nbd::proto::writer::Writer;
use crate::nbd::uri::NbdUri;
use crate::net::Stream;

/// One opening of a volume, as the servers of its exports know it.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    volume: u64,
    /// A number of its own, that grows with the time.
    id: u64,
    /// The largest number that a member's server knows it by.
    number: Option<u64>,
    /// Whether nothing of it is written to any drive.
    keeps: bool,
}

/// What a member is opened for.
#[derive(Debug, Clone, Copy)]
pub enum Purpose {
    /// To be looked at.
    Look,
    /// To be looked at by who writes too: that is kept in memory.
    Keep,
    /// To be written to by this writer alone.
    Write {
        /// Who.
        writer: Writer,
        /// The largest number that it may name, where it was open before.
        number_max: Option<u64>,
        /// Whether the owner answers for it that no earlier one writes any more.
        unfenced: bool,
    },
}

impl Opening {
    /// A new one of the volume with this number.
    pub fn new(event_loop: &Loop, volume: u64) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let id = now_ms << CHANCE_BITS | event_loop.random() >> (u64::BITS - CHANCE_BITS);
        Self { volume, id, number: None, keeps: false }
    }

    /// The same, once its members are open.
    #[must_use]
    pub(super) fn known_by(self, number: Option<u64>) -> Self {
        Self { number, ..self }
    }

    /// The same, with what is written kept in memory where `keeps`.
    #[must_use]
    pub fn keeping(self, keeps: bool) -> Self {
        Self { keeps, ..self }
    }

    /// To write to the member at `place`.
    pub fn member(self, place: usize, unfenced: bool) -> Purpose {
        self.drive(place, unfenced, self.number)
    }

    /// To write to the log device at `place`.
    pub fn log(self, place: usize, unfenced: bool) -> Purpose {
        self.drive(MEMBERS_MAX + place, unfenced, None)
    }

    fn drive(self, number: usize, unfenced: bool, number_max: Option<u64>) -> Purpose {
        let Self { volume, id: opening, keeps, .. } = self;
        if keeps {
            return Purpose::Keep;
        }
        // What its number is, the drive is asked first.
        let writer = Writer { volume, opening, drive: number as u32, number: Some(0) };
        Purpose::Write { writer, number_max, unfenced }
    }
}

/// What keeps two openings of the same millisecond apart.
const CHANCE_BITS: u32 = 16;

impl Purpose {
    /// Connects for it.
    pub(super) async fn connect(
        self,
        event_loop: &Loop,
        uri: &NbdUri,
    ) -> Result<Client<Stream>, NotConnected> {
        let (writer, number_max) = match self {
            Self::Look | Self::Keep => return connect(event_loop, uri, None).await,
            Self::Write { writer, number_max, .. } => (writer, number_max),
        };
        let client = connect(event_loop, uri, Some(writer)).await?;
        if !client.negotiated().only_looks() {
            return Ok(client);
        }
        let mut pages = vec![[0; PAGE]; TOLD_PAGES];
        for (number, page) in pages.iter_mut().enumerate() {
            // One that is damaged, or not there, tells nothing.
            let _read = client.read((number * PAGE) as u64, page).await;
        }
        if let Some(failure) = client.failure() {
            return Err(NotConnected { source: io::Error::other(failure.to_string()), is_passing: true });
        }
        let told = openings_told(&pages, writer.volume);
        drop(client);
        // A drive may say anything; the largest number is still told apart by the opening.
        let next = told.saturating_add(1).min(OPENING_END - 1);
        let number = next.min(number_max.unwrap_or(next)).max(1);
        connect(event_loop, uri, Some(Writer { number: Some(number), ..writer })).await
    }
}

/// How long a server is waited for that may take a second connection: so many times what the first one took, within these
/// bounds.
const SECOND_WAIT_FACTOR: u64 = 8;
const SECOND_WAIT_MIN_NS: u64 = 1_000_000_000;
const SECOND_WAIT_MAX_NS: u64 = 5_000_000_000;

/// That a server which has just taken a connection within `took_ns`, and did not promise to be written to by nobody else,
/// takes no second one.
pub(super) async fn check_takes_one(event_loop: &Loop, uri: &NbdUri, took_ns: u64) -> io::Result<()> {
    let wait_ns = took_ns.saturating_mul(SECOND_WAIT_FACTOR).clamp(SECOND_WAIT_MIN_NS, SECOND_WAIT_MAX_NS);
    let second = async { connect(event_loop, uri, None).await.is_ok() };
    let silence = async {
        event_loop.sleep(wait_ns).await;
        false
    };
    if !race(second, silence).await {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, TakesSeveral))
}

/// The server of a member takes several connections at a time, and knows no fence.
#[derive(Debug, thiserror::Error)]
#[error(
    "its server takes several connections at a time, so that late writes of a killed process could land after newer ones: let \
     it take one (qemu-nbd without --shared, nbdkit --filter=limit limit=1), or serve it by this version of evenkeel; where \
     nothing of an earlier process can arrive any more, say so: `{UNFENCED} = true` there in {FILE_NAME}"
)]
struct TakesSeveral;

/// Whether `error` is that the server of a member takes several connections.
pub(super) fn takes_several(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|cause| cause.is::<TakesSeveral>())
}
