//! Front ends: ways by which programs outside this process reach a device.
//!
//! ```text
//! mod         what the life of a server (crate::service) has to know of a front end
//! device      what is served: any device, and what some know of themselves
//! session     who is connected
//! statistics  what clients asked for, counted
//! nbd         a server of the NBD protocol
//! ```

use std::future::Future;

use crate::event_loop::Loop;
use crate::net::{Place, Stream};
use device::ServedDevice;
use session::{FrontStatus, Peer};

pub mod device;
pub mod nbd;
pub mod session;
pub mod statistics;

/// A front end that serves a device. A clone is another handle to the same.
pub trait Front: Clone + 'static {
    /// Serves one connection until it has ended. Answers why, where that is for an operator to hear: neither the client
    /// nor this side meant it to.
    fn serve(&self, stream: Stream, peer: Peer) -> impl Future<Output = Option<String>>;

    /// Takes no more requests. Ends when every connection has ended, in order.
    fn stop(&self) -> impl Future<Output = ()>;

    /// Sessions and counters of this moment.
    fn status(&self) -> FrontStatus;
}

/// A front end that is set up and has no device yet: what can fail has not failed by then.
pub trait FrontSetup: 'static {
    /// The front end of a device.
    type Front<D: ServedDevice>: Front;

    /// Begins to serve `device`.
    fn begin<D: ServedDevice>(self, event_loop: &Loop, device: D, is_read_only: bool) -> Self::Front<D>;

    /// Whether connections are encrypted, and clients have to show who they are.
    fn has_tls(&self) -> bool;

    /// A command by which a user copies the device to a file `IMAGE`, from where it is served.
    fn copy_command(&self, place: &Place) -> String;
}
