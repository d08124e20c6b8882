//! A read or write that goes on in pieces, because there is no room for all of it at once.
//!
//! 1. Each piece fits what is its connection's own: it needs nobody else's room, and waits for nobody else.
//! 2. Nothing else of the connection is in flight meanwhile, so that pieces of a reply stay together.
//! 3. Pieces end at blocks that the export likes best, and what the export takes as a whole is not divided.
//! 4. A durable write's pieces become durable together, after the last one.
//! 5. A read that fails in between says so in a chunk of its own; where its reply is to be in one piece, the connection
//!    ends, as the protocol wants it.

use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;

use super::Ending;
use super::transmission::Connection;
use crate::front::nbd::admission::Ticket;
use crate::front::nbd::export::Export;
use crate::front::nbd::limits::ANSWER_BYTES;
use crate::nbd::input::Input;
use crate::nbd::proto::transmission::{Request, encode_done, encode_read_header, encode_read_piece};
use crate::nbd::proto::{chunk, command, command_flag};
use crate::nbd::send_queue::Merge;
use crate::net::ByteStream;
use crate::wait::run_apart;

/// Bytes of a piece where there is room in what all share.
const PIECE_MAX_BYTES: u64 = 1 << 20;

impl<E: Env, X: Export, S: ByteStream> Connection<E, X, S> {
    /// Carries out a request in pieces, and answers it.
    pub(super) async fn carry_out_in_pieces(
        self: &Rc<Self>,
        request: Request,
        input: &mut Input,
    ) -> Result<(), Ending> {
        let whole = self.link.admission.admit_alone().await;
        if request.command == command::WRITE {
            return self.write_in_pieces(request, whole, input).await;
        }
        let connection = Rc::clone(self);
        // Once it was begun it is answered, even if no further requests are read.
        let reading = async move { connection.read_in_pieces(&request, whole).await };
        run_apart(&self.shared.env, reading).await;
        Ok(())
    }

    /// Room for the next piece of what reaches from `offset` to `end`, and where the piece ends. `since_ns`: from when
    /// on it does without what all share.
    async fn piece(&self, offset: u64, end: u64, since_ns: &mut u64) -> (Ticket, u64) {
        let sizes = self.shared.export.block_sizes();
        let block = u64::from(sizes.minimum_bytes.max(sizes.preferred_bytes)).max(1);
        let cut = |bytes: u64| {
            let last = offset.saturating_add(bytes);
            if last >= end { end } else { last / block * block }
        };
        let admission = &self.link.admission;
        let large = cut(PIECE_MAX_BYTES.max(block));
        if let Some(ticket) = admission.try_admit_piece(large - offset + ANSWER_BYTES) {
            return (ticket, large);
        }
        let now_ns = self.shared.env.now_ns();
        if now_ns.saturating_sub(*since_ns) >= self.shared.limits.room_wait_max_ns {
            admission.count_failed_wait();
            *since_ns = now_ns;
        }
        let small = cut(self.shared.limits.own_piece_bytes());
        (admission.admit_piece(small - offset + ANSWER_BYTES).await, small)
    }

    async fn write_in_pieces(
        self: &Rc<Self>,
        request: Request,
        mut whole: Ticket,
        input: &mut Input,
    ) -> Result<(), Ending> {
        let (mut at, end) = (request.offset, request.offset + request.len);
        let mut written = Ok(());
        let (mut began_ns, mut since_ns) = (0, self.shared.env.now_ns());
        while at < end {
            let (ticket, next) = self.piece(at, end, &mut since_ns).await;
            let payload = self.payload(input, next - at).await?;
            began_ns = self.shared.env.now_ns();
            if written.is_ok() {
                let connection = Rc::clone(self);
                let write = async move {
                    let written = connection.shared.export.write(at, &payload, Durability::Buffered).await;
                    connection.pool.put(payload);
                    drop(ticket);
                    (written, whole)
                };
                (written, whole) = run_apart(&self.shared.env, write).await;
            }
            at = next;
        }
        if written.is_ok() && request.flags & command_flag::FUA != 0 {
            let connection = Rc::clone(self);
            let flush = async move {
                let extent = Extent::new(request.offset, request.len);
                (connection.shared.export.flush(FlushScope::Ranges(&[extent])).await, whole)
            };
            (written, whole) = run_apart(&self.shared.env, flush).await;
        }
        let latency_ns = self.shared.env.now_ns().saturating_sub(began_ns);
        self.count(&request, written.is_err(), Some(latency_ns));
        let headers = self.session.headers;
        match written {
            Ok(()) => self.reply_queue.append(whole, |out| encode_done(out, headers, &request)),
            Err(error) => self.answer_failure(&request, error, whole),
        }
        Ok(())
    }

    async fn read_in_pieces(&self, request: &Request, whole: Ticket) {
        let headers = self.session.headers;
        let is_together = !headers.has_chunks() || request.flags & command_flag::DF != 0;
        let began_ns = self.shared.env.now_ns();
        let latency_ns = || self.shared.env.now_ns().saturating_sub(began_ns);
        let (mut at, end) = (request.offset, request.offset + request.len);
        let (mut first_ns, mut whole, mut since_ns) = (None, Some(whole), began_ns);
        while at < end && !self.reply_queue.is_closed() {
            let (mut ticket, next) = self.piece(at, end, &mut since_ns).await;
            let has_begun = at > request.offset;
            let front = if is_together && has_begun { 0 } else { headers.read_reply_bytes() };
            let mut reply = self.pool.take(front + (next - at) as usize);
            if let Err(error) = self.shared.export.read(at, &mut reply[front..]).await {
                self.pool.put(reply);
                self.count(request, true, Some(latency_ns()));
                if is_together && has_begun {
                    self.reply_queue.close();
                    self.wire.shutdown();
                } else {
                    ticket.merge(whole.take().expect("it is not answered yet"));
                    self.answer_failure(request, error, ticket);
                }
                return;
            }
            let mut header = Vec::with_capacity(front);
            match is_together {
                true if has_begun => {}
                true => encode_read_header(&mut header, headers, request),
                false => {
                    let flags = if next == end { chunk::FLAG_DONE } else { 0 };
                    encode_read_piece(&mut header, headers, flags, request, at, next - at);
                }
            }
            reply[..front].copy_from_slice(&header);
            first_ns.get_or_insert_with(latency_ns);
            at = next;
            if at == end {
                ticket.merge(whole.take().expect("it is answered once"));
                self.count(request, false, first_ns);
            }
            self.reply_queue.push(ticket, reply);
        }
    }
}
