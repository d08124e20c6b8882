//! Unix sockets at paths of any length.
//!
//! The address of a socket holds 107 bytes of a path. What is longer is reached by way of its folder's descriptor.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Bytes of a path that an address holds, with the zero behind it left out.
const PATH_MAX_BYTES: usize = 107;

/// Calls `with` a path to the socket at `path` that an address holds.
///
/// # Errors
///
/// `InvalidInput` where the name alone is too long; those of opening its folder; those of `with`.
pub(super) fn reach<T>(path: &Path, with: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().as_bytes().len() <= PATH_MAX_BYTES {
        return with(path);
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, Mode::empty())?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    let most = PATH_MAX_BYTES - short.as_os_str().as_bytes().len() - 1;
    if name.as_bytes().len() > most {
        let why = format!("the socket's name is too long: {most} bytes at most");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    with(&short.join(name))
}

/// Connects to the Unix socket at `path`, without waiting for who listens there to accept others first.
///
/// # Errors
///
/// As of `connect`, whatever the length of the path: `WouldBlock` where as many wait as may.
pub(crate) fn connect_unix_at_once(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    reach(path, |path| Ok(connect(&socket, &SocketAddrUnix::new(path)?)?))?;
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(socket.into())
}

/// Connects to the Unix socket at `path`; it blocks.
///
/// # Errors
///
/// As of `connect`, whatever the length of the path.
pub fn connect_unix_blocking(path: &Path) -> io::Result<UnixStream> {
    reach(path, |path| UnixStream::connect(path))
}
