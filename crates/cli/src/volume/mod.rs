//! `evenkeel create`, `serve`, `status` and `check`.

mod check;
mod create;
mod serve;
mod status;

use std::io;

use evenkeel_host::event_loop::{Backend, EventLoop};
use evenkeel_host::volume::VolumeError;

use crate::failure::Failure;

pub(crate) use check::run as check;
pub(crate) use create::run as create;
pub(crate) use serve::run as serve;
pub(crate) use status::run as status;

impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Self {
        let next_step = match &error {
            VolumeError::Path(path) => match path.source.kind() {
                io::ErrorKind::PermissionDenied => "; run as its owner, or choose another place",
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "; free some room, or choose a smaller --size or another place"
                }
                io::ErrorKind::AddrInUse => "; somebody listens there: choose another socket",
                _ => "",
            },
            _ => "",
        };
        Self::Unusable(format!("{error}{next_step}"))
    }
}

fn event_loop(backend: Backend) -> Result<EventLoop, Failure> {
    EventLoop::new(backend).map_err(|error| {
        Failure::Unusable(format!("cannot ask the kernel for I/O: {error}; try --backend threads"))
    })
}
