//! The options of a handshake: a pure function from an option to its replies.
//!
//! 1. Where TLS is asked for, nothing but it is answered before it is on, and what was negotiated before is
//!    forgotten then.
//! 2. Range flush is told only to clients that ask for evenkeel's own contexts by name, and exclusive writing only to
//!    one that selects it.

use crate::front::nbd::export::{BlockSizes, Export};
use crate::front::nbd::limits::Limits;
use crate::nbd::proto::handshake::{
    ContextRequest, Info, InfoRequest, encode_context, encode_export_name_reply, encode_option_reply,
    encode_server,
};
use crate::nbd::proto::transmission::Headers;
use crate::nbd::proto::writer::Writer;
use crate::nbd::proto::{
    CONTEXT_ALLOCATION, CONTEXT_RANGE_FLUSH, info, option, option_reply, text, transmission_flag,
};

/// Which metadata contexts a session has; their numbers on the wire are [`ALLOCATION_ID`], [`RANGE_FLUSH_ID`] and
/// [`EXCLUSIVE_ID`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Contexts {
    pub(crate) allocation: bool,
    pub(crate) range_flush: bool,
    /// The one that is to be the only writer.
    pub(crate) writer: Option<Writer>,
}

pub(crate) const ALLOCATION_ID: u32 = 1;
pub(crate) const RANGE_FLUSH_ID: u32 = 2;
pub(crate) const EXCLUSIVE_ID: u32 = 3;

/// What a transmission phase runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Session {
    pub(crate) headers: Headers,
    pub(crate) contexts: Contexts,
}

/// How the handshake goes on after an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Option,
    Transmission(Session),
    StartTls,
    /// The client asked for it.
    End,
    /// What cannot be answered otherwise.
    Refuse(&'static str),
}

/// Whether TLS is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsState {
    NotOffered,
    Required,
    On,
}

/// What is being served, as far as a handshake tells of it.
#[derive(Debug, Clone)]
pub(crate) struct Offer<'a> {
    name: &'a str,
    description: &'a str,
    size_bytes: u64,
    flags: u16,
    /// Whether a session is the only one that writes.
    has_writer: bool,
    sizes: BlockSizes,
}

impl<'a> Offer<'a> {
    pub(crate) fn of<X: Export>(export: &'a X, limits: &Limits, has_writer: bool) -> Self {
        let mut sizes = export.block_sizes();
        sizes.maximum_bytes = sizes.maximum_bytes.min(limits.request_max_bytes);
        Self {
            name: export.name(),
            description: export.description(),
            size_bytes: export.size_bytes(),
            flags: flags(export),
            has_writer,
            sizes,
        }
    }

    /// An export without a name is whatever there is.
    fn is(&self, name: &str) -> bool {
        name.is_empty() || name == self.name
    }
}

fn flags<X: Export>(export: &X) -> u16 {
    use transmission_flag::*;
    let turns = if export.is_rotational() { ROTATIONAL } else { 0 };
    let common = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN | turns;
    match export.is_read_only() {
        true => common | READ_ONLY,
        false => common | SEND_TRIM | SEND_WRITE_ZEROES,
    }
}

/// A handshake between its options.
#[derive(Debug)]
pub(crate) struct Negotiation {
    tls: TlsState,
    padded: bool,
    headers: Headers,
    /// The contexts that were selected, and for which name.
    contexts: Option<(String, Contexts)>,
}

impl Negotiation {
    /// `padded`: the client did not ask for `EXPORT_NAME`'s reply without zeros.
    pub(crate) fn new(tls: TlsState, padded: bool) -> Self {
        Self { tls, padded, headers: Headers::Simple, contexts: None }
    }

    /// Appends the replies to an option.
    pub(crate) fn answer(
        &mut self,
        offer: &Offer<'_>,
        limits: &Limits,
        number: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Next {
        match number {
            option::ABORT => {
                encode_option_reply(out, number, option_reply::ACK, &[]);
                Next::End
            }
            option::EXPORT_NAME if self.tls == TlsState::Required => Next::Refuse("TLS comes first"),
            option::EXPORT_NAME => self.answer_export_name(offer, payload, out),
            option::STARTTLS if self.tls == TlsState::Required && payload.is_empty() => {
                encode_option_reply(out, number, option_reply::ACK, &[]);
                Next::StartTls
            }
            option::INFO | option::GO if self.tls != TlsState::Required => {
                self.answer_info(offer, limits, number, payload, out)
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT if self.tls != TlsState::Required => {
                self.answer_contexts(offer, limits, number, payload, out)
            }
            _ => {
                let (kind, why) = self.answer_short(offer, number, payload, out);
                encode_option_reply(out, number, kind, why.as_bytes());
                Next::Option
            }
        }
    }

    /// Answers an option that has no payload; answers the number of the last reply, and its words.
    fn answer_short(
        &mut self,
        offer: &Offer<'_>,
        number: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> (u32, &'static str) {
        match (number, self.tls, self.headers) {
            (option::STARTTLS, TlsState::NotOffered, _) => {
                (option_reply::ERR_UNSUP, "this server has no TLS")
            }
            (option::STARTTLS, TlsState::On, _) => (option_reply::ERR_INVALID, "TLS is on"),
            (option::STARTTLS, TlsState::Required, _) => {
                (option_reply::ERR_INVALID, "the option has no payload")
            }
            (_, TlsState::Required, _) => (option_reply::ERR_TLS_REQD, "TLS comes first"),
            (option::LIST | option::STRUCTURED_REPLY | option::EXTENDED_HEADERS, _, _)
                if !payload.is_empty() =>
            {
                (option_reply::ERR_INVALID, "the option has no payload")
            }
            (option::LIST, _, _) => {
                let server = encode_server(offer.name, offer.description);
                encode_option_reply(out, number, option_reply::SERVER, &server);
                (option_reply::ACK, "")
            }
            (option::STRUCTURED_REPLY, _, Headers::Extended) => {
                (option_reply::ERR_EXT_HEADER_REQD, "extended headers are on")
            }
            (option::STRUCTURED_REPLY, _, _) => {
                self.headers = Headers::Structured;
                (option_reply::ACK, "")
            }
            (option::EXTENDED_HEADERS, _, Headers::Extended) => {
                (option_reply::ERR_INVALID, "extended headers are on")
            }
            (option::EXTENDED_HEADERS, _, _) => {
                self.headers = Headers::Extended;
                (option_reply::ACK, "")
            }
            _ => (option_reply::ERR_UNSUP, "this server does not know the option"),
        }
    }

    fn session(&self, name: &str) -> Session {
        let contexts = match &self.contexts {
            // Contexts are selected for the export that is then chosen, or for none.
            Some((selected, contexts)) if selected == name => *contexts,
            _ => Contexts::default(),
        };
        Session { headers: self.headers, contexts }
    }

    fn transmission_flags(&self, offer: &Offer<'_>, name: &str) -> u16 {
        use transmission_flag::*;
        let df = if self.headers.has_chunks() { SEND_DF } else { 0 };
        let is_only_read = match self.session(name).contexts.writer {
            Some(writer) => writer.only_looks(),
            None => offer.has_writer,
        };
        match is_only_read {
            true => offer.flags & !(SEND_TRIM | SEND_WRITE_ZEROES) | READ_ONLY | df,
            false => offer.flags | df,
        }
    }

    fn answer_export_name(&mut self, offer: &Offer<'_>, payload: &[u8], out: &mut Vec<u8>) -> Next {
        match text(payload) {
            Ok(name) if offer.is(name) => {
                let flags = self.transmission_flags(offer, name);
                encode_export_name_reply(out, offer.size_bytes, flags, self.padded);
                Next::Transmission(self.session(name))
            }
            _ => Next::Refuse("no export has this name"),
        }
    }

    fn answer_info(
        &mut self,
        offer: &Offer<'_>,
        limits: &Limits,
        number: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Next {
        let mut reply = |kind: u32, payload: &[u8]| encode_option_reply(out, number, kind, payload);
        let request = match InfoRequest::decode(payload) {
            Ok(request) if request.name.len() <= limits.name_max_bytes => request,
            Ok(_) => {
                reply(option_reply::ERR_TOO_BIG, b"the name is too long");
                return Next::Option;
            }
            Err(malformed) => {
                reply(option_reply::ERR_INVALID, malformed.0.as_bytes());
                return Next::Option;
            }
        };
        if !offer.is(request.name) {
            reply(option_reply::ERR_UNKNOWN, b"no export has this name");
            return Next::Option;
        }
        let wants = |number: u16| request.wanted.contains(&number);
        let BlockSizes { minimum_bytes, preferred_bytes, maximum_bytes } = offer.sizes;
        let sizes = Info::BlockSize { minimum_bytes, preferred_bytes, maximum_bytes };
        if !wants(info::BLOCK_SIZE) && minimum_bytes > 1 {
            // A client that does not ask may use any offset.
            reply(option_reply::ERR_BLOCK_SIZE_REQD, b"the export takes whole blocks only");
            return Next::Option;
        }
        let flags = self.transmission_flags(offer, request.name);
        let told = [
            wants(info::NAME).then_some(Info::Name(offer.name)),
            (wants(info::DESCRIPTION) && !offer.description.is_empty())
                .then_some(Info::Description(offer.description)),
            wants(info::BLOCK_SIZE).then_some(sizes),
            Some(Info::Export { size_bytes: offer.size_bytes, flags }),
        ];
        for info in told.into_iter().flatten() {
            reply(option_reply::INFO, &info.encode());
        }
        reply(option_reply::ACK, &[]);
        match number {
            option::GO => Next::Transmission(self.session(request.name)),
            _ => Next::Option,
        }
    }

    fn answer_contexts(
        &mut self,
        offer: &Offer<'_>,
        limits: &Limits,
        number: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Next {
        let mut reply = |kind: u32, payload: &[u8]| encode_option_reply(out, number, kind, payload);
        let selects = number == option::SET_META_CONTEXT;
        if selects {
            // Whatever comes of it, what was selected before is not any more.
            self.contexts = None;
        }
        let request = match ContextRequest::decode(payload, limits.context_queries_max) {
            _ if !self.headers.has_chunks() => {
                reply(option_reply::ERR_INVALID, b"structured replies come first");
                return Next::Option;
            }
            Err(malformed) => {
                reply(option_reply::ERR_INVALID, malformed.0.as_bytes());
                return Next::Option;
            }
            Ok(request) => request,
        };
        if !offer.is(request.name) {
            reply(option_reply::ERR_UNKNOWN, b"no export has this name");
            return Next::Option;
        }
        let asked = |name: &str, namespace: &str| {
            request.queries.iter().any(|&query| query == name || (!selects && query == namespace))
        };
        let found = Contexts {
            allocation: asked(CONTEXT_ALLOCATION, "base:") || (!selects && request.queries.is_empty()),
            range_flush: asked(CONTEXT_RANGE_FLUSH, "evenkeel:"),
            writer: request.queries.iter().find_map(|query| Writer::parse(query)).filter(|_| selects),
        };
        // Where they are only listed, their numbers mean nothing.
        if found.allocation {
            reply(option_reply::META_CONTEXT, &encode_context(ALLOCATION_ID, CONTEXT_ALLOCATION));
        }
        if found.range_flush {
            reply(option_reply::META_CONTEXT, &encode_context(RANGE_FLUSH_ID, CONTEXT_RANGE_FLUSH));
        }
        if let Some(writer) = found.writer {
            reply(option_reply::META_CONTEXT, &encode_context(EXCLUSIVE_ID, &writer.to_string()));
        }
        reply(option_reply::ACK, &[]);
        if selects {
            self.contexts = Some((request.name.to_owned(), found));
        }
        Next::Option
    }
}
