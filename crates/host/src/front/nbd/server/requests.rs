//! One request: what it may be, what it does, what is answered.

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;

use super::negotiation::{ALLOCATION_ID, Contexts, EXCLUSIVE_ID, RANGE_FLUSH_ID};
use super::transmission::Connection;
use super::writers::Access;
use crate::front::device::RequestError;
use crate::front::nbd::admission::Ticket;
use crate::front::nbd::export::Export;
use crate::front::nbd::limits::REQUEST_BYTES;
use crate::front::statistics::CommandKind;
use crate::nbd::proto::transmission::{
    ERROR_MESSAGE_MAX_BYTES, Headers, Request, encode_done, encode_error, encode_read_header, encode_status,
};
use crate::nbd::proto::{chunk, command, command_flag, errno, status};
use crate::nbd::send_queue::COPIED_MAX_BYTES;
use crate::net::ByteStream;

/// Why a request is not begun: the number and the words.
pub(super) type Refusal = (u32, &'static str);

/// What a request's reply carries.
enum Outcome {
    Done,
    /// A whole reply, header and data.
    Data(Vec<u8>),
    Status(Vec<(u64, u32)>),
}

/// The kind that a request counts as.
fn kind(request: &Request) -> CommandKind {
    match request.command {
        command::READ => CommandKind::Read,
        command::WRITE => CommandKind::Write,
        command::FLUSH if request.len > 0 => CommandKind::RangeFlush,
        command::FLUSH => CommandKind::Flush,
        command::TRIM => CommandKind::Trim,
        command::WRITE_ZEROES => CommandKind::WriteZeroes,
        command::BLOCK_STATUS => CommandKind::BlockStatus,
        _ => CommandKind::Invalid,
    }
}

impl<E: Env, X: Export, S: ByteStream> Connection<E, X, S> {
    /// Bytes that follow a request.
    pub(super) fn payload_bytes(&self, request: &Request) -> u64 {
        let is_extended = self.session.headers == Headers::Extended;
        let says_so = is_extended && request.flags & command_flag::PAYLOAD_LEN != 0;
        if request.command == command::WRITE || says_so { request.len } else { 0 }
    }

    /// Bytes that a request holds until its reply has left.
    pub(super) fn held_bytes(&self, request: &Request) -> u64 {
        match request.command {
            command::READ | command::WRITE => request.len + REQUEST_BYTES,
            command::BLOCK_STATUS => self.shared.limits.status_bytes(),
            _ => REQUEST_BYTES + ERROR_MESSAGE_MAX_BYTES as u64,
        }
    }

    /// Whether a request may be carried out in pieces, where there is no room for all of it.
    pub(super) fn is_divisible(&self, request: &Request) -> bool {
        let limits = &self.shared.limits;
        match request.command {
            command::READ => self.held_bytes(request) > limits.connection_own_bytes,
            command::WRITE => {
                let is_whole = request.len <= self.shared.export.whole_max_bytes();
                !is_whole && self.held_bytes(request) > limits.connection_own_bytes
            }
            _ => false,
        }
    }

    /// Whether a request may change what the export holds.
    pub(super) fn is_change(request: &Request) -> bool {
        matches!(request.command, command::WRITE | command::TRIM | command::WRITE_ZEROES)
    }

    /// Whether a request can be begun at all.
    pub(super) fn refusal(&self, request: &Request) -> Option<Refusal> {
        use command_flag::{DF, FUA, NO_HOLE, PAYLOAD_LEN, REQ_ONE};
        let export = &self.shared.export;
        let headers = self.session.headers;
        let payload_len = if headers == Headers::Extended { PAYLOAD_LEN } else { 0 };
        let allowed = match request.command {
            command::READ if headers.has_chunks() => FUA | DF,
            command::READ | command::FLUSH | command::TRIM => FUA,
            command::WRITE => FUA | payload_len,
            command::WRITE_ZEROES => FUA | NO_HOLE,
            command::BLOCK_STATUS if headers.has_chunks() => FUA | REQ_ONE,
            _ => return Some((errno::EINVAL, "the command is not known")),
        };
        if request.flags & !allowed != 0 {
            return Some((errno::EINVAL, "a flag is not known for the command"));
        }
        let is_change = Self::is_change(request);
        if is_change && export.is_read_only() {
            return Some((errno::EPERM, "the export is read-only"));
        }
        if is_change && !matches!(self.link.access.get(), Access::Writes(_)) {
            return Some((errno::EPERM, "a volume writes to the export: others only read"));
        }
        let names_range = request.offset != 0 || request.len != 0;
        if request.command == command::FLUSH && names_range {
            if !self.session.contexts.range_flush {
                return Some((errno::EINVAL, "a flush of a range was not negotiated"));
            }
            if request.len == 0 {
                return Some((errno::EINVAL, "a flush of an empty range"));
            }
        }
        let contexts = self.session.contexts;
        if request.command == command::BLOCK_STATUS {
            if contexts == Contexts::default() {
                return Some((errno::EINVAL, "no metadata context was negotiated"));
            }
            if request.len == 0 {
                return Some((errno::EINVAL, "block status of nothing"));
            }
        }
        if matches!(request.command, command::READ | command::WRITE) {
            let sizes = export.block_sizes();
            if request.len > self.shared.limits.request_max_bytes.min(sizes.maximum_bytes).into() {
                return Some((errno::EINVAL, "the request is larger than the largest block size"));
            }
        }
        let extent = Extent::new(request.offset, request.len);
        if !extent.fits(export.size_bytes()) {
            let errno = match request.command {
                command::WRITE | command::WRITE_ZEROES => errno::ENOSPC,
                _ => errno::EINVAL,
            };
            return Some((errno, "the request reaches beyond the end"));
        }
        let minimum = u64::from(export.block_sizes().minimum_bytes.max(1));
        // The last block may be cut off by the end.
        let ends_well = extent.end().is_multiple_of(minimum) || extent.end() == export.size_bytes();
        if request.command != command::FLUSH && !(request.offset.is_multiple_of(minimum) && ends_well) {
            return Some((errno::EINVAL, "the request does not cover whole blocks"));
        }
        None
    }

    /// Answers a request that was not begun.
    pub(super) fn refuse(&self, request: &Request, (errno, why): Refusal, ticket: Ticket) {
        self.count(request, true, None);
        let headers = self.session.headers;
        self.reply_queue.append(ticket, |out| encode_error(out, headers, request, errno, why));
    }

    /// Answers a request that failed.
    pub(super) fn answer_failure(&self, request: &Request, error: RequestError, ticket: Ticket) {
        let (headers, errno) = (self.session.headers, errno::on_wire(error.errno));
        self.reply_queue.append(ticket, |out| encode_error(out, headers, request, errno, &error.message));
    }

    /// Runs a request and answers it.
    pub(super) async fn answer(&self, request: Request, payload: Vec<u8>, ticket: Ticket, began_ns: u64) {
        let is_gone = || self.reply_queue.is_closed();
        let Some(under_way) = self.link.long_changes.begin(&request, is_gone).await else { return };
        let outcome = self.perform(&request, &payload).await;
        drop(under_way);
        if !payload.is_empty() {
            self.pool.put(payload);
        }
        let latency_ns = self.shared.env.now_ns().saturating_sub(began_ns);
        self.count(&request, outcome.is_err(), Some(latency_ns));
        let headers = self.session.headers;
        match outcome {
            Ok(Outcome::Done) => self.reply_queue.append(ticket, |out| encode_done(out, headers, &request)),
            Ok(Outcome::Data(reply)) if reply.len() <= COPIED_MAX_BYTES => {
                self.reply_queue.append(ticket, |out| out.extend_from_slice(&reply));
                self.pool.put(reply);
            }
            Ok(Outcome::Data(reply)) => self.reply_queue.push(ticket, reply),
            Ok(Outcome::Status(extents)) => {
                self.reply_queue.append(ticket, |out| self.encode_status(out, &request, &extents));
            }
            Err(error) => self.answer_failure(&request, error, ticket),
        }
    }

    /// Answers a short read if its bytes are there without waiting, in the place from which they are sent; else the
    /// ticket comes back.
    pub(super) fn answer_at_once(&self, request: &Request, ticket: Ticket) -> Result<(), Ticket> {
        let headers = self.session.headers;
        let is_short = request.len as usize + headers.read_reply_bytes() <= COPIED_MAX_BYTES;
        if request.command != command::READ || request.len == 0 || !is_short {
            return Err(ticket);
        }
        let began_ns = self.shared.env.now_ns();
        self.reply_queue.try_append(ticket, |out| {
            encode_read_header(out, headers, request);
            let front = out.len();
            out.resize(front + request.len as usize, 0);
            let is_read = self.shared.export.try_read(request.offset, &mut out[front..]);
            if is_read {
                self.count(request, false, Some(self.shared.env.now_ns().saturating_sub(began_ns)));
            }
            is_read
        })
    }

    async fn perform(&self, request: &Request, payload: &[u8]) -> Result<Outcome, RequestError> {
        let export = &self.shared.export;
        let extent = Extent::new(request.offset, request.len);
        let durability = match request.flags & command_flag::FUA {
            0 => Durability::Buffered,
            _ => Durability::Durable,
        };
        match request.command {
            command::READ => return self.read(request).await,
            command::WRITE => export.write(request.offset, payload, durability).await?,
            command::FLUSH if request.len > 0 => export.flush(FlushScope::Ranges(&[extent])).await?,
            command::FLUSH => export.flush(FlushScope::Whole).await?,
            command::TRIM if request.len > 0 => export.discard(extent, durability).await?,
            command::WRITE_ZEROES if request.len > 0 => {
                let no_hole = request.flags & command_flag::NO_HOLE != 0;
                export.write_zeroes(extent, durability, no_hole).await?;
            }
            command::BLOCK_STATUS => return self.block_status(request).await.map(Outcome::Status),
            _ => {}
        }
        Ok(Outcome::Done)
    }

    async fn read(&self, request: &Request) -> Result<Outcome, RequestError> {
        let headers = self.session.headers;
        if request.len == 0 {
            return Ok(Outcome::Done);
        }
        let front = headers.read_reply_bytes();
        let mut reply = self.pool.take(front + request.len as usize);
        if let Err(error) = self.shared.export.read(request.offset, &mut reply[front..]).await {
            self.pool.put(reply);
            return Err(error);
        }
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        encode_read_header(&mut scratch, headers, request);
        reply[..front].copy_from_slice(&scratch);
        Ok(Outcome::Data(reply))
    }

    /// Extents with their status, merged and within bounds.
    async fn block_status(&self, request: &Request) -> Result<Vec<(u64, u32)>, RequestError> {
        if !self.session.contexts.allocation {
            return Ok(Vec::new());
        }
        let wanted = Extent::new(request.offset, request.len);
        let extents_max = match request.flags & command_flag::REQ_ONE {
            0 => self.shared.limits.status_extents_max,
            _ => 1,
        };
        let found = self.shared.export.allocation(wanted, extents_max).await?;
        let mut extents: Vec<(u64, u32)> = Vec::new();
        let mut left = request.len;
        for (len, is_allocated) in found {
            let len = len.min(left);
            left -= len;
            let status = if is_allocated { 0 } else { status::HOLE | status::ZERO };
            let has_room = extents.len() < extents_max;
            match extents.last_mut() {
                _ if len == 0 => {}
                Some((run, last)) if *last == status => *run += len,
                _ if has_room => extents.push((len, status)),
                _ => break,
            }
        }
        if extents.is_empty() {
            extents.push((request.len, 0));
        }
        Ok(extents)
    }

    fn encode_status(&self, out: &mut Vec<u8>, request: &Request, extents: &[(u64, u32)]) {
        let headers = self.session.headers;
        let contexts = self.session.contexts;
        // A context that was selected is answered for, though the last two have nothing to tell.
        let nothing = &[(request.len, 0)][..];
        let answers = [
            contexts.allocation.then_some((ALLOCATION_ID, extents)),
            contexts.range_flush.then_some((RANGE_FLUSH_ID, nothing)),
            contexts.writer.map(|_| (EXCLUSIVE_ID, nothing)),
        ];
        let mut answers = answers.into_iter().flatten().peekable();
        while let Some((id, extents)) = answers.next() {
            let flags = if answers.peek().is_some() { 0 } else { chunk::FLAG_DONE };
            encode_status(out, headers, flags, request, id, extents);
        }
    }

    pub(super) fn count(&self, request: &Request, is_error: bool, latency_ns: Option<u64>) {
        let kind = kind(request);
        self.link.counting.count(kind, request.len, is_error, latency_ns);
        self.shared.counting.count(kind, request.len, is_error, latency_ns);
    }
}
