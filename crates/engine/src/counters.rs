//! What the engine did, counted: the same figures in the simulator and in production.

use std::cell::Cell;

/// Hands a macro the counters: what each counts, and its name.
#[macro_export]
macro_rules! with_counters {
    ($macro:ident) => {
        $macro! {
            /// Bytes that clients wrote.
            user_bytes,
            /// Writes.
            writes,
            /// Requests to write zeros or to discard.
            zeroes,
            /// Bytes that those named.
            zeroed_bytes,
            /// Bytes that equalled what was durable already.
            equal_bytes,
            /// Bytes read.
            read_bytes,
            /// Flushes.
            flushes,
            /// Bytes of deltas in commits.
            delta_bytes,
            /// Commits.
            commits,
            /// Writes that the commits carried.
            committed_units,
            /// Bytes written to the log.
            log_bytes,
            /// Bytes of pages written home.
            home_bytes,
            /// Bytes of sums and superblocks written.
            table_bytes,
            /// Of these, bytes of the root of the sums.
            root_bytes,
            /// Discards that members failed to carry out; each is asked no more after one.
            failed_discards,
            /// Flushes sent to the home member.
            home_flushes,
            /// Checkpoints completed.
            checkpoints,
            /// Large writes that went straight home.
            direct_writes,
            /// Bytes of large writes that went straight home.
            direct_bytes,
            /// Times a write waited for room in the buffer.
            buffer_waits,
            /// Writes that were slowed down to what a mirror's members take home.
            throttled_writes,
            /// For how long, all of them together, in ns.
            throttled_ns,
            /// Times a commit waited for room in the log.
            log_waits,
            /// Times that commits waited for room in the log for more than a second.
            long_waits,
            /// Times the log was full to its end and went on from its start.
            log_wraps,
            /// Pages read from the home member, for which somebody waited.
            home_reads,
            /// Pages of the table of sums read from the home member.
            table_reads,
            /// Pages that the system had in memory as they are on the home member.
            cached_reads,
            /// Pages that were wrong on the member of a mirror that was read first, and right on another.
            other_copies,
            /// Reads that failed because no copy of a page is what was written.
            damaged_reads,
            /// Reads that failed because a member did.
            failed_reads,
            /// Pages logged once more because they cannot go home: what they held before is damaged.
            carried_pages,
            /// Log records replayed at the opening.
            replayed_records,
            /// Writes taken over from a process that was killed.
            replayed_units,
        }
    };
}

macro_rules! counters {
    ($(#[$doc:meta] $name:ident,)*) => {
        /// Counters of one opening of a volume.
        #[derive(Debug, Default)]
        pub struct Counters { $(#[$doc] pub(crate) $name: Cell<u64>,)* }

        /// The counters at one moment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Snapshot { $(#[$doc] pub $name: u64,)* }

        impl Counters {
            /// All of them, now.
            pub fn snapshot(&self) -> Snapshot {
                Snapshot { $($name: self.$name.get(),)* }
            }
        }
    };
}

with_counters!(counters);

/// Adds to a counter.
pub(crate) fn add(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get() + more);
}
