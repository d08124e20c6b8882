//! What can be done about an error or an event, as data.
//!
//! 1. A message of this crate names what is wrong. What helps may be a command or a flag of the program that runs: that
//!    program knows its own, and puts a [`Remedy`] into words ([`Advise`]).

use std::fmt;

/// A size of a volume that is to be made, which programs have a name for: a flag, a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// Bytes that it offers.
    Size,
    /// Bytes of its log.
    LogSize,
    /// Bytes of the largest atomic write.
    AtomicMax,
    /// Bytes of its buffer.
    Buffer,
}

impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Size => "size",
            Self::LogSize => "log size",
            Self::AtomicMax => "largest atomic write",
            Self::Buffer => "buffer",
        })
    }
}

/// What can be done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Let a group of users in instead of all, or serve with TLS.
    LetGroupIn,
    /// Listen for this machine only, or serve with TLS.
    ListenLocally,
    /// Ask clients for certificates.
    AskForCertificates,
    /// Say that other machines may see the page.
    ShowToOthers,
    /// Say by which names browsers may ask for the page.
    NamePage,
    /// Put another drive in the place of a member or log device.
    ReplaceDevice,
    /// Copy the pages of a volume whose log is lost.
    SalvagePages {
        /// The volume, as it is typed.
        folder: String,
        /// Whether its log can be made again, too.
        renews_log: bool,
    },
    /// Have the pages named that are damaged.
    NameDamagedPages,
    /// Look why the drive of the log is slower than it was.
    LookAfterLogDrive,
    /// Try anew which settings suit the drives.
    TuneAnew,
    /// Look at the counts of events.
    LookAtCounts,
    /// Make a volume first.
    MakeVolume,
    /// Look at the status of the volume, whether its server did what was asked.
    LookAtStatus,
    /// Say that what is at a place may be overwritten.
    Destroy {
        /// The place, as it is typed.
        place: String,
    },
    /// Choose a smaller value.
    ChooseSmaller(Setting),
    /// Make files without their room.
    UseSparse,
    /// Give up the writes that an arena holds.
    GiveUpWrites,
    /// Make a larger volume, and copy this one there.
    CopyToLarger,
    /// Wait until a member is rebuilt.
    AwaitRebuild {
        /// The volume, as it is typed.
        folder: String,
    },
    /// Bring a member back, or put another drive in its place.
    ReplaceMember {
        /// The volume, as it is typed.
        folder: String,
        /// Where the member is, as it is typed.
        member: String,
    },
    /// Say that a drive keeps sectors whole in a power cut, where it does.
    SayAtomicSectors,
    /// Say that nothing of an earlier process can arrive at a server any more.
    SayUnfenced,
}

/// Puts a remedy into the words of a program, as one clause; `None` where it has nothing to offer.
pub type Advise = fn(&Remedy) -> Option<String>;

/// `message`, with what `advise` says of `remedy`.
pub(crate) fn advised(message: String, advise: Advise, remedy: &Remedy) -> String {
    match advise(remedy) {
        Some(advice) => format!("{message}; {advice}"),
        None => message,
    }
}
