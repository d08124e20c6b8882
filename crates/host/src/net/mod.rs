//! Connections and listeners over the event loop.
//!
//! A stream may be read and written at the same time, by one task each. A read that is given up may have taken
//! bytes with it: whoever gives one up gives the connection up.

mod listener;
mod process;
mod unix_path;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use rustix::net::sockopt;

use crate::event_loop::{Loop, SharedFd};
use crate::path_error::PathError;

pub use listener::{Listener, Place, SocketAccess};
pub(crate) use listener::{SocketFile, bind_tcp};
pub(crate) use unix_path::connect_unix_at_once;
pub use unix_path::connect_unix_blocking;

/// A connection's bytes, both ways. Buffers are handed over and come back: the kernel may hold them after a
/// caller is gone.
pub trait ByteStream: 'static {
    /// Fills `buffer[from..]` with what has come, at least one byte; 0 is the end.
    fn read(&self, buffer: Vec<u8>, from: usize) -> impl Future<Output = (io::Result<usize>, Vec<u8>)>;

    /// Sends some of `buffer[from..]`, at least one byte where there is one; how many.
    fn write_some(&self, buffer: Vec<u8>, from: usize) -> impl Future<Output = (io::Result<usize>, Vec<u8>)>;

    /// Sends all of `buffer`.
    fn write(&self, mut buffer: Vec<u8>) -> impl Future<Output = (io::Result<()>, Vec<u8>)> {
        async move {
            let mut sent = 0;
            while sent < buffer.len() {
                let result;
                (result, buffer) = self.write_some(buffer, sent).await;
                match result {
                    Ok(count) => sent += count,
                    Err(error) => return (Err(error), buffer),
                }
            }
            (Ok(()), buffer)
        }
    }

    /// The other side has asked for something, and waits for it: who serves several may treat one that asks alone otherwise.
    fn note_request(&self) {}

    /// Ends both directions; reads and writes under way return.
    fn shutdown(&self);
}

/// A connected socket. A clone is another handle to the same connection.
#[derive(Clone)]
pub struct Stream {
    event_loop: Loop,
    socket: SharedFd,
}

impl fmt::Debug for Stream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Stream").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Stream {
    /// A stream over a connected socket, without delay where it is TCP.
    pub fn new(event_loop: &Loop, socket: OwnedFd) -> Self {
        // A request or an answer is written whole: waiting for more to send would only delay it.
        let _not_tcp_is_fine = sockopt::set_tcp_nodelay(&socket, true);
        // The ring takes a descriptor that does not block at its word, and answers instead of waiting.
        let _flags_stay_is_fine = rustix::io::ioctl_fionbio(&socket, false);
        Self { event_loop: event_loop.clone(), socket: Rc::new(socket) }
    }
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// An address of TCP.
    Machine(IpAddr),
    /// A process, by its number, over a Unix socket.
    Process(u32),
}

impl Stream {
    /// Who is at the other end, where that can be told.
    pub fn peer(&self) -> Option<Peer> {
        let address = rustix::net::getpeername(&self.socket).ok()??;
        if let Ok(address) = SocketAddr::try_from(address) {
            return Some(Peer::Machine(address.ip()));
        }
        process::process_at(self.socket.as_fd()).map(Peer::Process)
    }
}

/// After how long without a word from the other machine the kernel asks whether it is there, how often it asks, and
/// how long bytes may be on their way.
const SILENCE_MAX: Duration = Duration::from_secs(10);
const QUESTION_INTERVAL: Duration = Duration::from_secs(5);
const QUESTIONS_MAX: u32 = 4;
const UNDER_WAY_MAX: Duration = Duration::from_secs(30);

impl Stream {
    /// Ends the connection once the other machine is silent for half a minute, whether bytes are on their way to it or not:
    /// without this, who waits for one that lost its power waits for ever. So it is once the other side takes none of what
    /// was sent to it for as long.
    pub fn notice_a_silent_peer(&self) {
        let notice = || -> rustix::io::Result<()> {
            sockopt::set_socket_keepalive(&self.socket, true)?;
            sockopt::set_tcp_keepidle(&self.socket, SILENCE_MAX)?;
            sockopt::set_tcp_keepintvl(&self.socket, QUESTION_INTERVAL)?;
            sockopt::set_tcp_keepcnt(&self.socket, QUESTIONS_MAX)?;
            sockopt::set_tcp_user_timeout(&self.socket, UNDER_WAY_MAX.as_millis() as u32)
        };
        // A Unix socket ends with whoever has the other end.
        let _not_tcp_is_fine = notice();
    }
}

impl ByteStream for Stream {
    async fn read(&self, buffer: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        let len = buffer.len();
        self.event_loop.receive(&self.socket, buffer, from..len).await
    }

    async fn write_some(&self, mut buffer: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        let len = buffer.len();
        loop {
            let result;
            (result, buffer) = self.event_loop.send(&self.socket, buffer, from..len).await;
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return (result, buffer),
            }
        }
    }

    fn note_request(&self) {
        self.event_loop.note_asker(self.socket.as_raw_fd().cast_unsigned());
    }

    fn shutdown(&self) {
        // Where the other side was first there is nothing left to end.
        let _not_connected_is_fine = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

/// Connects to the Unix socket at `path`.
///
/// # Errors
///
/// Those of `connect`: `NotFound`, `ConnectionRefused` where nobody listens.
pub async fn connect_unix(event_loop: &Loop, path: &Path) -> Result<Stream, PathError> {
    let at = path.to_owned();
    let socket = event_loop.blocking(move || connect_unix_blocking(&at)).await;
    match socket.flatten() {
        Ok(socket) => Ok(Stream::new(event_loop, socket.into())),
        Err(error) => Err(PathError::new(path, "cannot connect", error)),
    }
}

/// Connects to a TCP address such as `host:10809`, without delay of small messages.
///
/// # Errors
///
/// Those of the name's resolution and of `connect`.
pub async fn connect_tcp(
    event_loop: &Loop,
    address: impl ToSocketAddrs + Send + 'static,
) -> io::Result<Stream> {
    let socket = event_loop.blocking(move || TcpStream::connect(address)).await.flatten()?;
    Ok(Stream::new(event_loop, socket.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_loop::{Backend, EventLoop};

    #[test]
    fn both_ends_of_a_connection_notice_that_the_other_machine_is_silent() {
        for backend in [Backend::Uring, Backend::Threads] {
            let Ok(event_loop) = EventLoop::new(backend) else { continue };
            let env = event_loop.handle();
            event_loop.block_on(async {
                let listener = Listener::tcp(&env, "127.0.0.1:0").unwrap();
                let near = connect_tcp(&env, listener.tcp_address().unwrap()).await.unwrap();
                near.notice_a_silent_peer();
                let far = listener.accept().await.unwrap();
                for Stream { socket, .. } in [&near, &far] {
                    assert!(sockopt::socket_keepalive(socket).unwrap());
                    let silence = sockopt::tcp_keepidle(socket).unwrap()
                        + sockopt::tcp_keepintvl(socket).unwrap() * sockopt::tcp_keepcnt(socket).unwrap();
                    assert_eq!(silence, Duration::from_secs(30));
                    assert_eq!(sockopt::tcp_user_timeout(socket).unwrap(), 30_000);
                }
            });
        }
    }
}
