//! Simulated drives by the words of a user: for `evenkeel drive`, and as targets of `evenkeel replay`. A name is that of a
//! preset, or of a file with a model of the user's own (`user`).

pub(crate) mod fit;
pub(crate) mod user;

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use evenkeel_measure::report::format;
use evenkeel_sim::model::disk::Disk;
use evenkeel_sim::model::flash::Flash;
use evenkeel_sim::model::presets::{self, DISKS, PRESETS, Parts};
use evenkeel_sim::model::pump::SharedStorage;
use evenkeel_sim::model::store::ByteStore;

use crate::failure::Failure;

/// Random overwrites of the whole drive that bring it to what it then stays at, unless told otherwise.
pub(crate) const OVERWRITES: f64 = 1.5;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The preset.
    pub(crate) name: &'a str,
    /// Bytes that can be addressed.
    pub(crate) size_bytes: u64,
    /// Fill it, and overwrite it at random as often.
    pub(crate) overwrites: Option<f64>,
    /// Of the overwriting.
    pub(crate) seed: u64,
    /// A past that [`save`] wrote.
    pub(crate) load: Option<&'a Path>,
    /// What stands before the names of options where the user types them.
    pub(crate) prefix: &'static str,
}

/// A drive that holds nothing yet.
#[derive(Debug)]
pub(crate) enum Built {
    /// Of flash.
    Flash(Box<Flash>),
    /// With an arm.
    Disk(Box<Disk>),
}

impl Built {
    /// The drive without bytes: reads find zeros.
    pub(crate) fn without_contents(self) -> SharedStorage {
        match self {
            Self::Flash(flash) => Rc::new(RefCell::new(*flash)),
            Self::Disk(disk) => Rc::new(RefCell::new(*disk)),
        }
    }

    /// The drive, which keeps what is written to it in memory.
    pub(crate) fn with_contents(mut self) -> SharedStorage {
        match &mut self {
            Self::Flash(flash) => flash.keep_contents(),
            Self::Disk(disk) => disk.keep_contents(),
        }
        self.without_contents()
    }

    /// The drive, which keeps what is written to it in `store`.
    pub(crate) fn with_contents_in(mut self, store: Arc<dyn ByteStore>) -> SharedStorage {
        match &mut self {
            Self::Flash(flash) => flash.keep_contents_in(store),
            Self::Disk(disk) => disk.keep_contents_in(store),
        }
        self.without_contents()
    }
}

/// Every drive in two lines.
pub(crate) fn list() -> String {
    let flash = PRESETS.iter().map(|preset| (preset.name, preset.size_bytes(), preset.about, preset.source));
    let disks = DISKS.iter().map(|preset| (preset.name, preset.size_bytes(), preset.about, preset.source));
    let lines = flash.chain(disks).map(|(name, size_bytes, about, source)| {
        let size = format::bytes_f64(size_bytes as f64);
        format!("{name:<13} {size:>8}  {about}\n{:24}from: {source}\n", "")
    });
    lines.collect()
}

/// The parts of the drive of that name, or in that file.
fn parts(name: &str) -> Result<Parts, String> {
    if user::is_file(name) {
        return user::read(Path::new(name)).map(|model| model.parts);
    }
    let flash = presets::find(name).map(|preset| Parts::Flash(preset.parts()));
    flash.or_else(|| presets::find_disk(name).map(|preset| Parts::Disk(preset.parts()))).ok_or_else(|| {
        format!("there is no drive `{name}`; `evenkeel drive --list` names them, or name a file that ends in .toml")
    })
}

/// The size as which the drive of that name was sold.
pub(crate) fn sold_bytes(name: &str) -> Result<u64, String> {
    Ok(match parts(name)? {
        Parts::Flash(shape) => shape.size_bytes,
        Parts::Disk(shape) => shape.size_bytes,
    })
}

/// The name of a drive that there is, or of a file.
pub(crate) fn known(name: &str) -> Result<String, String> {
    match user::is_file(name) {
        true => Ok(name.to_owned()),
        false => parts(name).map(|_| name.to_owned()),
    }
}

/// Whether it is of flash.
pub(crate) fn is_flash(name: &str) -> bool {
    matches!(parts(name), Ok(Parts::Flash(_)))
}

/// Makes a drive, with the past that is asked for.
pub(crate) fn build(wanted: &Wanted<'_>) -> Result<Built, Failure> {
    let Wanted { name, size_bytes, prefix, .. } = *wanted;
    let unusable = |error| Failure::Unusable(format!("{prefix}size: {error}; choose another size"));
    let shape = match parts(name).map_err(Failure::Unusable)? {
        Parts::Flash(shape) => shape,
        Parts::Disk(_) if wanted.overwrites.is_some() || wanted.load.is_some() => {
            return Err(Failure::Unusable(format!(
                "{name} is a disk: it has no garbage; leave {prefix}precondition and {prefix}load out"
            )));
        }
        Parts::Disk(shape) => {
            let shape = presets::sized_disk(shape, size_bytes).map_err(unusable)?;
            return Ok(Built::Disk(Box::new(Disk::new(shape))));
        }
    };
    let mut flash = Flash::new(presets::sized(shape, size_bytes).map_err(unusable)?);
    if let Some(path) = wanted.load {
        let file = File::open(path).map_err(|error| Failure::about(path, error))?;
        flash.load(BufReader::new(file)).map_err(|error| {
            Failure::about(path, format!("{error}; name the model and size that it was saved with"))
        })?;
    }
    if let Some(overwrites) = wanted.overwrites {
        flash.precondition(overwrites, wanted.seed);
    }
    Ok(Built::Flash(Box::new(flash)))
}

/// Writes a drive's past, so that it need not be made again.
pub(crate) fn save(built: &Built, path: &Path) -> Result<(), Failure> {
    let about = |error| Failure::about(path, error);
    let Built::Flash(flash) = built else {
        return Err(Failure::Unusable("a disk has no past; leave --save out".to_owned()));
    };
    if path.symlink_metadata().is_ok() {
        return Err(Failure::about(path, "it exists already; name another with --save, or remove it first"));
    }
    let mut file = BufWriter::new(File::create_new(path).map_err(about)?);
    flash.save(&mut file).and_then(|()| file.flush()).map_err(about)
}
