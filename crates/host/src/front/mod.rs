//! Front ends: ways by which programs outside this process reach a device.
//!
//! ```text
//! mod         what the life of a server (crate::service) has to know of a front end
//! device      what is served: any device, and what some know of themselves
//! session     who is connected
//! statistics  what clients asked for, counted
//! nbd         a server of the NBD protocol
//! fuse        a file system, mounted
//! ```

use std::future::Future;

use crate::event_loop::Loop;
use crate::net::{Place, Stream};
use crate::volume::VolumeError;
use session::{FrontStatus, Peer};

pub mod device;
pub mod fuse;
pub mod nbd;
pub mod session;
pub mod statistics;

/// A front end that serves a device. A clone is another handle to the same.
pub trait Front: Clone + 'static {
    /// Serves one connection until it has ended. Answers why, where that is for an operator to hear: neither the client
    /// nor this side meant it to. A front end to which nobody connects has nothing to serve.
    fn serve(&self, _stream: Stream, _peer: Peer) -> impl Future<Output = Option<String>> {
        std::future::ready(None)
    }

    /// Comes when this front end has ended by itself, as a file system that is unmounted does; others never do.
    fn ended(&self) -> impl Future<Output = ()> {
        std::future::pending()
    }

    /// Takes no more requests. Ends when every connection has ended, in order.
    ///
    /// # Errors
    ///
    /// Something that it was to make durable at its end is lost.
    fn stop(&self) -> impl Future<Output = Result<(), VolumeError>>;

    /// Sessions and counters of this moment.
    fn status(&self) -> FrontStatus;
}

/// What keeps strangers out who reach a front end's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Nothing: whoever connects is served.
    None,
    /// Connections are encrypted, and whoever connects is served.
    Encrypted,
    /// Clients have to show who they are.
    Authenticated,
}

/// A front end that is set up and has no device yet: what can fail without one has not failed by then.
pub trait FrontSetup<D>: 'static {
    /// The front end of a device.
    type Front: Front;

    /// Begins to serve `device`.
    ///
    /// # Errors
    ///
    /// The device holds nothing that this front end can serve, or the system refuses.
    fn begin(
        self,
        event_loop: &Loop,
        device: D,
        is_read_only: bool,
    ) -> impl Future<Output = Result<Self::Front, VolumeError>>;

    /// What keeps strangers out.
    fn protection(&self) -> Protection {
        Protection::None
    }

    /// A command by which a user copies the device to a file `IMAGE`, from where it is served, if there is one.
    fn copy_command(&self, _place: &Place) -> Option<String> {
        None
    }
}
