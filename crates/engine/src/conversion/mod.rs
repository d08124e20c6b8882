//! A volume that becomes another one while its clients go on: copied beside them, and switched between two requests.
//!
//! ```text
//!   clients ──► SwitchedVolume ──► old volume        switched         requests pass, are held, are marked
//!                                   │ VolumeCopy     copy             all that has contents; then what changed since
//!                                   ▼                changed_pages    which pages that is
//!                                 new volume
//! ```
//!
//! Whoever converts begins a [`VolumeCopy`], copies, holds the clients, copies what is left, closes the new volume, has the world
//! know of it, opens it again and switches:
//!
//! 1. Once [`VolumeCopy::finish`] has ended, the new volume has every byte that was written to the old one, and none is written
//!    as long as the clients are held.
//! 2. What was acknowledged as durable by the old volume is durable on the new one when that is closed, and not before: until
//!    then the old one is the volume.
//! 3. Clients are held for what is left of the copy, which is little however fast they write: while much is marked, writes wait,
//!    so that what is copied is twice what is marked anew.

mod changed_pages;
mod copy;
mod requests;
mod switched;

pub use copy::{CopyError, CopyProgress, CopyStage, VolumeCopy};
pub use switched::{Hold, SwitchedVolume};
