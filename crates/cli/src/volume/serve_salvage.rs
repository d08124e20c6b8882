//! `evenkeel serve --salvage`.

use std::fmt::Write as _;

use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::salvage::DamageList;
use evenkeel_host::event_loop::Backend;
use evenkeel_host::nbd::uri::of_place;
use evenkeel_host::net::SocketAccess;
use evenkeel_host::service::Address;
use evenkeel_host::service::salvage::{Options, run as serve};

use super::advice::advise;
use super::event_loop;
use super::salvage_report::Report;
use super::serve::{nbd_setup, on_read_only};
use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::stdout::announce;

/// Serves what there is of a damaged volume until a signal comes.
pub(super) fn run(args: &ServeArgs, nbd: Vec<Address>, access: SocketAccess) -> Result<(), Failure> {
    let setup = nbd_setup(args)?;
    let options = Options { clients: nbd, access, open: OpenOptions::default(), advise };
    let event_loop = event_loop(Backend::Auto)?;
    let handle = event_loop.handle();
    let has_tls = args.tls.is_some();
    let folder = &args.volume;
    let served = event_loop.block_on(serve(&handle, folder, setup, options, |open, places| {
        let _no_service_manager = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        let mut text = Report::of(folder.clone(), None, open, DamageList::default()).text();
        for place in places {
            let at = place.map_or_else(
                || "on a socket without a path, handed over".to_owned(),
                |place| of_place(&place, has_tls),
            );
            writeln!(text, "ready: {at}").expect("a string takes all");
        }
        announce(text);
    }));
    let served = served.map_err(|error| on_read_only(&error).unwrap_or_else(|| error.into()))?;
    match served {
        true => Ok(()),
        false => Err(Failure::Stopped("interrupted before it was served; nothing was written".to_owned())),
    }
}
