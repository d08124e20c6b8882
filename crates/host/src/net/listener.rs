//! Where connections come from.
//!
//! 1. A Unix socket is made with mode 0600, and has the access that was asked for before it listens: there is no moment at
//!    which others could connect.
//! 2. A socket file is replaced only if it is a socket and nobody listens behind it; it is removed with its
//!    listener unless another has taken its place.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::{AtFlags, Gid, Mode};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use super::Stream;
use super::unix_path::{connect_unix_at_once, reach};
use crate::busy::retry_while_busy;
use crate::durable_file::odd_kind;
use crate::event_loop::{Backend, Loop, SharedFd};
use crate::path_error::PathError;

/// Connections that may wait to be accepted, if `net.core.somaxconn` allows it. Where there is no room, a client that does
/// not wait for its connection is turned away: many that come and go shall not take all of it.
const BACKLOG: i32 = 4096;

/// How long an address may still be in use by a process that was killed.
const PATIENCE: Duration = Duration::from_secs(3);

/// A listening socket.
pub struct Listener {
    event_loop: Loop,
    socket: SharedFd,
    file: Option<SocketFile>,
}

/// Where a listener is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A Unix socket, by its absolute path.
    Unix(PathBuf),
    /// TCP.
    Tcp(SocketAddr),
}

/// A Unix socket's file, and which one it is.
#[derive(Debug, Clone)]
pub(crate) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    /// Its path, from the root on.
    pub(crate) fn path(&self) -> PathBuf {
        std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone())
    }

    /// Whether that leads to it: it was not removed, and nothing else is there.
    pub(crate) fn is_at_its_path(&self) -> bool {
        let found = self.path.symlink_metadata();
        match found {
            Ok(found) => (found.dev(), found.ino()) == (self.device, self.inode),
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.file.as_ref().map(|file| &file.path);
        out.debug_struct("Listener")
            .field("socket", &self.socket)
            .field("path", &path)
            .finish_non_exhaustive()
    }
}

/// Who may connect to a Unix socket, beside its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketAccess {
    /// The mode of its file; 0600 unless it was chosen.
    pub mode: Option<u32>,
    /// The number of its group, if it is to be another one than the user's.
    pub group: Option<u32>,
}

impl SocketAccess {
    fn give(self, path: &Path) -> io::Result<()> {
        if let Some(group) = self.group {
            let group = Some(Gid::from_raw(group));
            rustix::fs::chownat(rustix::fs::CWD, path, None, group, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if let Some(mode) = self.mode {
            rustix::fs::chmod(path, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }
}

impl Listener {
    /// Listens on a Unix socket at `path`, for this user only.
    ///
    /// # Errors
    ///
    /// As of [`Self::unix_for`].
    pub fn unix(event_loop: &Loop, path: &Path) -> Result<Self, PathError> {
        Self::unix_for(event_loop, path, SocketAccess::default())
    }

    /// Listens on a Unix socket at `path`, for those who have `access`.
    ///
    /// # Errors
    ///
    /// `AddrInUse` where somebody listens there; `AlreadyExists` where something is there that is no socket;
    /// those of the system calls.
    pub fn unix_for(event_loop: &Loop, path: &Path, access: SocketAccess) -> Result<Self, PathError> {
        let failed = |doing| move |error: io::Error| PathError::new(path, doing, error);
        let socket = retry_while_busy(PATIENCE, is_in_use, || {
            bind_unix(path, access).or_else(|error| {
                if !is_in_use(&error) {
                    return Err(error);
                }
                remove_stale(path)?;
                bind_unix(path, access)
            })
        });
        let socket = socket.map_err(failed("cannot listen"))?;
        let found = path.symlink_metadata().map_err(failed("cannot find the socket that was made"))?;
        let file = SocketFile { path: path.to_owned(), device: found.dev(), inode: found.ino() };
        let mut listener = Self::from_fd(event_loop, socket).map_err(failed("cannot listen"))?;
        listener.file = Some(file);
        Ok(listener)
    }

    /// Listens on a TCP address such as `127.0.0.1:10809`; port 0 lets the kernel choose one.
    ///
    /// # Errors
    ///
    /// Those of the name's resolution, `bind` and `listen`.
    pub fn tcp(event_loop: &Loop, address: impl ToSocketAddrs) -> io::Result<Self> {
        let (socket, _) = bind_tcp(address)?;
        Self::from_fd(event_loop, socket)
    }

    /// Takes a socket that listens already, as a service manager hands it over.
    ///
    /// # Errors
    ///
    /// `ENOTSOCK` and `InvalidInput` where it is none.
    pub fn from_fd(event_loop: &Loop, socket: OwnedFd) -> io::Result<Self> {
        if !rustix::net::sockopt::socket_acceptconn(&socket)? {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no socket that listens"));
        }
        // epoll must not get stuck with a connection that has gone again; the ring waits only on a descriptor
        // that blocks.
        rustix::io::ioctl_fionbio(&socket, event_loop.backend() == Backend::Threads)?;
        Ok(Self { event_loop: event_loop.clone(), socket: Rc::new(socket), file: None })
    }

    /// The next connection, which ends once the other machine is silent for half a minute.
    ///
    /// # Errors
    ///
    /// Those of `accept` that concern the listener; a connection that has gone before it was accepted is passed
    /// over.
    pub async fn accept(&self) -> io::Result<Stream> {
        loop {
            match self.event_loop.accept(&self.socket).await {
                Ok(socket) => {
                    let stream = Stream::new(&self.event_loop, socket);
                    stream.notice_a_silent_peer();
                    return Ok(stream);
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Its file, if it made one.
    pub(crate) fn file(&self) -> Option<SocketFile> {
        self.file.clone()
    }

    /// Where it listens; `None` where that has no name.
    pub fn place(&self) -> Option<Place> {
        if let Some(file) = &self.file {
            return Some(Place::Unix(std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone())));
        }
        let address = rustix::net::getsockname(&self.socket).ok()?;
        if let Ok(address) = SocketAddr::try_from(address.clone()) {
            return Some(Place::Tcp(address));
        }
        let unix = SocketAddrUnix::try_from(address).ok()?;
        Some(Place::Unix(PathBuf::from(OsStr::from_bytes(unix.path_bytes()?))))
    }

    /// The TCP address that it listens on.
    ///
    /// # Errors
    ///
    /// `EAFNOSUPPORT` where it is none of TCP; those of `getsockname`.
    pub fn tcp_address(&self) -> io::Result<SocketAddr> {
        let address = rustix::net::getsockname(&self.socket)?;
        SocketAddr::try_from(address).map_err(io::Error::from)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|file| file.is_at_its_path()) {
            let _gone_already_is_fine = fs::remove_file(&file.path);
        }
    }
}

/// A socket that listens on a TCP address, for a loop that may not be there yet; and its address.
pub(crate) fn bind_tcp(address: impl ToSocketAddrs) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = retry_while_busy(PATIENCE, is_in_use, || TcpListener::bind(&address))?;
    listen(&socket, BACKLOG)?;
    let at = socket.local_addr()?;
    Ok((socket.into(), at))
}

fn is_in_use(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
}

fn bind_unix(path: &Path, access: SocketAccess) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // On Linux the file that `bind` makes takes the mode of the socket.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    reach(path, |path| {
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        access.give(path).inspect_err(|_| {
            let _it_may_stay = fs::remove_file(path);
        })
    })?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Removes a socket that a dead process has left.
fn remove_stale(path: &Path) -> io::Result<()> {
    let found = path.symlink_metadata()?;
    if !found.file_type().is_socket() {
        let kind = odd_kind(&found).unwrap_or("a file");
        let why = format!("{kind} is there, and no socket: name another path, or move it away");
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    match connect_unix_at_once(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        // Where many wait for it, somebody listens as well.
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) => Err(error),
    }
}
