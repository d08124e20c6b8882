//! Bugs to order: each breaks one rule of the engine at one place, so that the simulator can show that it would
//! be seen.
//!
//! Without the feature `planted` no bug can be planted, and nothing of this is left in the program.

/// Makes the enumeration of a crate's bugs, their list and names, and what plants one of them in this thread: there where the
/// crate that lists them has the feature `planted`, and nothing otherwise.
#[macro_export]
macro_rules! planted_bugs {
    ($($(#[$about:meta])* $bug:ident = $name:literal,)*) => {
        /// A bug that can be planted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Bug {
            $($(#[$about])* $bug,)*
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$bug),*];

            /// What it is called.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$bug => $name,)*
                }
            }
        }

        #[cfg(feature = "planted")]
        thread_local! {
            static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
        }

        /// From now on what runs in this thread has this bug, or none.
        #[cfg(feature = "planted")]
        pub fn plant(bug: Option<Bug>) {
            PLANTED.set(bug);
        }

        /// Whether what runs in this thread has the bug.
        #[cfg(feature = "planted")]
        pub fn is_planted(bug: Bug) -> bool {
            PLANTED.get() == Some(bug)
        }

        /// Whether what runs in this thread has the bug: never, and the compiler knows.
        #[cfg(not(feature = "planted"))]
        #[inline(always)]
        pub const fn is_planted(_bug: Bug) -> bool {
            false
        }
    };
}

impl Bug {
    /// Whether it is in what only a volume with several members or log devices has.
    pub fn needs_ring(self) -> bool {
        let parts =
            ["ring-", "copy-", "log-loss-", "log-absence-", "log-writes-one", "log-not-mended", "log-copy-"];
        parts.iter().any(|part| self.name().starts_with(part))
    }

    /// Whether it is in what only a ring with stripes has.
    pub fn needs_stripes(self) -> bool {
        self.name().starts_with("stripes-")
    }

    /// Whether it is in what salvages a volume.
    pub fn needs_salvage(self) -> bool {
        self.name().starts_with("salvage-")
    }

    /// Whether it is in what converts a volume that is in use.
    pub fn needs_conversion(self) -> bool {
        self.name().starts_with("conversion-")
    }
}

crate::planted_bugs! {
    /// Shards of a stripe are written without a record of the change.
    StripesUnlogged = "stripes-unlogged",
    /// The record of a change is overwritten before the change is durable on all members.
    StripesFreedEarly = "stripes-freed-early",
    /// A page is computed from shards of which some have a change and some have not.
    StripesMixVersions = "stripes-mix-versions",
    /// What a change adds to parity is added again after an opening.
    StripesParityTwice = "stripes-parity-twice",
    /// A member that is rebuilt keeps the parity shards that it had.
    StripesRebuildStale = "stripes-rebuild-stale",
    /// That a region changed is forgotten once it is copied to a member that came back, before that is durable.
    StripesRegionForgottenEarly = "stripes-region-forgotten-early",
    /// A stripe is computed from what is read, right or wrong.
    StripesUnchecked = "stripes-unchecked",
    /// Parity becomes that of what a page held before, though others have what it is to hold.
    StripesTakeOlder = "stripes-take-older",
    /// Records count that are older than the oldest that was needed.
    StripesReplayOlder = "stripes-replay-older",
    /// Where the newest records cannot be read, those before them count.
    StripesReplayUnread = "stripes-replay-unread",
    /// Records go home that one log device alone has.
    StripesReplayUnlevelled = "stripes-replay-unlevelled",
    /// A record of the log of stripes counts wherever it is found, though it was written elsewhere.
    StripesTakeMisplaced = "stripes-take-misplaced",
    /// A member that is being rebuilt keeps what that brought of rows of which parity is made from something else.
    StripesRebuiltElsewise = "stripes-rebuilt-elsewise",
    /// Records of the stripe log are written home once more, and a log device that is not there counts as before.
    StripesReplayedUntold = "stripes-replayed-untold",
    /// A rebuild does not look whether members hold one version of rows that are known in part.
    StripesRebuiltApart = "stripes-rebuilt-apart",
    /// A member that comes back is not given the rows of changes that have no number yet.
    StripesNotedLate = "stripes-noted-late",
    /// A change is made of what too few members can say.
    StripesChangedByFew = "stripes-changed-by-few",
    /// What too few members have durably counts as durable on all.
    StripesSettledByFew = "stripes-settled-by-few",
    /// A log device that is copied to is given nothing of the log of stripes that was there before.
    StripesLogNotCopied = "stripes-log-not-copied",
    /// Nothing is left in the log of stripes for a log device that is copied to: older records that it has may count.
    StripesLogCopyUnmarked = "stripes-log-copy-unmarked",
    /// Nothing is left there behind what is copied: what the new one lacks, as it was unnecessary by then, may count.
    StripesLogCopyUnclosed = "stripes-log-copy-unclosed",
    /// A log device that is copied to takes the place though it has not answered everything. Others than those of stripes have
    /// less under way at a time: it hardly shows there.
    StripesLogCopyUnanswered = "stripes-log-copy-unanswered",
    /// That a region changed is forgotten once it is copied to a member that came back, before that is durable.
    RingRejoinClearsEarly = "ring-rejoin-clears-early",
    /// One of the regions that a member lacks that came back is not copied.
    RingRejoinMissesRegion = "ring-rejoin-misses-region",
    /// A member that came back is taken for one that lacks nothing.
    RingRejoinTrustsStale = "ring-rejoin-trusts-stale",
    /// That a region changed is noted once the write has ended.
    RingDirtyNotedLate = "ring-dirty-noted-late",
    /// What an earlier opening changed is not kept in mind.
    RingDirtyForgotten = "ring-dirty-forgotten",
    /// Where no root vouches for the sums of pages, they are taken as they are.
    SalvageTrustsUnvouched = "salvage-trusts-unvouched",
    /// A sum that was wiped says that its page is empty.
    SalvageEmptyUnproven = "salvage-empty-unproven",
    /// Pages whose sums are made anew are not named.
    SalvageUnnamed = "salvage-unnamed",
    /// Every page is named, whatever vouches for its sum.
    SalvageNamesAll = "salvage-names-all",
    /// A run of pages that goes home in one piece may go on into another segment.
    RunAcrossSegments = "run-across-segments",
    /// A superblock names the root of a volume that has grown before that is durable.
    GrowthUnflushed = "growth-unflushed",
    /// Pages are served before the superblock that names them is durable.
    GrowthServedEarly = "growth-served-early",
    /// Bytes that a read already shows are taken for durable.
    EqualIsDurable = "equal-is-durable",
    /// A write is compared with the durable bytes though the buffer holds newer ones.
    DiffIgnoresBuffer = "diff-ignores-buffer",
    /// A record counts whichever opening wrote it.
    AnyEpoch = "any-epoch",
    /// An opening begins while writes of a process that is gone may still land.
    OpeningUnfenced = "opening-unfenced",
    /// An opening goes on in the epoch of the one before.
    EpochStays = "epoch-stays",
    /// A record's checksum covers its header alone.
    SumOfHeader = "sum-of-header",
    /// A record of the log is written without durability.
    LogBuffered = "log-buffered",
    /// A record counts as acknowledged before those in front of it are written.
    LogUnordered = "log-unordered",
    /// A commit takes effect before the records in front of its own are durable.
    AppliedUnordered = "applied-unordered",
    /// A record that is not whole is always taken for damage.
    TornTailIsDamage = "torn-tail-is-damage",
    /// A record that is not whole is always taken for the end of the log.
    DamageIsEnd = "damage-is-end",
    /// Commits may fill the log to its end.
    NoReserve = "no-reserve",
    /// The superblock names the new tail before what went home is flushed.
    TailBeforeFlush = "tail-before-flush",
    /// A checkpoint does not flush the home device.
    NoHomeFlush = "no-home-flush",
    /// The superblock names the record behind the tail.
    TailTooLate = "tail-too-late",
    /// A checkpoint takes the pages home that were dirty when it began, and no others.
    CheckpointByFirstList = "checkpoint-by-first-list",
    /// A checkpoint writes home without the new sums in the log.
    NoSums = "no-sums",
    /// A checkpoint logs no images though sectors may be torn.
    NoImages = "no-images",
    /// A page without contents keeps a sum.
    DiscardKeepsSum = "discard-keeps-sum",
    /// The place of the root that the superblock names is brought up to date before another superblock names the other.
    RootInPlace = "root-in-place",
    /// A checkpoint writes of the root only what it changed, though the other place lacks more.
    RootLacksBefore = "root-lacks-before",
    /// An opening looks for the root in the place that the superblock names, and nowhere else.
    OneRootRead = "one-root-read",
    /// A discard that fails makes the volume read-only.
    FailedDiscardLatches = "failed-discard-latches",
    /// Recovery reads what may still be in a volatile cache.
    NoFlushAtOpen = "no-flush-at-open",
    /// Each superblock is written over the one before.
    SuperblockInPlace = "superblock-in-place",
    /// A superblock is written without durability.
    SuperblockBuffered = "superblock-buffered",
    /// A commit acknowledges the first unit of the next one too.
    TicketTooFar = "ticket-too-far",
    /// A flush does not wait for a commit that is under way.
    CommittingIsDurable = "committing-is-durable",
    /// A range flush leaves the last page of its range out.
    FlushMissesEdge = "flush-misses-edge",
    /// Each changed range of a write is a unit of its own.
    WriteSplit = "write-split",
    /// Each range of a commit is a unit of its own.
    CommitSplit = "commit-split",
    /// A commit is acknowledged once it can be read.
    CommitUnawaited = "commit-unawaited",
    /// What is zeroed is a unit for each part of a page, and another for whole pages.
    ZeroSplit = "zero-split",
    /// A commit leaves older units their overwritten bytes.
    NoTrim = "no-trim",
    /// What is overwritten in the middle of a unit takes the rest of it along.
    TrimKeepsFront = "trim-keeps-front",
    /// Pages that are written straight home keep their contents meanwhile though the drives need images.
    FreshOverContents = "fresh-over-contents",
    /// A direct write goes home without an intent in the log.
    NoIntent = "no-intent",
    /// A direct write is acknowledged without a flush of the home device.
    NoDirectFlush = "no-direct-flush",
    /// A direct write is acknowledged without its completion in the log.
    NoCompletion = "no-completion",
    /// A direct write does not wait until what the buffer holds of its pages is durable.
    DirectBeforeBuffered = "direct-before-buffered",
    /// A direct write is completed in the log before its pages are home.
    CompletedBeforeHome = "completed-before-home",
    /// A direct write counts as named by a record, or flushed by a flush, that had begun when it came.
    DirectJoinsLate = "direct-joins-late",
    /// Direct writes of ranges that overlap run side by side.
    DirectOverlaps = "direct-overlaps",
    /// A direct write leaves the old page in memory.
    FrameKept = "frame-kept",
    /// Room in the arena is used again before the new tail is stored.
    ArenaTailLate = "arena-tail-late",
    /// The reader of the arena does not look for units at its start.
    ArenaWrapMissed = "arena-wrap-missed",
    /// Units that were durable are taken for new ones when the arena is opened again.
    DurableUnitsReplayed = "durable-units-replayed",
    /// Devices that hold an older state are taken beside an arena that knows of a later one.
    OlderStateTaken = "older-state-taken",
    /// On drives that may tear sectors, a sum in the log counts as much as an image.
    SumForImage = "sum-for-image",
    /// A log is written in smaller sectors than its drive writes at once.
    SmallerSectorsKept = "smaller-sectors-kept",
    /// A log device counts however old it is.
    StaleLogTaken = "stale-log-taken",
    /// The arena is told of acknowledged records only when the room of its oldest unit comes back.
    AcknowledgedWithTail = "acknowledged-with-tail",
    /// What a unit leaves in the bulk lane is said to be durable before the unit is.
    LaneLeftIsDurable = "lane-left-is-durable",
    /// A commit that overtakes older units leaves them their overwritten bytes.
    OvertakenNotTrimmed = "overtaken-not-trimmed",
    /// A unit is absorbed by a newer one that holds some of its bytes.
    AbsorbsWhatItTouches = "absorbs-what-it-touches",
    /// A commit of small units makes as many tickets of the bulk lane durable.
    LanesMixed = "lanes-mixed",
    /// A flush does not wait for units that others asked for, where a page has many.
    SettledIsDurable = "settled-is-durable",
    /// A page of the table goes though somebody waits between loading a sum and using it.
    HeldTablePageGoes = "held-table-page-goes",
    /// A page of the table goes though it differs from what is home.
    DirtyTablePageGoes = "dirty-table-page-goes",
    /// A checkpoint speaks of the table before it has spoken of all pages.
    TableBeforePages = "table-before-pages",
    /// A checkpoint says only as much as one record takes.
    OnePieceSaid = "one-piece-said",
    /// A page that changed while a checkpoint let others have their turn goes home as it is by then.
    YieldTakesChanged = "yield-takes-changed",
    /// What changed last before a volume is switched is not copied.
    ConversionLeavesTheLast = "conversion-leaves-the-last",
    /// A page counts as copied though it was written while it was.
    ConversionUnmarksBehind = "conversion-unmarks-behind",
    /// What was zeroed after it was copied keeps its copy.
    ConversionLeavesZeroed = "conversion-leaves-zeroed",
    /// A commit is marked as its first range only.
    ConversionMarksOneRange = "conversion-marks-one-range",
    /// A volume is held as soon as it is to be, whatever is under way.
    ConversionHoldsAtOnce = "conversion-holds-at-once",
    /// A ring is closed while something is under way on its members, and opened again.
    ConversionRingAtWork = "conversion-ring-at-work",
    /// A page is marked when its write begins, and not when it ends.
    ConversionMarksAhead = "conversion-marks-ahead",
    /// What the system has in memory of the device is not compared with its sum.
    CachedUnchecked = "cached-unchecked",
    /// A member of a ring that failed goes on taking part.
    RingKeepsFailed = "ring-keeps-failed",
    /// A member of a ring that fails to discard takes part no more.
    RingDiscardFailsMember = "ring-discard-fails-member",
    /// A member of a ring counts though its head is older than the last flush.
    RingTrustsStale = "ring-trusts-stale",
    /// A flush of a ring is done once one member's is.
    RingFlushOfOne = "ring-flush-of-one",
    /// A write of a ring counts as durable everywhere once one member has it durably.
    RingSettledByOne = "ring-settled-by-one",
    /// A write of a ring counts as durable once all members have it, though none has flushed.
    RingEndedIsSettled = "ring-ended-is-settled",
    /// A checkpoint to a ring gives the room of records back before what they changed is home.
    RingTailTooSoon = "ring-tail-too-soon",
    /// A member that writes is read beside those that do not.
    RingReadsWriter = "ring-reads-writer",
    /// A head names writes that are under way.
    RingMarksUnderWay = "ring-marks-under-way",
    /// A member's turn ends without a flush.
    RingNoFlush = "ring-no-flush",
    /// Bytes that are put once more overtake a write of the same place.
    RingMendOvertakes = "ring-mend-overtakes",
    /// A rebuild copies what is being written.
    RingCopiesUnderWay = "ring-copies-under-way",
    /// A member that is rebuilt does not take the writes that come meanwhile.
    RingRebuildMissesWrites = "ring-rebuild-misses-writes",
    /// A member counts before the rebuild has copied everything.
    RingRebuildEndsEarly = "ring-rebuild-ends-early",
    /// A rebuild takes what one member holds without a look at its sum.
    RingRebuildUnchecked = "ring-rebuild-unchecked",
    /// A rebuild goes on though another device was put in its place.
    RingRebuildOutlives = "ring-rebuild-outlives",
    /// A ring whose growth is refused for a damaged page offers more all the same.
    RingGrowthRefusedLate = "ring-growth-refused-late",
    /// A superblock names the root of a volume on a ring that has grown before that is durable.
    RingGrowthUnflushed = "ring-growth-unflushed",
    /// Pages of a volume on a ring are served before the superblock that names them is durable.
    RingGrowthServedEarly = "ring-growth-served-early",
    /// Each head is written over the one before.
    RingHeadInPlace = "ring-head-in-place",
    /// A member's turn ends while its writes are under way.
    RingLeavesUndrained = "ring-leaves-undrained",
    /// The log on a ring's members is opened though one of them is missing that it needs.
    RingLogOpensWithout = "ring-log-opens-without",
    /// The log on a ring's members goes to those too that read.
    RingLogWritesReaders = "ring-log-writes-readers",
    /// A log that is older than the members know it to be is taken for the log.
    RingLogRolledBack = "ring-log-rolled-back",
    /// An opening ends in order, and the members are not told how far its log came.
    RingEndUntold = "ring-end-untold",
    /// A member that failed is not needed any more though the log still begins before what it holds.
    RingLogForgetsSoon = "ring-log-forgets-soon",
    /// What another copy holds is taken without a look at its sum.
    CopyUnchecked = "copy-unchecked",
    /// A log device fails, and nobody else is told.
    LogLossUntold = "log-loss-untold",
    /// A log device that is not there at an opening does not count as failed, nor are the members asked whether the log is
    /// older than they know it to be, which would find that out too.
    LogAbsenceUntold = "log-absence-untold",
    /// A log device that is not there counts as failed though the volume does not open.
    LogLossNotedEarly = "log-loss-noted-early",
    /// A record goes to one log device only.
    LogWritesOne = "log-writes-one",
    /// A log device that is copied to counts before all records are there.
    LogCopyCountsEarly = "log-copy-counts-early",
    /// A log device that was copied to counts before that is durable.
    LogCopyUnflushed = "log-copy-unflushed",
    /// A log device that is copied to is not given what is written meanwhile.
    LogCopyMissesWrites = "log-copy-misses-writes",
    /// A log device whose place another one took goes on counting.
    LogCopyOldCounts = "log-copy-old-counts",
    /// Records that one log device lacks are not put there before the log goes on.
    LogNotMended = "log-not-mended",
}
