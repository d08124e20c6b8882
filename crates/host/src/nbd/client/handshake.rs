//! The client's handshake.

use super::{ClientError, ConnectOptions, Negotiated};
use crate::nbd::input::Input;
use crate::nbd::proto::handshake::BlockSizes;
use crate::nbd::proto::handshake::{
    ContextRequest, GREETING_BYTES, Info, InfoRequest, OPTION_REPLY_BYTES, OptionReplyHeader, decode_context,
    decode_greeting, encode_option,
};
use crate::nbd::proto::transmission::Headers;
use crate::nbd::proto::writer::Writer;
use crate::nbd::proto::{
    CONTEXT_ALLOCATION, CONTEXT_RANGE_FLUSH, Malformed, handshake_flag, info, option, option_reply,
};
use crate::nbd::tls::{TlsStream, Wire};
use crate::net::ByteStream;

/// Longest payload of a reply to an option: the longest string with its numbers.
const REPLY_MAX_BYTES: u32 = 8 << 10;
/// Replies to one option.
const REPLIES_MAX: usize = 64;

/// A reply to an option: its number and payload.
type OptionReply = (u32, Vec<u8>);

/// The stream ends with the handshake, unless it is handed on.
struct Guard<S: ByteStream>(Option<Wire<S>>);

impl<S: ByteStream> Drop for Guard<S> {
    fn drop(&mut self) {
        if let Some(wire) = &self.0 {
            wire.shutdown();
        }
    }
}

/// Shakes hands over `stream`.
pub(super) async fn run<S: ByteStream>(
    stream: S,
    options: &ConnectOptions,
) -> Result<(Wire<S>, Input, Negotiated), ClientError> {
    let mut guard = Guard(Some(Wire::Plain(stream)));
    let mut input = Input::new();
    greet(guard.0.as_ref().expect("the stream is taken at the end"), &mut input).await?;
    if let Some(tls) = &options.tls {
        let wire = guard.0.as_ref().expect("the stream is taken at the end");
        expect_ack(wire, &mut input, option::STARTTLS, "TLS").await?;
        if !input.ready().is_empty() {
            return Err(Malformed("bytes in the clear behind the answer to STARTTLS").into());
        }
        let Some(Wire::Plain(stream)) = guard.0.take() else {
            unreachable!("nothing has wrapped the stream yet");
        };
        guard.0 = Some(Wire::Tls(Box::new(TlsStream::handshake(stream, tls.session()?).await?)));
    }
    let wire = guard.0.as_ref().expect("the stream is taken at the end");
    let negotiated = negotiate(wire, &mut input, options).await?;
    let wire = guard.0.take().expect("the stream is taken once");
    Ok((wire, input, negotiated))
}

async fn greet<S: ByteStream>(wire: &Wire<S>, input: &mut Input) -> Result<(), ClientError> {
    input.need(wire, GREETING_BYTES).await?;
    let flags = decode_greeting(&input.ready()[..GREETING_BYTES])?;
    input.consume(GREETING_BYTES);
    if flags & handshake_flag::FIXED_NEWSTYLE == 0 {
        return Err(ClientError::NotOffered("fixed newstyle negotiation"));
    }
    let known = flags & (handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
    wire.write(u32::from(known).to_be_bytes().to_vec()).await.0?;
    Ok(())
}

/// Sends an option and takes its replies in: those before the last one, and the last one.
async fn ask<S: ByteStream>(
    wire: &Wire<S>,
    input: &mut Input,
    option: u32,
    payload: &[u8],
) -> Result<(Vec<OptionReply>, OptionReply), ClientError> {
    let mut out = Vec::new();
    encode_option(&mut out, option, payload);
    wire.write(out).await.0?;
    let mut replies = Vec::new();
    while replies.len() < REPLIES_MAX {
        input.need(wire, OPTION_REPLY_BYTES).await?;
        let header = OptionReplyHeader::decode(&input.ready()[..OPTION_REPLY_BYTES])?;
        input.consume(OPTION_REPLY_BYTES);
        if header.option != option || header.len > REPLY_MAX_BYTES {
            return Err(Malformed("a reply to another option, or too long").into());
        }
        let payload = input.take(wire, vec![0; header.len as usize]).await?;
        if header.reply == option_reply::ACK || header.reply & option_reply::ERROR != 0 {
            return Ok((replies, (header.reply, payload)));
        }
        replies.push((header.reply, payload));
    }
    Err(Malformed("too many replies to an option").into())
}

fn refused(what: &'static str, (reply, payload): &OptionReply) -> ClientError {
    let words = String::from_utf8_lossy(payload);
    let why = match reply {
        _ if !words.is_empty() => words.into_owned(),
        &option_reply::ERR_TLS_REQD => "it wants TLS".to_owned(),
        &option_reply::ERR_UNKNOWN => "it has no export of this name".to_owned(),
        reply => format!("error {}", reply & !option_reply::ERROR),
    };
    ClientError::Refused { what, why }
}

/// Asks for something without a payload; the server may say no.
async fn offers<S: ByteStream>(wire: &Wire<S>, input: &mut Input, option: u32) -> Result<bool, ClientError> {
    let (_, (last, _)) = ask(wire, input, option, &[]).await?;
    Ok(last == option_reply::ACK)
}

/// Asks for something without a payload that is needed.
async fn expect_ack<S: ByteStream>(
    wire: &Wire<S>,
    input: &mut Input,
    option: u32,
    what: &'static str,
) -> Result<(), ClientError> {
    let (_, last) = ask(wire, input, option, &[]).await?;
    if last.0 == option_reply::ACK { Ok(()) } else { Err(refused(what, &last)) }
}

async fn negotiate<S: ByteStream>(
    wire: &Wire<S>,
    input: &mut Input,
    options: &ConnectOptions,
) -> Result<Negotiated, ClientError> {
    let mut negotiated = Negotiated::default();
    if options.headers == Headers::Extended && offers(wire, input, option::EXTENDED_HEADERS).await? {
        negotiated.headers = Headers::Extended;
    } else if options.headers != Headers::Simple && offers(wire, input, option::STRUCTURED_REPLY).await? {
        negotiated.headers = Headers::Structured;
    }
    if negotiated.headers.has_chunks() {
        select_contexts(wire, input, options, &mut negotiated).await?;
    }
    go(wire, input, options, &mut negotiated).await?;
    Ok(negotiated)
}

async fn select_contexts<S: ByteStream>(
    wire: &Wire<S>,
    input: &mut Input,
    options: &ConnectOptions,
    negotiated: &mut Negotiated,
) -> Result<(), ClientError> {
    let mut queries = vec![CONTEXT_ALLOCATION];
    if options.range_flush {
        queries.push(CONTEXT_RANGE_FLUSH);
    }
    // The first that the server knows is granted.
    let writers = options.writer.map(|writer| [writer, writer.without_number()]);
    let mut names: Vec<String> = writers.iter().flatten().map(Writer::to_string).collect();
    names.dedup();
    queries.extend(names.iter().map(String::as_str));
    let payload = ContextRequest { name: &options.export, queries }.encode();
    let (replies, (last, _)) = ask(wire, input, option::SET_META_CONTEXT, &payload).await?;
    if last != option_reply::ACK {
        // A server without contexts; what else it has, GO tells.
        return Ok(());
    }
    for (reply, payload) in replies {
        if reply != option_reply::META_CONTEXT {
            continue;
        }
        match decode_context(&payload)? {
            (id, CONTEXT_ALLOCATION) => negotiated.allocation_id = Some(id),
            (_, CONTEXT_RANGE_FLUSH) => negotiated.range_flush = options.range_flush,
            (_, name) if names.iter().any(|asked| asked == name) => {
                negotiated.number = Writer::parse(name).and_then(|writer| writer.number);
                negotiated.is_exclusive = !negotiated.only_looks();
            }
            _ => return Err(Malformed("a context that was not asked for").into()),
        }
    }
    Ok(())
}

async fn go<S: ByteStream>(
    wire: &Wire<S>,
    input: &mut Input,
    options: &ConnectOptions,
    negotiated: &mut Negotiated,
) -> Result<(), ClientError> {
    let request = InfoRequest { name: &options.export, wanted: vec![info::BLOCK_SIZE] };
    let (replies, last) = ask(wire, input, option::GO, &request.encode()).await?;
    if last.0 == option_reply::ERR_POLICY && negotiated.is_exclusive {
        return Err(ClientError::InUse(String::from_utf8_lossy(&last.1).into_owned()));
    }
    if last.0 != option_reply::ACK {
        return Err(refused("the export", &last));
    }
    let mut has_size = false;
    for (reply, payload) in replies {
        if reply != option_reply::INFO {
            continue;
        }
        match Info::decode(&payload)? {
            Info::Export { size_bytes, flags } => {
                (negotiated.size_bytes, negotiated.flags) = (size_bytes, flags);
                has_size = true;
            }
            Info::BlockSize { minimum_bytes, preferred_bytes, maximum_bytes } => {
                if !minimum_bytes.is_power_of_two() || maximum_bytes < minimum_bytes {
                    return Err(Malformed("block sizes that are none").into());
                }
                negotiated.block_sizes = BlockSizes { minimum_bytes, preferred_bytes, maximum_bytes };
            }
            Info::Name(_) | Info::Description(_) | Info::Unknown(_) => {}
        }
    }
    if has_size { Ok(()) } else { Err(Malformed("an export without a size").into()) }
}
