//! What can be done about an error or an event, as data.
//!
//! 1. A message of this crate names what is wrong. What helps may be a command or a flag of the program that runs: that
//!    program knows its own, and puts a [`Remedy`] into words ([`Advise`]).

/// What can be done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Let a group of users in instead of all, or serve with TLS.
    LetGroupIn,
    /// Listen for this machine only, or serve with TLS.
    ListenLocally,
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
    /// Look at the counts of events.
    LookAtCounts,
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
