//! Whose a file is that is made for a volume which is there already: root may do so for the user who serves it.

use std::fs::Metadata;
use std::path::Path;

use super::description::{Description, FILE_NAME};
use super::member::Place;

/// A file that belongs to the user who serves the volume, but for the one at `anew`, which is made: that of a member, of a
/// log device where no member is a file, or the description where none of them is.
pub(super) fn owned_file(folder: &Path, description: &Description, anew: &Place) -> Option<Metadata> {
    let others = description.members.iter().chain(&description.logs).filter(|other| other.place != *anew);
    let mut files = others.filter_map(|other| other.place.within(folder).path()?.metadata().ok());
    files.find(Metadata::is_file).or_else(|| folder.join(FILE_NAME).metadata().ok())
}
