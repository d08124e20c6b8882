//! What TARGET names, and whether it may be written to.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use evenkeel_host::durable_file::is_block_device;
use evenkeel_host::nbd::uri::NbdUri;
use evenkeel_host::volume::VolumeError;
use evenkeel_host::volume::description;
use evenkeel_measure::replay::host_target::{HostTargetError, Place};

use super::model::ModelPlace;
use crate::args::ReplayArgs;
use crate::failure::Failure;
use crate::volume::advise;

/// A file that is made is as large as whole pages are.
const PAGE_BYTES: u64 = 4096;

/// What a trace is replayed onto.
#[derive(Debug)]
pub(super) enum Chosen {
    /// Something of this machine, in real time.
    Host(Place),
    /// A simulated drive, in virtual time.
    Model(ModelPlace),
}

/// The place that TARGET names, for a trace that reaches `reach_bytes`. Where the trace `writes`, what exists must have
/// been named to be destroyed.
pub(super) fn choose(args: &ReplayArgs, writes: bool, reach_bytes: u64) -> Result<Chosen, Failure> {
    let target = args.target.as_os_str();
    let refused = |what: &str| Err(Failure::about(Path::new(target), what));
    if let Some(text) = target.to_str().filter(|text| ModelPlace::is_meant(text)) {
        if args.destroy.is_some() {
            return refused("a simulated drive holds nothing to destroy; leave --destroy out");
        }
        if args.size.is_some() {
            return refused("--size is for a file; write sim:MODEL,size=SIZE");
        }
        return ModelPlace::parse(text, reach_bytes).map(Chosen::Model);
    }
    let place = find(target, args.size, reach_bytes)?;
    let is_new = matches!(place, Place::New { .. });
    if args.size.is_some() && !is_new {
        return refused("--size is for a file that does not exist yet; leave it out");
    }
    match args.destroy.as_deref() {
        Some(_) if is_new => refused("it does not exist, there is nothing to destroy; leave --destroy out"),
        Some(destroy) if destroy != target => {
            let named = Path::new(destroy).display();
            refused(&format!("--destroy names {named} instead; repeat the same name"))
        }
        None if writes && !is_new && !args.dry_run => {
            let shown = Path::new(target).display();
            refused(&format!(
                "the trace has writes, which would overwrite it; to lose what it holds, add --destroy {shown}"
            ))
        }
        _ => Ok(Chosen::Host(place)),
    }
}

fn find(target: &OsStr, size: Option<u64>, reach_bytes: u64) -> Result<Place, Failure> {
    let path = Path::new(target);
    let refused = |what: &str| Err(Failure::about(path, what));
    if let Some(text) = target.to_str().filter(|text| NbdUri::is_meant(text)) {
        return text.parse().map(Place::Nbd).map_err(|why: String| Failure::Unusable(why));
    }
    match path.metadata() {
        Ok(found) if found.is_dir() => match path.join(description::FILE_NAME).exists() {
            true => Ok(Place::Volume(path.to_owned())),
            false => refused("no volume is here; make one with `evenkeel create`, or name a file"),
        },
        Ok(found) if found.is_file() || is_block_device(path) => Ok(Place::Existing(path.to_owned())),
        Ok(_) => refused("neither a volume's folder, nor a file, nor a block device; name one of these"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if path.is_symlink() {
                return refused("it is a link to nowhere; make what it points to, or name another");
            }
            let is_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            if is_folder || !parent.unwrap_or(Path::new(".")).is_dir() {
                return refused("there is no such folder; name a volume's, or a file in one that is there");
            }
            match size.unwrap_or(reach_bytes).checked_next_multiple_of(PAGE_BYTES) {
                Some(size_bytes) => Ok(Place::New { path: path.to_owned(), size_bytes }),
                None => refused("no file is as large as that; name a smaller --size"),
            }
        }
        Err(error) => Err(Failure::about(path, error)),
    }
}

impl From<HostTargetError> for Failure {
    fn from(error: HostTargetError) -> Self {
        let next_step = match &error {
            HostTargetError::Path(path) => match path.source.kind() {
                io::ErrorKind::PermissionDenied => "; run as its owner, or choose another",
                io::ErrorKind::ResourceBusy => "; unmount it or stop what holds it first",
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "; free some room, or name a smaller --size: requests beyond it wrap"
                }
                io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => {
                    "; name a smaller --size: requests beyond it wrap"
                }
                _ => "",
            },
            HostTargetError::Volume(VolumeError::InUse(folder)) => {
                let what = "it is open in another process: stop that one, or replay onto its socket, \
                            nbd+unix:///?socket=SOCKET";
                return Self::about(folder, what);
            }
            HostTargetError::Volume(error) => return Self::Unusable(error.explained(advise)),
            HostTargetError::Lacks { .. } => "; name another",
        };
        Self::Unusable(format!("{error}{next_step}"))
    }
}
