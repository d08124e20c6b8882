//! NBD as one of the front ends that a server can have.

use super::export::{DeviceExport, Export};
use super::limits::Limits;
use super::server::{Ending, Server};
use crate::event_loop::Loop;
use crate::front::device::ServedDevice;
use crate::front::session::{FrontStatus, Peer};
use crate::front::{Front, FrontSetup, Protection};
use crate::nbd::tls::TlsServer;
use crate::nbd::uri::of_place;
use crate::net::{Place, Stream};
use crate::volume::VolumeError;

/// How a device is served over NBD, under a name without letters.
pub struct NbdSetup {
    /// Bounds of what clients may ask for.
    pub limits: Limits,
    /// Certificates: then nothing is served without TLS.
    pub tls: Option<TlsServer>,
}

impl<D: ServedDevice> FrontSetup<D> for NbdSetup {
    type Front = Server<Loop, DeviceExport<D>>;

    async fn begin(
        self,
        event_loop: &Loop,
        device: D,
        is_read_only: bool,
    ) -> Result<Self::Front, VolumeError> {
        let export = DeviceExport::new(device, "");
        let export = if is_read_only { export.read_only() } else { export };
        Ok(Server::new(event_loop.clone(), export, self.limits, self.tls))
    }

    fn protection(&self) -> Protection {
        match &self.tls {
            None => Protection::None,
            Some(tls) if tls.asks_clients() => Protection::Authenticated,
            Some(_) => Protection::Encrypted,
        }
    }

    fn copy_command(&self, place: &Place) -> Option<String> {
        let uri = of_place(place, self.tls.is_some());
        Some(format!("nbdcopy '{}' IMAGE", uri.replace('\'', "%27")))
    }
}

impl<X: Export> Front for Server<Loop, X> {
    async fn serve(&self, stream: Stream, peer: Peer) -> Option<String> {
        match Self::serve(self, stream, peer).await {
            // Those that are evicted are counted: there may be many in a second.
            Ending::Disconnected | Ending::Stopped | Ending::Evicted => None,
            ending => Some(ending.to_string()),
        }
    }

    async fn stop(&self) -> Result<(), VolumeError> {
        Self::stop(self).await;
        Ok(())
    }

    fn status(&self) -> FrontStatus {
        Self::status(self)
    }
}
