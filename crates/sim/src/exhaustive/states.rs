//! Which outcomes of one cut are tried.
//!
//! 1. Up to [`EVERY_SUBSET_SECTORS`] unflushed sectors, every subset of them lands once. Beyond that, a sample
//!    that holds none, all, each alone, each missing, and all up to each in the order of their issue.
//! 2. Where the drive does not promise whole sectors, up to [`EVERY_TORN_SECTORS`] of them are also lost,
//!    landed or torn in every combination; beyond that, in a sample. How a torn one is torn is drawn.
//! 3. On several drives these bounds are lower, and beyond them the outcomes of each drive by itself are tried beside all
//!    others lost, and all landed.
//! 4. The same arguments give the same outcomes in the same order: a state is named by its number.

use crate::image::Fate;
use crate::random::Random;

/// Unflushed sectors of which every subset is tried.
pub const EVERY_SUBSET_SECTORS: usize = 12;

/// Unflushed sectors that are torn in every combination.
pub const EVERY_TORN_SECTORS: usize = 6;

/// Outcomes drawn where there are too many to try all.
const SAMPLED: usize = 256;

/// As [`EVERY_SUBSET_SECTORS`], where they are on several drives.
pub const EVERY_SUBSET_SECTORS_OF_SEVERAL: usize = 8;

/// As [`EVERY_TORN_SECTORS`], where they are on several drives.
pub const EVERY_TORN_SECTORS_OF_SEVERAL: usize = 4;

/// As [`SAMPLED`], where they are on several drives.
const SAMPLED_OF_SEVERAL: usize = 32;

/// Whether [`outcomes`] are all that there are.
pub(super) fn are_all_tried(groups: &[usize], may_tear: bool) -> bool {
    let sectors: usize = groups.iter().sum();
    sectors <= if may_tear { EVERY_TORN_SECTORS } else { every_subset_max(groups) }
}

/// The outcomes of a cut with so many sectors unflushed in each group.
pub(super) fn outcomes(groups: &[usize], may_tear: bool, random: &mut Random) -> Vec<Vec<Fate>> {
    let sectors = groups.iter().sum();
    match sectors <= every_subset_max(groups) || groups.len() == 1 {
        true => of_one(sectors, may_tear, random),
        false => of_several(groups, may_tear, random),
    }
}

/// Unflushed sectors of these groups together of which every subset is tried.
fn every_subset_max(groups: &[usize]) -> usize {
    if groups.len() == 1 { EVERY_SUBSET_SECTORS } else { EVERY_SUBSET_SECTORS_OF_SEVERAL }
}

fn of_one(sectors: usize, may_tear: bool, random: &mut Random) -> Vec<Vec<Fate>> {
    let mut all = match sectors <= EVERY_SUBSET_SECTORS {
        true => every_subset(sectors),
        false => some_subsets(sectors, SAMPLED, random),
    };
    if may_tear && sectors > 0 {
        match sectors <= EVERY_TORN_SECTORS {
            true => every_torn(sectors, random, &mut all),
            false => all.extend((0..SAMPLED).map(|_| (0..sectors).map(|_| any_fate(random)).collect())),
        }
    }
    all
}

/// Those of each group, beside all others lost and all others landed; then a sample of all together.
fn of_several(groups: &[usize], may_tear: bool, random: &mut Random) -> Vec<Vec<Fate>> {
    let sectors: usize = groups.iter().sum();
    let mut all = Vec::new();
    let mut before = 0;
    for &group in groups.iter().filter(|sectors| **sectors > 0) {
        let after = sectors - before - group;
        let mut own = match group <= EVERY_SUBSET_SECTORS_OF_SEVERAL {
            true => every_subset(group),
            false => some_subsets(group, SAMPLED_OF_SEVERAL, random),
        };
        if may_tear && group > 0 && group <= EVERY_TORN_SECTORS_OF_SEVERAL {
            every_torn(group, random, &mut own);
        }
        for extreme in [Fate::Lost, Fate::Landed] {
            all.extend(
                own.iter().map(|own| [&vec![extreme; before], &own[..], &vec![extreme; after]].concat()),
            );
        }
        before += group;
    }
    let fate = |random: &mut Random, share| match may_tear {
        true => any_fate(random),
        false => landed_if(random.chance(share)),
    };
    for _ in 0..SAMPLED_OF_SEVERAL {
        let share = random.unit();
        all.push((0..sectors).map(|_| fate(random, share)).collect());
    }
    all
}

fn every_subset(sectors: usize) -> Vec<Vec<Fate>> {
    let subset = |mask: u32| (0..sectors).map(|sector| landed_if(mask >> sector & 1 == 1)).collect();
    (0..1 << sectors).map(subset).collect()
}

fn some_subsets(sectors: usize, sampled: usize, random: &mut Random) -> Vec<Vec<Fate>> {
    let subset =
        |lands: &dyn Fn(usize) -> bool| (0..sectors).map(|sector| landed_if(lands(sector))).collect();
    let mut some: Vec<Vec<Fate>> = Vec::with_capacity(3 * sectors + sampled);
    for at in 0..sectors {
        some.push(subset(&|sector| sector == at));
        some.push(subset(&|sector| sector != at));
        some.push(subset(&|sector| sector < at));
    }
    some.push(subset(&|_| true));
    for _ in 0..sampled {
        let share = random.unit();
        some.push((0..sectors).map(|_| landed_if(random.chance(share))).collect());
    }
    some
}

/// Every combination in which at least one sector is torn.
fn every_torn(sectors: usize, random: &mut Random, all: &mut Vec<Vec<Fate>>) {
    for combination in 0..3_usize.pow(sectors as u32) {
        let digit = |sector: usize| combination / 3_usize.pow(sector as u32) % 3;
        if (0..sectors).all(|sector| digit(sector) != 2) {
            continue;
        }
        let fate = |sector| match digit(sector) {
            2 => Fate::Torn(random.number()),
            digit => landed_if(digit == 1),
        };
        all.push((0..sectors).map(fate).collect());
    }
}

fn any_fate(random: &mut Random) -> Fate {
    match random.below(4) {
        0 => Fate::Torn(random.number()),
        1 => Fate::Lost,
        _ => landed_if(random.coin()),
    }
}

fn landed_if(lands: bool) -> Fate {
    if lands { Fate::Landed } else { Fate::Lost }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn distinct(outcomes: &[Vec<Fate>]) -> usize {
        outcomes.iter().map(|fates| format!("{fates:?}")).collect::<HashSet<_>>().len()
    }

    #[test]
    fn few_sectors_land_in_every_subset_once() {
        for sectors in 0..=EVERY_SUBSET_SECTORS {
            let tried = outcomes(&[sectors], false, &mut Random::new(1));
            assert_eq!((tried.len(), distinct(&tried)), (1 << sectors, 1 << sectors));
            assert!(are_all_tried(&[sectors], false));
        }
        assert!(!are_all_tried(&[EVERY_SUBSET_SECTORS + 1], false));
    }

    #[test]
    fn few_sectors_are_lost_landed_or_torn_in_every_combination() {
        for sectors in 0..=EVERY_TORN_SECTORS {
            let tried = outcomes(&[sectors], true, &mut Random::new(1));
            let all = 3_usize.pow(sectors as u32);
            assert_eq!((tried.len(), distinct(&tried)), (all, all));
            assert!(are_all_tried(&[sectors], true));
        }
        assert!(!are_all_tried(&[EVERY_TORN_SECTORS + 1], true));
    }

    #[test]
    fn of_many_sectors_a_sample_is_tried_that_holds_the_extremes() {
        let tried = outcomes(&[40], false, &mut Random::new(1));
        for extreme in [Fate::Lost, Fate::Landed] {
            assert!(tried.contains(&vec![extreme; 40]), "{extreme:?}");
        }
        assert!(distinct(&tried) > 3 * 40 + SAMPLED / 2);
        let torn = |fates: &Vec<Fate>| fates.iter().any(|fate| matches!(fate, Fate::Torn(_)));
        assert!(!tried.iter().any(torn));
        assert!(outcomes(&[40], true, &mut Random::new(1)).iter().filter(|fates| torn(fates)).count() > 200);
    }
}
