//! Connecting to the export at a URI.

use std::io;

use evenkeel_engine::env::Env;

use super::{Client, ClientError, ConnectOptions};
use crate::event_loop::{Loop, race};
use crate::nbd::proto::writer::Writer;
use crate::nbd::tls::TlsClient;
use crate::nbd::uri::{NbdUri, Server};
use crate::net::{Stream, connect_tcp, connect_unix};

/// How long a host that does not answer is waited for.
const CONNECT_MAX_NS: u64 = 10_000_000_000;

/// Why there is no connection, and whether that may be otherwise in a moment: a server that serves one connection at a
/// time turns away who comes too early.
#[derive(Debug)]
pub struct NotConnected {
    /// The cause.
    pub source: io::Error,
    /// Whether to try again may help.
    pub is_passing: bool,
}

impl From<io::Error> for NotConnected {
    fn from(source: io::Error) -> Self {
        Self { source, is_passing: false }
    }
}

/// Connects to the export at `uri`, and shakes hands; `writer` asks to be the only one that writes.
///
/// # Errors
///
/// Those of connecting, of TLS and of the handshake.
pub async fn connect(
    event_loop: &Loop,
    uri: &NbdUri,
    writer: Option<Writer>,
) -> Result<Client<Stream>, NotConnected> {
    let tls = match &uri.tls {
        Some(certificates) => {
            let tls = TlsClient::from_folder(&certificates.folder, &certificates.server_name);
            Some(tls.map_err(io::Error::other)?)
        }
        None => None,
    };
    let connected = async {
        match &uri.server {
            Server::Unix(path) => connect_unix(event_loop, path).await.map_err(|error| error.source),
            Server::Tcp(address) => connect_tcp(event_loop, address.clone()).await,
        }
    };
    let too_late = async {
        event_loop.sleep(CONNECT_MAX_NS).await;
        Err(io::ErrorKind::TimedOut.into())
    };
    let stream = race(connected, too_late).await?;
    stream.notice_a_silent_peer();
    let options = ConnectOptions { export: uri.export.clone(), tls, writer, ..ConnectOptions::default() };
    Client::connect(event_loop, stream, &options).await.map_err(|error| NotConnected {
        is_passing: matches!(error, ClientError::Broken(_) | ClientError::InUse(_)),
        source: match error {
            ClientError::InUse(why) => io::Error::new(io::ErrorKind::ResourceBusy, why),
            error => io::Error::other(error.to_string()),
        },
    })
}
