//! TLS over a stream of bytes.
//!
//! 1. TLS 1.2 or newer, by rustls.
//! 2. What came before the handshake is never taken for what TLS protects: a [`TlsStream`] begins with nothing.
//! 3. Certificates lie in a folder as nbdkit and QEMU have it: `ca-cert.pem`, and `server-cert.pem` with
//!    `server-key.pem` or `client-cert.pem` with `client-key.pem`.

use std::cell::RefCell;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::rsa::KeyPair;
use rustix::fs::OFlags;
use rustls::crypto::{CryptoProvider, ring as provided};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};

use crate::net::ByteStream;
use crate::wait::Turn;

/// Bytes read from below at once.
const READ_BYTES: usize = 64 << 10;

/// Largest file of certificates or of a key.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of the folder cannot be used.
    #[error("cannot use {}: {cause}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        cause: pem::Error,
    },
    /// A key that TLS cannot use here.
    #[error(
        "cannot use {}: an RSA key of this size; RSA keys have 2048, 3072 or 4096 bits here: make one of these, or a key on an \
         elliptic curve (openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256)",
        .0.display()
    )]
    KeySize(PathBuf),
    /// A key of a kind that TLS cannot use here.
    #[error(
        "cannot use {}: a key of another kind than RSA of 2048, 3072 or 4096 bits, ECDSA on P-256 or P-384, or Ed25519: make \
         one of these (openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256)",
        .0.display()
    )]
    KeyKind(PathBuf),
    /// The files do not fit each other.
    #[error("cannot use the certificates in {}: {cause}", folder.display())]
    Certificates {
        /// The folder.
        folder: PathBuf,
        /// Why.
        cause: String,
    },
    /// The name of a server is none.
    #[error("`{0}` is neither a host name nor an address")]
    Name(String),
}

/// What is in the file at `path`. Something else may have its name: that is not waited for, and not read without end.
fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let read = || {
        let check = |found: &Metadata| match found.is_file() {
            true => Ok(()),
            false => Err(io::Error::other("it is no regular file")),
        };
        // Before and after: opening a device may do something to it.
        check(&path.metadata()?)?;
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        check(&file.metadata()?)?;
        let mut bytes = Vec::new();
        file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > FILE_MAX_BYTES {
            true => Err(io::Error::other(format!("it has more than {FILE_MAX_BYTES} bytes"))),
            false => Ok(bytes),
        }
    };
    read().map_err(|error| TlsError::File { path: path.to_path_buf(), cause: pem::Error::Io(error) })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unusable = |cause| TlsError::File { path: path.to_path_buf(), cause };
    let bytes = read(path)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>().map_err(unusable)?;
    if found.is_empty() { Err(unusable(pem::Error::NoItemsFound)) } else { Ok(found) }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(path)?)
        .map_err(|cause| TlsError::File { path: path.to_path_buf(), cause })
}

/// Why the key in the file at `path` was refused, `cause` unless its size or kind is why.
fn unusable(path: &Path, key: &PrivateKeyDer<'_>, cause: TlsError) -> TlsError {
    let rejected = match key {
        PrivateKeyDer::Pkcs1(key) => KeyPair::from_der(key.secret_pkcs1_der()).err(),
        PrivateKeyDer::Pkcs8(key) => KeyPair::from_pkcs8(key.secret_pkcs8_der()).err(),
        _ => None,
    };
    // The library has no other way to tell.
    let why = rejected.map(|rejected| rejected.to_string()).unwrap_or_default();
    match why.as_str() {
        "TooSmall" | "TooLarge" | "PrivateModulusLenNotMultipleOf512Bits" => {
            TlsError::KeySize(path.to_path_buf())
        }
        _ if provider().key_provider.load_private_key(key.clone_key()).is_err() => {
            TlsError::KeyKind(path.to_path_buf())
        }
        _ => cause,
    }
}

fn roots(folder: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&folder.join("ca-cert.pem"))? {
        roots.add(certificate).map_err(|cause| unfit(folder, &cause))?;
    }
    Ok(roots)
}

fn unfit(folder: &Path, cause: &dyn fmt::Display) -> TlsError {
    TlsError::Certificates { folder: folder.to_path_buf(), cause: cause.to_string() }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(provided::default_provider())
}

/// What a server needs to speak TLS. A clone is another handle to the same.
#[derive(Debug, Clone)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
    asks_clients: bool,
}

impl TlsServer {
    /// With the certificate and key in `folder`; where it holds `ca-cert.pem`, clients need a certificate that
    /// it signed.
    ///
    /// # Errors
    ///
    /// [`TlsError`] names the file.
    pub fn from_folder(folder: &Path) -> Result<Self, TlsError> {
        let chain = certificates(&folder.join("server-cert.pem"))?;
        let key_path = folder.join("server-key.pem");
        let key = key(&key_path)?;
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|cause| unfit(folder, &cause))?;
        // What leads nowhere, or may not be looked at, does not let everybody in.
        let has_authority = match folder.join("ca-cert.pem").symlink_metadata() {
            Err(error) => error.kind() != io::ErrorKind::NotFound,
            Ok(_) => true,
        };
        let builder = match has_authority {
            true => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots(folder)?), provider())
                        .build()
                        .map_err(|cause| unfit(folder, &cause))?;
                builder.with_client_cert_verifier(verifier)
            }
            false => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain, key.clone_key());
        let config = config.map_err(|cause| unusable(&key_path, &key, unfit(folder, &cause)))?;
        Ok(Self { config: Arc::new(config), asks_clients: has_authority })
    }

    /// Whether clients need a certificate.
    pub fn asks_clients(&self) -> bool {
        self.asks_clients
    }

    pub(crate) fn session(&self) -> io::Result<Connection> {
        ServerConnection::new(Arc::clone(&self.config)).map(Connection::Server).map_err(io::Error::other)
    }
}

/// What a client needs to speak TLS. A clone is another handle to the same.
#[derive(Debug, Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
}

impl TlsClient {
    /// For a server called `server` whose certificate `ca-cert.pem` in `folder` signed; where it holds
    /// `client-cert.pem` and `client-key.pem`, they are shown to it.
    ///
    /// # Errors
    ///
    /// [`TlsError`] names the file.
    pub fn from_folder(folder: &Path, server: &str) -> Result<Self, TlsError> {
        let server =
            ServerName::try_from(server.to_owned()).map_err(|_| TlsError::Name(server.to_owned()))?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|cause| unfit(folder, &cause))?
            .with_root_certificates(roots(folder)?);
        let own = folder.join("client-cert.pem");
        let config = match own.exists() {
            true => {
                let key_path = folder.join("client-key.pem");
                let key = key(&key_path)?;
                let config = builder.with_client_auth_cert(certificates(&own)?, key.clone_key());
                config.map_err(|cause| unusable(&key_path, &key, unfit(folder, &cause)))?
            }
            false => builder.with_no_client_auth(),
        };
        Ok(Self { config: Arc::new(config), server })
    }

    pub(crate) fn session(&self) -> io::Result<Connection> {
        ClientConnection::new(Arc::clone(&self.config), self.server.clone())
            .map(Connection::Client)
            .map_err(io::Error::other)
    }
}

/// What came from below and was not given to TLS yet.
struct Received {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// A stream protected by TLS, over another one.
pub struct TlsStream<S: ByteStream> {
    inner: S,
    tls: RefCell<Connection>,
    received: RefCell<Option<Received>>,
    sending: Turn,
}

impl<S: ByteStream> fmt::Debug for TlsStream<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TlsStream").finish_non_exhaustive()
    }
}

impl<S: ByteStream> TlsStream<S> {
    /// Shakes hands over `inner`, of which nothing that TLS protects was read yet.
    pub(crate) async fn handshake(inner: S, session: Connection) -> io::Result<Self> {
        let received = Received { buffer: vec![0; READ_BYTES], start: 0, end: 0 };
        let stream = Self {
            inner,
            tls: RefCell::new(session),
            received: RefCell::new(Some(received)),
            sending: Turn::default(),
        };
        loop {
            stream.send_pending().await?;
            if !stream.tls.borrow().is_handshaking() {
                return Ok(stream);
            }
            if !stream.receive().await? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Tells the other side that nothing follows.
    pub(crate) async fn say_goodbye(&self) {
        self.tls.borrow_mut().send_close_notify();
        // Who is gone needs no farewell.
        let _ = self.send_pending().await;
    }

    /// Gives TLS more of what has come, waiting for it if need be; false at the end of the stream.
    async fn receive(&self) -> io::Result<bool> {
        let mut received = self.received.take().ok_or(ErrorKind::NotConnected)?;
        if received.start == received.end {
            let (read, buffer) = self.inner.read(received.buffer, 0).await;
            received.buffer = buffer;
            (received.start, received.end) = (0, read?);
        }
        let has_ended = received.end == 0;
        let mut bytes = &received.buffer[received.start..received.end];
        let processed = {
            let mut tls = self.tls.borrow_mut();
            tls.read_tls(&mut bytes).and_then(|_| {
                tls.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
            })
        };
        received.start = received.end - bytes.len();
        self.received.replace(Some(received));
        if let Err(error) = processed {
            // The alert that tells the other side why.
            let _ = self.send_pending().await;
            return Err(error);
        }
        if self.tls.borrow().wants_write() && !self.tls.borrow().is_handshaking() {
            self.send_pending().await?;
        }
        Ok(!has_ended)
    }

    /// Sends what TLS has to say.
    async fn send_pending(&self) -> io::Result<()> {
        let _turn = self.sending.take().await;
        self.send_in_turn().await
    }

    async fn send_in_turn(&self) -> io::Result<()> {
        loop {
            let mut out = Vec::new();
            {
                let mut tls = self.tls.borrow_mut();
                while tls.wants_write() {
                    tls.write_tls(&mut out)?;
                }
            }
            if out.is_empty() {
                return Ok(());
            }
            self.inner.write(out).await.0?;
        }
    }

    async fn send_some(&self, bytes: &[u8]) -> io::Result<usize> {
        let _turn = self.sending.take().await;
        let taken = self.tls.borrow_mut().writer().write(bytes)?;
        self.send_in_turn().await?;
        Ok(taken)
    }

    async fn read_some(&self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.tls.borrow_mut().reader().read(into);
            match read {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            // At the end of the stream TLS itself says whether it was one in order.
            self.receive().await?;
        }
    }
}

impl<S: ByteStream> ByteStream for TlsStream<S> {
    async fn read(&self, mut buffer: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        let read = self.read_some(&mut buffer[from..]).await;
        (read, buffer)
    }

    async fn write_some(&self, buffer: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        let written = self.send_some(&buffer[from..]).await;
        (written, buffer)
    }

    fn note_request(&self) {
        self.inner.note_request();
    }

    fn shutdown(&self) {
        self.inner.shutdown();
    }
}

impl<S: ByteStream> Drop for TlsStream<S> {
    fn drop(&mut self) {
        self.inner.shutdown();
    }
}

/// A stream that may have gone on with TLS.
pub(crate) enum Wire<S: ByteStream> {
    Plain(S),
    Tls(Box<TlsStream<S>>),
}

impl<S: ByteStream> Wire<S> {
    /// Ends TLS in order, where it is on.
    pub(crate) async fn say_goodbye(&self) {
        if let Self::Tls(stream) = self {
            stream.say_goodbye().await;
        }
    }
}

impl<S: ByteStream> ByteStream for Wire<S> {
    async fn read(&self, buffer: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        match self {
            Self::Plain(stream) => stream.read(buffer, from).await,
            Self::Tls(stream) => stream.read(buffer, from).await,
        }
    }

    async fn write_some(&self, buffer: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        match self {
            Self::Plain(stream) => stream.write_some(buffer, from).await,
            Self::Tls(stream) => stream.write_some(buffer, from).await,
        }
    }

    fn note_request(&self) {
        match self {
            Self::Plain(stream) => stream.note_request(),
            Self::Tls(stream) => stream.note_request(),
        }
    }

    fn shutdown(&self) {
        match self {
            Self::Plain(stream) => stream.shutdown(),
            Self::Tls(stream) => stream.shutdown(),
        }
    }
}
