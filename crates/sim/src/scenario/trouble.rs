//! What drives do wrong after the last life of a seed, and what a volume still promises then.
//!
//! | trouble | what remains |
//! |---|---|
//! | an acknowledged record of the log rots or cannot be read | the volume is not opened |
//! | pages at home rot or cannot be read | no wrong byte is served; only these pages fail. A volume that was at rest opens, one that needs them for its recovery may refuse |
//! | the table of sums does | no wrong byte is served; the volume may refuse |
//! | its root does, in the place that the superblock names | everything, where the other place holds the same, as it does at rest; else as the table |
//! | one copy of the superblock does | everything |
//! | a write home is lost or misplaced | no wrong byte is served, but from pages of a large write that a cut interrupted; only pages of that write and of its wrong place fail |
//! | a write or flush fails, or a drive dies | nothing is acknowledged after it, and no wrong byte is served: pages of a large write that failed on its way home may fail until the next opening; once the drive is well, everything acknowledged as durable is there, and after a mere kill all that was acknowledged |
//! | the home drive lies about durability, its log drive does not | what was acknowledged as durable is there or reported missing, but on pages of a large write that a cut interrupted |
//! | what members hold is put back to an earlier moment, beside an arena that a kill left | the volume is not opened, or nothing that was acknowledged is missing; with what they held last it opens |
//! | a log drive is put back to an earlier moment, and the power was cut | a log that lacks more than the last superblock is not taken; else no wrong byte is served, as with a log drive that lies |
//! | the drive of the log lies | what is served is whole commits, no byte that was never written there; how many of the last acknowledged ones are lost nobody can tell. Pages that were written straight home are not judged |

use crate::random::Random;
use crate::tally::tally;

/// Which drive it is. Where the log has none of its own, both are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The drive of the pages.
    Home,
    /// The drive of the log.
    Log,
}

/// What of the home drive is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// Some pages.
    Pages,
    /// The table of their sums.
    Table,
    /// The sums of the table.
    Root,
    /// One copy of the superblock.
    Superblock,
}

/// How the medium is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// Bits change.
    Rot,
    /// Reads fail until the sector is written again.
    ReadError,
}

/// How operations fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    /// One write does, and part of it arrived.
    Write,
    /// From some write on the drive is full.
    Full,
    /// One flush does, and what it should have covered may never be durable.
    Flush,
    /// Every operation, from some time on.
    Everything,
}

/// What is put back to what it held earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutBack {
    /// The home drive.
    Home,
    /// The drive of the log.
    Log,
    /// Both of them.
    Both,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing: drives keep all that they promise.
    None,
    /// The medium loses an acknowledged record of the log.
    LostRecord(Damage),
    /// The medium of the home drive is damaged, `at_rest` where everything had been taken home.
    DamagedHome {
        /// Where.
        zone: Zone,
        /// How.
        damage: Damage,
        /// Whether the volume had been closed.
        at_rest: bool,
    },
    /// A write home does not arrive where it belongs.
    StrayWrite {
        /// Where it belongs; not the superblocks.
        zone: Zone,
        /// Whether it lands elsewhere in its zone instead of nowhere.
        misdirected: bool,
    },
    /// Operations fail.
    Failing(Place, Failing),
    /// Flushes and durable writes are acknowledged without being so; then the power fails.
    Lying(Place),
    /// The process is killed, and drives are put back to a moment of the life that it ended.
    Restored(PutBack),
    /// The log drive is put back to a moment before the last opening, and the power fails.
    StaleLog,
}

impl Trouble {
    pub(super) fn draw(random: &mut Random) -> Self {
        let place = *random.pick(&[Place::Home, Place::Log]);
        let damage = *random.pick(&[Damage::Rot, Damage::ReadError]);
        let zone = match random.below(10) {
            0 => Zone::Table,
            1 => Zone::Root,
            2 => Zone::Superblock,
            _ => Zone::Pages,
        };
        match random.below(100) {
            0..6 => Self::LostRecord(damage),
            6..13 => Self::DamagedHome { zone, damage, at_rest: random.coin() },
            13..20 => {
                let zone = if zone == Zone::Superblock { Zone::Pages } else { zone };
                Self::StrayWrite { zone, misdirected: random.coin() }
            }
            20..28 => {
                let ways = [Failing::Write, Failing::Full, Failing::Flush, Failing::Everything];
                Self::Failing(place, *random.pick(&ways))
            }
            28..35 => Self::Lying(place),
            35..39 => {
                Self::Restored(*random.pick(&[PutBack::Home, PutBack::Log, PutBack::Both, PutBack::Both]))
            }
            39..41 => Self::StaleLog,
            _ => Self::None,
        }
    }
}

tally! {
    "What drives did wrong, and what came of it.",

    /// Sectors that could not be read.
    read_errors = "read errors",
    /// Places whose bits changed.
    rotten_places = "rotten places",
    /// Of both, those that took an acknowledged record of the log.
    lost_records = "of them in acknowledged records",
    /// Writes that never happened.
    lost_writes = "lost writes",
    /// Writes that landed elsewhere.
    misdirected_writes = "misdirected writes",
    /// Discards that failed on drives that are well.
    refused_discards = "discards that failed on drives that are well",
    /// Operations that failed.
    failed_operations = "failed operations",
    /// Acknowledgements of what was not durable as such.
    lies = "lies about durability",
    /// Volumes that were moved to drives with other sectors or promises.
    moved = "moves to other drives",
    /// Drives that were put back to what they held earlier.
    put_back = "drives put back",
    /// Volumes that refused to open, and said why.
    refusals = "volumes refused",
    /// Pages that were reported as damaged or unreadable instead of being served.
    pages_reported = "pages reported",
    /// Volumes that failed and acknowledged nothing any more.
    latched = "volumes turned read-only",
    /// Volumes on lying drives that had lost what was acknowledged, and could not know.
    untold_losses = "losses nobody can tell",
}
