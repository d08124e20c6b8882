//! What went wrong with devices and what came of it, counted under the names that the summary shows.

use crate::faults::Fault;

/// Makes a tally, its sum and its list of names.
macro_rules! tally {
    ($tally:ident, $what:literal, $($(#[$about:meta])* $field:ident = $name:literal,)*) => {
        #[doc = $what]
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $tally {
            $($(#[$about])* pub $field: u64,)*
        }

        impl $tally {
            /// Adds what was counted elsewhere.
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }

            /// Each count with its name.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$(($name, self.$field)),*]
            }
        }
    };
}

tally! {
    DriveTally,
    "What drives did wrong that nothing stands in for, and what came of it.",

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

tally! {
    Tally,
    "What went wrong with drives that others stand in for, and what came of it.",

    /// Devices that died.
    died = "devices died",
    /// Devices that fell silent.
    fell_silent = "fell silent",
    /// Devices of which a write or a flush failed, or that were full.
    failed = "failed a write or a flush",
    /// Devices that a test failed.
    failed_by_test = "failed from outside",
    /// Devices that lied about durability.
    lied = "lied about durability",
    /// Devices that lost a write.
    lost_writes = "lost a write",
    /// Devices that misdirected one.
    misdirected_writes = "misdirected a write",
    /// Devices of which something rotted.
    rotten = "rotted",
    /// Devices of which a sector could not be read.
    unreadable = "had an unreadable sector",
    /// Devices that were what they had been before.
    rolled_back = "were what they had been",
    /// Devices that were replaced.
    replaced = "replaced",
    /// Log devices whose place another one took while the volume was open.
    logs_replaced = "log devices replaced while it was open",
    /// Devices that were copied to for that, and given up.
    log_copies_given_up = "copies of log devices given up",
    /// Starts with a log device that had been replaced, and no other, which were refused.
    refused_retired = "starts refused with a replaced log device",
    /// Members that were rebuilt.
    rebuilt = "rebuilt",
    /// Members that came back while the volume was open.
    rejoined = "came back while it was open",
    /// Runs after which a member had taken only what it had missed.
    caught_up = "took only what they had missed",
    /// Devices to which a killed process still had writes on their way.
    late = "had writes of a killed process on their way",
    /// Scrubs to their end.
    scrubs = "scrubs",
    /// Set-ups with the log on the members.
    logs_on_members = "logs on members",
    /// Runs in which such a volume refused to open, for want of a member that may alone have held records.
    refused_in_parts = "refusals for want of a part of the log",
    /// Runs in which it opened without a member.
    opened_in_parts = "openings without a part of it",
    /// Discards that failed on members that are well.
    refused_discards = "discards that failed on members that are well",
    /// Copies that they found wrong.
    scrubbed_wrong = "wrong copies found by them",
    /// Runs after which every device had everything.
    healed = "times all healed",
    /// Reads of members that were watched.
    watched_reads = "reads watched",
    /// Starts between two runs without those that had everything, which were refused.
    false_starts = "starts refused between lives",
    /// Volumes beyond their redundancy that refused to open.
    refusals = "volumes refused beyond the redundancy",
    /// Those that opened, and served right bytes.
    served = "served right bytes beyond it",
    /// Those that stopped while they were used.
    stopped = "stopped beyond it",
}

impl Tally {
    /// Counts a fault that was injected.
    pub(crate) fn count(&mut self, fault: Fault) {
        *match fault {
            Fault::Dies => &mut self.died,
            Fault::FallsSilent => &mut self.fell_silent,
            Fault::FailsWrite | Fault::IsFull | Fault::FailsFlush => &mut self.failed,
            Fault::IsFailed => &mut self.failed_by_test,
            Fault::Lies => &mut self.lied,
            Fault::LosesWrite => &mut self.lost_writes,
            Fault::MisdirectsWrite => &mut self.misdirected_writes,
            Fault::Rots => &mut self.rotten,
            Fault::CannotRead => &mut self.unreadable,
        } += 1;
    }
}
