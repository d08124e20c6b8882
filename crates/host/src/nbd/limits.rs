//! What a client may ask for, before anything is allocated for it.

/// What the front of a connection's bytes has to hold: what a handshake left there.
const INPUT_MIN_BYTES: usize = 4 << 10;

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
    /// The same over all connections, beyond what is each one's own. A larger request has all of it for itself.
    pub in_flight_max_bytes: u64,
    /// What every connection may have in flight whatever the others do: nobody can take all.
    pub connection_own_bytes: u64,
    /// A client that moves no byte for so long while it holds what others wait for is ended.
    pub stall_max_ns: u64,
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
            connection_own_bytes: 64 << 10,
            stall_max_ns: 30 * SECOND_NS,
            drain_max_ns: 10 * SECOND_NS,
            status_extents_max: 4096,
            input_bytes: 64 << 10,
        }
    }
}

impl Limits {
    /// Bytes of requests that all connections together may have in flight: one that is larger than what they share
    /// comes instead of that.
    pub(crate) fn in_flight_all_max_bytes(&self) -> u64 {
        let shared = self.in_flight_max_bytes.max(self.request_max_bytes.into());
        shared + self.connections_max as u64 * self.connection_own_bytes
    }

    /// The same limits, with those raised without which a largest request could never run.
    pub(crate) fn made_consistent(mut self) -> Self {
        let request = u64::from(self.request_max_bytes.max(1));
        self.request_max_bytes = request as u32;
        self.connection_in_flight_max_bytes = self.connection_in_flight_max_bytes.max(request);
        self.requests_in_flight_max = self.requests_in_flight_max.max(1);
        self.status_extents_max = self.status_extents_max.max(1);
        self.input_bytes = self.input_bytes.max(INPUT_MIN_BYTES);
        self
    }
}
