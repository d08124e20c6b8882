//! Where `evenkeel serve` listens, and for whom; of volumes and of what is there of damaged ones.

use std::fmt::Display;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use evenkeel_host::front::nbd::NbdSetup;
use evenkeel_host::front::nbd::limits::Limits;
use evenkeel_host::group;
use evenkeel_host::nbd::tls::TlsServer;
use evenkeel_host::nbd::uri::of_place;
use evenkeel_host::net::{Place, SocketAccess};
use evenkeel_host::service::Address;
use evenkeel_host::volume::{NBD_SOCKET, VolumeError};

use crate::args::{NbdArg, ServeArgs};
use crate::failure::Failure;

/// How volumes are served over NBD.
pub(super) fn nbd_setup(args: &ServeArgs) -> Result<NbdSetup, Failure> {
    let tls = args.tls.as_ref().map(|folder| {
        let refused = |error| Failure::Unusable(format!("--tls {}: {error}", folder.display()));
        TlsServer::from_folder(folder).map_err(refused)
    });
    let limits = Limits { connections_max: args.connections as usize, ..Limits::default() };
    Ok(NbdSetup { limits, tls: tls.transpose()? })
}

/// Why nothing was served, where that is a file system to which nothing can be written.
pub(super) fn on_read_only(error: &VolumeError) -> Option<Failure> {
    match error {
        VolumeError::Path(path) if path.source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            Some(Failure::Unusable(format!(
                "{error}; the file system is read-only: mount it to be written to, or serve what is there to be read: \
                 --salvage --nbd unix:SOCKET, with the socket elsewhere"
            )))
        }
        _ => None,
    }
}

/// How clients name a place where the server listens.
pub(super) fn shown(place: Option<&Place>, has_tls: bool) -> String {
    match place {
        Some(place) => of_place(place, has_tls),
        None => "on a socket without a path, handed over".to_owned(),
    }
}

/// Who may connect to the Unix sockets.
pub(super) fn access(args: &ServeArgs, nbd: &[Address]) -> Result<SocketAccess, Failure> {
    let is_asked = args.socket_mode.is_some();
    if is_asked && !nbd.iter().any(|address| matches!(address, Address::Unix(_))) {
        return Err(Failure::Unusable(
            "--socket-mode is for Unix sockets that the server makes: name one with --nbd unix:SOCKET, or leave it out"
                .to_owned(),
        ));
    }
    if let (Some(mode), Some(group)) = (args.socket_mode, &args.socket_group)
        && mode & 0o020 == 0
    {
        return Err(Failure::Unusable(format!(
            "--socket-mode {mode:o}: it does not let the group {group} in, which has to write there: choose 660, or leave \
             --socket-group out"
        )));
    }
    let group = args.socket_group.as_deref().map(|name| {
        let unknown = |why: &dyn Display| Failure::Unusable(format!("--socket-group {name}: {why}"));
        match group::id_of(name) {
            Ok(Some(id)) => Ok(id),
            Ok(None) => Err(unknown(&"there is no such group; `getent group` lists them")),
            Err(error) => Err(unknown(&error)),
        }
    });
    Ok(SocketAccess { mode: args.socket_mode, group: group.transpose()? })
}

/// Where to listen.
pub(super) fn addresses(args: &ServeArgs) -> Result<Vec<Address>, Failure> {
    let handed_over = sd_notify::listen_fds().map_err(|error| {
        let count = std::env::var("LISTEN_FDS").unwrap_or_default();
        Failure::Unusable(format!(
            "LISTEN_FDS={count}: as many descriptors, from 3 on, are not all open: {error}; start it as a socket unit does"
        ))
    })?;
    let mut addresses: Vec<Address> = inherited(handed_over);
    let default = [NbdArg::Unix(args.volume.join(NBD_SOCKET))];
    let asked = match (args.nbd.is_empty(), addresses.is_empty()) {
        (true, true) => &default[..],
        _ => &args.nbd[..],
    };
    addresses.extend(named(asked));
    Ok(addresses)
}

/// The addresses that are named.
pub(super) fn named(addresses: &[NbdArg]) -> Vec<Address> {
    let address = |address: &NbdArg| match address {
        NbdArg::Unix(path) => Address::Unix(path.clone()),
        NbdArg::Tcp(address) => Address::Tcp(address.clone()),
    };
    addresses.iter().map(address).collect()
}

#[allow(unsafe_code)]
fn inherited(sockets: impl Iterator<Item = i32>) -> Vec<Address> {
    // SAFETY: a service manager hands these descriptors over for this process alone.
    sockets.map(|socket| Address::Inherited(unsafe { OwnedFd::from_raw_fd(socket) })).collect()
}
