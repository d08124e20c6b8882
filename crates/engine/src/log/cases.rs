//! What recovery decides at each place of the log, as a table.
//!
//! The evidence is what stands where the next record should be, and whether anything on disk says that this
//! record was acknowledged: a later whole record or the superblock. Every combination has a name.

/// What stands where the next record should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The record, whole, of this volume, in sequence, of this or an earlier opening but none earlier than the
    /// record before it.
    Whole,
    /// Anything else: an older record, a torn one, bytes of none.
    Other,
    /// The device cannot read it.
    Unreadable,
}

/// What recovery does there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Take the record and look for the next.
    Take,
    /// The log ends here, as it normally does: what was being written when the power went was never
    /// acknowledged.
    End,
    /// An acknowledged record is lost. Nothing is truncated; the volume is not opened without repair.
    Damaged,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// What it is called.
    pub name: &'static str,
    /// What stands there.
    pub found: Found,
    /// Whether something says that the record was acknowledged.
    pub acknowledged: bool,
    /// What follows.
    pub decision: Decision,
}

/// Every combination of evidence.
pub const CASES: [Case; 6] = [
    Case { name: "acknowledged record", found: Found::Whole, acknowledged: true, decision: Decision::Take },
    Case { name: "record that made it", found: Found::Whole, acknowledged: false, decision: Decision::Take },
    Case { name: "end of the log", found: Found::Other, acknowledged: false, decision: Decision::End },
    Case { name: "damaged record", found: Found::Other, acknowledged: true, decision: Decision::Damaged },
    Case { name: "unreadable end", found: Found::Unreadable, acknowledged: false, decision: Decision::End },
    Case {
        name: "unreadable record",
        found: Found::Unreadable,
        acknowledged: true,
        decision: Decision::Damaged,
    },
];

/// The row for this evidence.
pub fn case_of(found: Found, acknowledged: bool) -> Case {
    let matches = |case: &&Case| case.found == found && case.acknowledged == acknowledged;
    *CASES.iter().find(matches).expect("the table is exhaustive, and a test proves it")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whichever follows, so that a new one cannot be left out unseen.
    fn next(found: Option<Found>) -> Option<Found> {
        match found {
            None => Some(Found::Whole),
            Some(Found::Whole) => Some(Found::Other),
            Some(Found::Other) => Some(Found::Unreadable),
            Some(Found::Unreadable) => None,
        }
    }

    #[test]
    fn every_combination_of_evidence_has_exactly_one_case() {
        for found in std::iter::successors(next(None), |&found| next(Some(found))) {
            for acknowledged in [false, true] {
                let rows = CASES
                    .iter()
                    .filter(|case| case.found == found && case.acknowledged == acknowledged)
                    .count();
                assert_eq!(rows, 1, "{found:?} {acknowledged}");
                let case = case_of(found, acknowledged);
                // Nothing that was acknowledged is ever dropped in silence.
                assert!(!(acknowledged && case.decision == Decision::End), "{}", case.name);
            }
        }
    }
}
