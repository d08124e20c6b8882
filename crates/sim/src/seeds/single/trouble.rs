//! What drives do wrong after the last run of a seed, where nothing stands in for them, and what a volume still promises then.
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

use crate::faults::Fault;
use crate::random::Random;

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
    LostRecord(Fault),
    /// The medium of the home drive is damaged, `at_rest` where everything had been taken home.
    DamagedHome {
        /// Where.
        zone: Zone,
        /// How.
        damage: Fault,
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
    Failing(Place, Fault),
    /// Flushes and durable writes are acknowledged without being so; then the power fails.
    Lying(Place),
    /// The process is killed, and drives are put back to a moment of the run that it ended.
    Restored(PutBack),
    /// The log drive is put back to a moment before the last opening, and the power fails.
    StaleLog,
}

impl Trouble {
    pub(in crate::seeds) fn draw(random: &mut Random) -> Self {
        let place = *random.pick(&[Place::Home, Place::Log]);
        let damage = *random.pick(&[Fault::Rots, Fault::CannotRead]);
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
                let ways = [Fault::FailsWrite, Fault::IsFull, Fault::FailsFlush, Fault::Dies];
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
