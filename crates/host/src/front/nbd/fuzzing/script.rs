//! Bytes read as a script of what a client does.

use crate::nbd::proto::handshake::{ContextRequest, InfoRequest, encode_option};
use crate::nbd::proto::transmission::{Headers, Request};
use crate::nbd::proto::{CONTEXT_ALLOCATION, CONTEXT_RANGE_FLUSH, command, option};

/// Messages of one session.
const MESSAGES_MAX: usize = 48;

/// What a client does.
pub(super) enum Action {
    Send(Vec<u8>),
    Pause,
    Read,
    EndSending,
}

/// Decisions, drawn from bytes; zeros once they are used up.
pub(super) struct Source<'a> {
    bytes: &'a [u8],
}

impl<'a> Source<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((&byte, rest)) => {
                self.bytes = rest;
                byte
            }
            None => 0,
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        u64::from_be_bytes(std::array::from_fn(|_| self.byte()))
    }

    fn short(&mut self) -> u64 {
        u64::from(self.byte()) << 8 | u64::from(self.byte())
    }

    fn below(&mut self, bound: u8) -> u8 {
        self.byte() % bound
    }

    fn one_in(&mut self, times: u8) -> bool {
        self.below(times) == times - 1
    }

    fn some_bytes(&mut self, max: usize) -> Vec<u8> {
        let len = usize::from(self.byte()) % (max + 1);
        (0..len).map(|_| self.byte()).collect()
    }
}

/// A session: handshake, then requests.
pub(super) fn session(source: &mut Source<'_>, size_bytes: u64) -> Vec<Action> {
    let mut actions = Vec::new();
    let flags = if source.one_in(16) { source.number() as u32 } else { 3 };
    let mut pending = flags.to_be_bytes().to_vec();
    let mut headers = Headers::Simple;
    let mut is_open = false;
    if source.one_in(2) {
        // At random it would be rare that all of it is there: straight to the requests.
        headers = if source.one_in(2) { Headers::Extended } else { Headers::Structured };
        let mut opening = opening(headers);
        mutate(source, &mut opening);
        pending.extend(opening);
        is_open = true;
    }
    for _ in 0..MESSAGES_MAX {
        if source.is_empty() {
            break;
        }
        let mut message = match is_open {
            false => negotiate(source, &mut headers, &mut is_open),
            true => request(source, headers, size_bytes),
        };
        mutate(source, &mut message);
        pending.extend(message);
        match source.below(8) {
            0 => actions.push(Action::Send(std::mem::take(&mut pending))),
            1 => {
                actions.push(Action::Send(std::mem::take(&mut pending)));
                actions.push(Action::Pause);
            }
            2 => actions.push(Action::Read),
            3 if source.one_in(16) => {
                // Broken off anywhere in what was to be sent.
                let cut = source.short() as usize % (pending.len() + 1);
                pending.truncate(cut);
                break;
            }
            _ => {}
        }
    }
    actions.push(Action::Send(pending));
    match source.below(4) {
        0 => actions.push(Action::Pause),
        1 => actions.push(Action::EndSending),
        _ => {}
    }
    actions
}

/// A handshake as this program's client would make it.
fn opening(headers: Headers) -> Vec<u8> {
    let mut out = Vec::new();
    match headers {
        Headers::Extended => encode_option(&mut out, option::EXTENDED_HEADERS, &[]),
        _ => encode_option(&mut out, option::STRUCTURED_REPLY, &[]),
    }
    let contexts = ContextRequest { name: "", queries: vec![CONTEXT_ALLOCATION, CONTEXT_RANGE_FLUSH] };
    encode_option(&mut out, option::SET_META_CONTEXT, &contexts.encode());
    encode_option(&mut out, option::GO, &InfoRequest { name: "", wanted: vec![3] }.encode());
    out
}

/// Now and then a message is not what it was.
pub(super) fn mutate(source: &mut Source<'_>, message: &mut Vec<u8>) {
    match source.byte() {
        255 if !message.is_empty() => {
            let at = source.short() as usize % message.len();
            message[at] ^= source.byte();
        }
        254 => {
            let len = source.short() as usize % (message.len() + 1);
            message.truncate(len);
        }
        253 => message.extend(source.some_bytes(64)),
        252 => *message = source.some_bytes(64),
        _ => {}
    }
}

fn negotiate(source: &mut Source<'_>, headers: &mut Headers, is_open: &mut bool) -> Vec<u8> {
    let mut out = Vec::new();
    let name = match source.below(8) {
        0 => "ram",
        1 => "another",
        2 => "a name that is far longer than what the server looks at, and than anyone calls an export",
        _ => "",
    };
    match source.below(16) {
        0..=3 => {
            let wanted = (0..source.below(5)).map(|_| u16::from(source.below(6))).chain([3]).collect();
            encode_option(&mut out, option::GO, &InfoRequest { name, wanted }.encode());
            *is_open = name.is_empty() || name == "ram";
        }
        4 => {
            let wanted = (0..source.below(5)).map(|_| u16::from(source.below(6))).collect();
            encode_option(&mut out, option::INFO, &InfoRequest { name, wanted }.encode());
        }
        5 | 6 => {
            encode_option(&mut out, option::STRUCTURED_REPLY, &[]);
            if *headers == Headers::Simple {
                *headers = Headers::Structured;
            }
        }
        7 => {
            encode_option(&mut out, option::EXTENDED_HEADERS, &[]);
            *headers = Headers::Extended;
        }
        8..=10 => {
            let known = [CONTEXT_ALLOCATION, CONTEXT_RANGE_FLUSH, "base:", "evenkeel:", "other:thing"];
            let queries = (0..source.below(6)).map(|_| known[usize::from(source.below(5))]).collect();
            let which = if source.one_in(3) { option::LIST_META_CONTEXT } else { option::SET_META_CONTEXT };
            encode_option(&mut out, which, &ContextRequest { name, queries }.encode());
        }
        11 => {
            encode_option(&mut out, option::EXPORT_NAME, name.as_bytes());
            *is_open = true;
        }
        12 => encode_option(&mut out, option::LIST, &source.some_bytes(2)),
        13 => encode_option(&mut out, [option::STARTTLS, option::ABORT][usize::from(source.one_in(4))], &[]),
        14 => encode_option(&mut out, source.number() as u32, &source.some_bytes(255)),
        _ => {
            // A length that does not follow.
            encode_option(&mut out, u32::from(source.below(13)), &[]);
            let len = (source.number() as u32) >> (source.below(4) * 8);
            out[12..16].copy_from_slice(&len.to_be_bytes());
        }
    }
    out
}

fn request(source: &mut Source<'_>, headers: Headers, size_bytes: u64) -> Vec<u8> {
    let command = match source.below(16) {
        0..=3 => command::READ,
        4..=8 => command::WRITE,
        9 => command::FLUSH,
        10 => command::TRIM,
        11 => command::WRITE_ZEROES,
        12 | 13 => command::BLOCK_STATUS,
        14 if source.one_in(8) => command::DISCONNECT,
        _ => source.byte().into(),
    };
    let mut flags = match source.below(8) {
        0 => source.short() as u16,
        1..=3 => 1,
        _ => 0,
    };
    if headers == Headers::Extended && command == command::WRITE {
        flags |= 1 << 5;
    }
    let mut offset = match source.below(8) {
        0 => source.number(),
        1 => size_bytes.wrapping_sub(source.byte().into()),
        2 | 3 => u64::from(source.byte()) * 512 % size_bytes,
        _ => source.short() % size_bytes,
    };
    let mut len = match source.below(16) {
        0 => source.number(),
        1 => source.short() << 4,
        2 => 0,
        3..=6 => u64::from(source.byte() & 15) * 512,
        _ => source.byte().into(),
    };
    if command == command::FLUSH && !source.one_in(3) {
        (offset, len) = (0, 0);
    }
    if headers != Headers::Extended {
        len &= u64::from(u32::MAX);
    }
    let mut out = Vec::new();
    Request { flags, command, cookie: source.byte().into(), offset, len }.encode(&mut out, headers);
    if command == command::WRITE {
        // A payload of which nothing else is said is as long as it should be, up to a bound.
        let fill = source.byte();
        let there = len.min(20 << 10) as usize;
        out.resize(out.len() + there, fill);
    }
    out
}
