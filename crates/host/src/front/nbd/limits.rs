//! What a client may ask for, before anything is allocated for it.

use super::export::BlockSizes;
use crate::nbd::proto::transmission::ERROR_MESSAGE_MAX_BYTES;

/// What the front of a connection's bytes has to hold: what a handshake left there.
const INPUT_MIN_BYTES: usize = 4 << 10;

/// Bytes of an answer without its data, with room to spare.
pub(crate) const ANSWER_BYTES: u64 = 64;

/// Most bytes of a request's own task: thousands are in flight at a time. What a request rarely comes to is boxed.
pub(crate) const TASK_BYTES_MAX: u64 = 6 << 10;

/// Bytes of a request without its data, from its coming until its answer has left.
pub(crate) const REQUEST_BYTES: u64 = TASK_BYTES_MAX + ANSWER_BYTES;

/// Bytes of one extent in an answer about allocation, the longest way, before and after it is encoded.
const STATUS_EXTENT_BYTES: u64 = 48;

/// Bounds of a server. All hold at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; further ones are ended at once.
    pub connections_max: usize,
    /// From the first byte to the transmission phase, TLS included.
    pub handshake_max_ns: u64,
    /// Options of one handshake.
    pub options_max: usize,
    /// Payload of one option. A longer one is refused, a much longer one ends the connection.
    pub option_payload_max_bytes: usize,
    /// Queries for metadata contexts in one option.
    pub context_queries_max: usize,
    /// Longest name of an export that is looked at.
    pub name_max_bytes: usize,
    /// Payload of one read or write; clients are told.
    pub request_max_bytes: u32,
    /// Requests of one connection that are not answered yet; further ones wait.
    pub requests_in_flight_max: u32,
    /// Bytes of these requests, from the request to the reply's last byte; further ones wait.
    pub connection_in_flight_max_bytes: u64,
    /// Bytes in flight over all connections, beyond what is each one's own. A larger request is carried out in pieces.
    pub in_flight_max_bytes: u64,
    /// What every connection may have in flight whatever the others do: nobody can take all.
    pub connection_own_bytes: u64,
    /// How long a request waits for what all share; after that it is carried out in pieces, out of what is its
    /// connection's own.
    pub room_wait_max_ns: u64,
    /// The time in which a client that holds what another waited for in vain has to move...
    pub stall_max_ns: u64,
    /// ...so many bytes, or it is ended.
    pub stall_min_bytes: u64,
    /// How long replies under way may take to leave once a connection ends.
    pub drain_max_ns: u64,
    /// Extents in one answer about allocation.
    pub status_extents_max: usize,
    /// Bytes taken from a connection at once in its transmission phase; each has a buffer of this size.
    pub input_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const SECOND_NS: u64 = 1_000_000_000;
        Self {
            connections_max: 64,
            handshake_max_ns: 10 * SECOND_NS,
            options_max: 64,
            option_payload_max_bytes: 16 << 10,
            context_queries_max: 64,
            name_max_bytes: 4096,
            request_max_bytes: 32 << 20,
            requests_in_flight_max: 256,
            connection_in_flight_max_bytes: 32 << 20,
            in_flight_max_bytes: 8 << 20,
            connection_own_bytes: (64 << 10) + REQUEST_BYTES + ANSWER_BYTES,
            room_wait_max_ns: SECOND_NS,
            stall_max_ns: 2 * SECOND_NS,
            stall_min_bytes: 64 << 10,
            drain_max_ns: 10 * SECOND_NS,
            status_extents_max: 1024,
            input_bytes: 64 << 10,
        }
    }
}

impl Limits {
    /// Bytes of requests that all connections together may have in flight.
    pub(crate) fn in_flight_all_max_bytes(&self) -> u64 {
        self.in_flight_max_bytes + self.connections_max as u64 * self.connection_own_bytes
    }

    /// Bytes that an answer about allocation holds.
    pub(crate) fn status_bytes(&self) -> u64 {
        REQUEST_BYTES + STATUS_EXTENT_BYTES * self.status_extents_max as u64
    }

    /// Bytes of a read or write that are carried out at once where it goes in pieces and all share is taken.
    pub(crate) fn own_piece_bytes(&self) -> u64 {
        self.connection_own_bytes - REQUEST_BYTES - ANSWER_BYTES
    }

    /// Whether a request that holds so many bytes may have them at once, if others leave room.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        let shared = bytes.saturating_sub(self.connection_own_bytes);
        bytes <= self.connection_in_flight_max_bytes && shared <= self.in_flight_max_bytes
    }

    /// The same limits, with those raised without which a request to an export of `sizes` could never run: one block
    /// out of what is a connection's own, and what is not to be divided, which is up to `whole_max_bytes` of data.
    pub(crate) fn made_consistent(mut self, sizes: BlockSizes, whole_max_bytes: u64) -> Self {
        let block = u64::from(sizes.minimum_bytes.max(sizes.preferred_bytes));
        let answer = REQUEST_BYTES + ERROR_MESSAGE_MAX_BYTES as u64;
        self.request_max_bytes = self.request_max_bytes.max(1);
        self.connection_own_bytes =
            self.connection_own_bytes.max(block + REQUEST_BYTES + ANSWER_BYTES).max(answer);
        // An answer about allocation may end early, and so needs nobody's room.
        let extents_max = (self.connection_own_bytes - REQUEST_BYTES) / STATUS_EXTENT_BYTES;
        self.status_extents_max = self.status_extents_max.clamp(1, extents_max as usize);
        let whole = whole_max_bytes + REQUEST_BYTES;
        self.in_flight_max_bytes = self.in_flight_max_bytes.max(whole);
        self.connection_in_flight_max_bytes =
            self.connection_in_flight_max_bytes.max(self.connection_own_bytes).max(whole);
        self.requests_in_flight_max = self.requests_in_flight_max.max(1);
        self.input_bytes = self.input_bytes.max(INPUT_MIN_BYTES);
        self
    }
}
