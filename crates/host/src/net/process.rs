//! Which process is at the other end of a Unix socket.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

/// The number of the process that connected; `None` where it has none here, as one of another PID namespace.
pub(super) fn process_at(socket: BorrowedFd<'_>) -> Option<u32> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which `found` has; any bytes are a value of it.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut len,
        )
    };
    u32::try_from(found.pid).ok().filter(|&pid| done == 0 && pid > 0)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_other_end_of_a_unix_socket_is_a_process_and_that_of_tcp_is_none() {
        let (near, _far) = UnixStream::pair().unwrap();
        assert_eq!(process_at(near.as_fd()), Some(std::process::id()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(process_at(near.as_fd()), None);
    }
}
