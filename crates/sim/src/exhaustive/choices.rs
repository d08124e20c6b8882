//! Which drives may be there after a cut.

use crate::testbed::{Kind, Testbed};

/// Every choice of drives that may be there, all of them first: some of each kind, and of one kind, where the volume knows
/// it by those of another, perhaps only such as lack something.
pub(super) fn choices<T: Testbed>(testbed: &T, have_all: &[bool]) -> Vec<Vec<bool>> {
    let drives = have_all.len();
    if !T::IS_REDUNDANT {
        return vec![vec![true; drives]];
    }
    let choice = |lost: u32| -> Vec<bool> { (0..drives).map(|drive| lost >> drive & 1 == 0).collect() };
    let is_some_of_each = |there: &Vec<bool>| {
        let is_there = |kind: Kind| (0..drives).any(|drive| testbed.kind(drive) == kind && there[drive]);
        (0..drives).all(|drive| is_there(testbed.kind(drive)))
    };
    let without_max = usize::from(testbed.log_drives() > 0);
    let is_tried =
        |there: &Vec<bool>| is_some_of_each(there) && kinds_without(testbed, have_all, there) <= without_max;
    (0..1 << drives).map(choice).filter(is_tried).collect()
}

/// Kinds of which fewer of those that are there have everything than are needed.
pub(super) fn kinds_without<T: Testbed>(testbed: &T, have_all: &[bool], there: &[bool]) -> usize {
    let drives = 0..have_all.len();
    let lacks = |kind: &Kind| {
        let counts = |drive: &usize| testbed.kind(*drive) == *kind && there[*drive] && have_all[*drive];
        let is_used = drives.clone().any(|drive| testbed.kind(drive) == *kind);
        is_used && drives.clone().filter(counts).count() < testbed.needed(*kind)
    };
    [Kind::Pages, Kind::Log].iter().filter(|kind| lacks(kind)).count()
}
