//! `evenkeel drive`.
//!
//! ```text
//! mod        the model is made; listing, --cut and --status
//! serve      serves it until a signal comes
//! served     the drive that is served, and its power cuts
//! listen     accepts connections
//! export     the model as an export
//! control    the socket beside the drive's, and who asks there
//! store      its bytes in a file
//! precision  how late answers were
//! ```

mod control;
mod export;
mod listen;
mod precision;
mod serve;
mod served;
mod store;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_host::event_loop::{Backend, EventLoop};
use evenkeel_sim::model::pump::SharedStorage;
use evenkeel_sim::model::store::ByteStore;

use crate::args::{DriveArgs, NbdArg};
use crate::failure::Failure;
use crate::models::{self, Wanted};
use crate::stdout::say;
use store::FileStore;

/// Names the drives, asks one that is served, or serves one until a signal comes.
pub(crate) fn run(args: &DriveArgs) -> Result<(), Failure> {
    if let Some(place) = &args.cut {
        return control::cut(socket("--cut", place)?);
    }
    if let Some(place) = &args.status {
        return control::status(socket("--status", place)?);
    }
    if let Some(path) = &args.fit {
        return say(&models::fit::fit(path)?);
    }
    let (Some(name), Some(size_bytes), Some(nbd)) = (&args.model, args.size, &args.nbd) else {
        return say(&models::list());
    };
    let wanted = Wanted {
        name,
        size_bytes,
        overwrites: args.precondition,
        seed: args.seed,
        load: args.load.as_deref(),
        prefix: "--",
    };
    let built = models::build(&wanted)?;
    if let Some(path) = &args.save {
        models::save(&built, path)?;
    }
    let event_loop = EventLoop::new(Backend::Auto)
        .map_err(|error| Failure::Unusable(format!("cannot ask the kernel for I/O: {error}")))?;
    let handle = event_loop.handle();
    let store = args.file.as_deref().map(FileStore::new).transpose()?.map(Arc::new);
    let model = match &store {
        Some(store) => built.with_contents_in(Arc::clone(store) as Arc<dyn ByteStore>),
        None => built.with_contents(),
    };
    event_loop.block_on(serve::run(&handle, args, name, Served { model, store }, nbd))
}

/// A drive, and where its bytes are if that is not in memory.
struct Served {
    model: SharedStorage,
    store: Option<Arc<FileStore>>,
}

/// The Unix socket on which a drive is served.
fn socket<'a>(option: &str, place: &'a NbdArg) -> Result<&'a Path, Failure> {
    match place {
        NbdArg::Unix(path) => Ok(path),
        NbdArg::Tcp(address) => Err(Failure::Unusable(format!(
            "{option} tcp:{address}: only drives on Unix sockets are asked that way; send SIGUSR1 to its process"
        ))),
    }
}

/// Where a drive on this socket is asked for other things than its bytes.
fn control_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".control");
    path.into()
}
