//! A handshake over a stream: what [`super::negotiation`] decides, with its bytes.

use std::io;
use std::rc::Rc;

use evenkeel_engine::env::Env;

use super::negotiation::{Negotiation, Next, Offer, Session, TlsState};
use super::{EndOnDrop, Ending, Link, Shared};
use crate::front::nbd::export::Export;
use crate::nbd::input::Input;
use crate::nbd::proto::handshake::{
    CLIENT_FLAGS_BYTES, OPTION_BYTES, OptionHeader, encode_option_reply, greeting,
};
use crate::nbd::proto::{handshake_flag, option, option_reply};
use crate::nbd::tls::{TlsStream, Wire};
use crate::net::ByteStream;

/// Longest payload of an option that is passed over; a longer one ends the connection.
const SKIPPED_MAX_BYTES: u32 = 1 << 20;

/// Shakes hands; answers what the transmission phase runs with, or how the connection ended.
pub(super) async fn run<E: Env, X: Export, S: ByteStream>(
    shared: &Rc<Shared<E, X>>,
    link: &Rc<Link>,
    stream: S,
    input: &mut Input,
) -> Result<(Wire<S>, Session), Ending> {
    let mut held = EndOnDrop(Some(Wire::Plain(stream)));
    let session = {
        let wire = held.0.as_ref().expect("the stream is taken at the end");
        send(wire, greeting()).await?;
        let padded = client_flags(wire, input).await?;
        link.note_progress();
        let tls = if shared.tls.is_some() { TlsState::Required } else { TlsState::NotOffered };
        match negotiate(shared, link, wire, input, Negotiation::new(tls, padded)).await? {
            Some(session) => session,
            None => {
                start_tls(shared, &mut held, input).await?;
                link.has_tls.set(true);
                let wire = held.0.as_ref().expect("TLS was started over it");
                let negotiation = Negotiation::new(TlsState::On, padded);
                negotiate(shared, link, wire, input, negotiation).await?.expect("TLS is started once")
            }
        }
    };
    let wire = held.0.take().expect("the stream is taken once");
    Ok((wire, session))
}

async fn send<S: ByteStream>(wire: &Wire<S>, bytes: Vec<u8>) -> io::Result<()> {
    wire.write(bytes).await.0
}

/// The client's answer to the greeting: whether it wants padding.
async fn client_flags<S: ByteStream>(wire: &Wire<S>, input: &mut Input) -> Result<bool, Ending> {
    input.need(wire, CLIENT_FLAGS_BYTES).await?;
    let bytes = input.ready()[..CLIENT_FLAGS_BYTES].try_into().expect("as many bytes were asked for");
    let flags = u32::from_be_bytes(bytes);
    input.consume(CLIENT_FLAGS_BYTES);
    if flags & !u32::from(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES) != 0 {
        return Err(Ending::Refused("client flags that the protocol does not know"));
    }
    Ok(flags & u32::from(handshake_flag::NO_ZEROES) == 0)
}

/// Answers options until the transmission phase begins; `None` where TLS comes next.
async fn negotiate<E: Env, X: Export, S: ByteStream>(
    shared: &Shared<E, X>,
    link: &Rc<Link>,
    wire: &Wire<S>,
    input: &mut Input,
    mut negotiation: Negotiation,
) -> Result<Option<Session>, Ending> {
    let limits = &shared.limits;
    for _ in 0..limits.options_max {
        while input.ready().len() < OPTION_BYTES {
            let had = input.ready().len();
            if !input.fill(wire).await? {
                return Err(match had {
                    0 => Ending::Disconnected,
                    _ => Ending::Broken(io::ErrorKind::UnexpectedEof.into()),
                });
            }
        }
        let header = OptionHeader::decode(&input.ready()[..OPTION_BYTES])?;
        input.consume(OPTION_BYTES);
        link.note_progress();
        let offer = Offer::of(&shared.export, limits, shared.has_writer());
        let mut out = Vec::new();
        let mut next = if header.len as usize > limits.option_payload_max_bytes {
            if header.len > SKIPPED_MAX_BYTES || header.option == option::EXPORT_NAME {
                return Err(Ending::Refused("an option's payload is too long"));
            }
            input.skip(wire, header.len.into()).await?;
            let why = b"the option's payload is too long";
            encode_option_reply(&mut out, header.option, option_reply::ERR_TOO_BIG, why);
            Next::Option
        } else {
            let payload = input.take(wire, vec![0; header.len as usize]).await?;
            negotiation.answer(&offer, limits, header.option, &payload, &mut out)
        };
        if next == Next::StartTls && !input.ready().is_empty() {
            // Sent in the clear, these bytes could be anyone's.
            return Err(Ending::Refused("bytes in the clear behind STARTTLS"));
        }
        if let Next::Transmission(session) = next
            && let Err(why) = shared.admit(link, session.contexts.writer).await
        {
            if header.option == option::EXPORT_NAME {
                return Err(Ending::Refused(why));
            }
            out.clear();
            encode_option_reply(&mut out, header.option, option_reply::ERR_POLICY, why.as_bytes());
            next = Next::Option;
        }
        if !out.is_empty() {
            send(wire, out).await?;
        }
        match next {
            Next::Option => {}
            Next::Transmission(session) => return Ok(Some(session)),
            Next::StartTls => return Ok(None),
            Next::End => {
                wire.say_goodbye().await;
                return Err(Ending::Disconnected);
            }
            Next::Refuse(why) => return Err(Ending::Refused(why)),
        }
    }
    Err(Ending::Refused("too many options"))
}

/// Starts TLS. What was read in the clear is not looked at any more.
async fn start_tls<E, X, S: ByteStream>(
    shared: &Shared<E, X>,
    held: &mut EndOnDrop<S>,
    input: &mut Input,
) -> Result<(), Ending> {
    let Some(Wire::Plain(stream)) = held.0.take() else {
        unreachable!("TLS is started over a plain stream, once");
    };
    let tls = shared.tls.as_ref().expect("TLS is started where there is some");
    *input = Input::new();
    let protected = TlsStream::handshake(stream, tls.session()?).await?;
    held.0 = Some(Wire::Tls(Box::new(protected)));
    Ok(())
}
