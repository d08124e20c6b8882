//! Where a write differs from what is there.

use smallvec::SmallVec;

/// Equal bytes shorter than this between two changes are written with them: a tag costs 16.
const EQUAL_RUN_MIN: usize = 32;

/// Bytes that are compared at once, and in blocks of which more is seldom looked at where they are equal.
const STEP: usize = 16;
const BLOCK: usize = 8 * STEP;

/// Shortest write of which samples are looked at first.
const SAMPLED_MIN: usize = 4096;

/// Between two samples.
const SAMPLE_STRIDE: usize = 512;

/// Whether every sample differs. Then the rest most likely does too, and is not read for it: a write that changes all of
/// a page costs eight lines of the processor's cache instead of sixty-four.
fn differs_everywhere(old: &[u8], new: &[u8]) -> bool {
    let sample = |bytes: &[u8], at: usize| bytes[at..].first_chunk().copied().map(u128::from_ne_bytes);
    (0..new.len()).step_by(SAMPLE_STRIDE).all(|at| sample(old, at) != sample(new, at))
}

/// Whether both are blocks, of the same bytes.
fn is_equal_block(old: &[u8], new: &[u8]) -> bool {
    let blocks: (Result<&[u8; BLOCK], _>, Result<&[u8; BLOCK], _>) = (old.try_into(), new.try_into());
    matches!(blocks, (Ok(old), Ok(new)) if old == new)
}

/// Where `new` differs from `old`, which is as long, with short equal runs between two changes taken in.
pub fn differences(old: &[u8], new: &[u8]) -> SmallVec<[(usize, usize); 4]> {
    let mut found: SmallVec<[(usize, usize); 4]> = SmallVec::new();
    if new.len() >= SAMPLED_MIN && differs_everywhere(old, new) {
        found.push((0, new.len()));
        return found;
    }
    // Steps that differ, one behind another: where the first change in them begins, and the last of them.
    let mut run: Option<(usize, usize)> = None;
    let mut close = |run: Option<(usize, usize)>| {
        let Some((start, last)) = run else { return };
        let stop = old.len().min(last + STEP);
        let changes = old[last..stop].iter().zip(&new[last..stop]).rposition(|(a, b)| a != b);
        let end = last + changes.map_or(0, |change| change + 1);
        match found.last_mut() {
            Some((_, previous)) if start - *previous < EQUAL_RUN_MIN => *previous = end,
            _ => found.push((start, end)),
        }
    };
    // Compared as one number each, sixteen bytes at a time: a call of memcmp for each would cost more. Blocks that are equal
    // are passed at once.
    let word = |bytes: &[u8]| bytes.try_into().ok().map(u128::from_ne_bytes);
    for (block, (old, new)) in old.chunks(BLOCK).zip(new.chunks(BLOCK)).enumerate() {
        if is_equal_block(old, new) {
            close(run.take());
            continue;
        }
        for (step, (old, new)) in old.chunks(STEP).zip(new.chunks(STEP)).enumerate() {
            let at = block * BLOCK + step * STEP;
            let is_equal = match (word(old), word(new)) {
                (Some(old), Some(new)) => old == new,
                _ => old == new,
            };
            run = match run {
                _ if is_equal => {
                    close(run);
                    None
                }
                Some((start, _)) => Some((start, at)),
                None => Some((at + old.iter().zip(new).position(|(a, b)| a != b).unwrap_or(0), at)),
            };
        }
    }
    close(run);
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_of_other_bytes_is_one_change_and_a_page_with_an_equal_part_is_not() {
        let old = vec![0; 4096];
        let mut new = vec![1; 4096];
        assert_eq!(&differences(&old, &new)[..], [(0, 4096)]);
        new[1000..2000].fill(0);
        assert_eq!(&differences(&old, &new)[..], [(0, 1000), (2000, 4096)]);
        assert!(differences(&old, &old).is_empty());
    }

    #[test]
    fn an_equal_run_between_two_changes_is_left_out_once_it_is_long_enough() {
        for (next, expected) in [(32, vec![(0, 33)]), (33, vec![(0, 1), (33, 34)])] {
            let (old, mut new) = ([0; 100], [0; 100]);
            (new[0], new[next]) = (1, 1);
            assert_eq!(differences(&old, &new)[..], expected, "{next}");
        }
    }

    proptest! {
        #[test]
        fn differences_cover_every_changed_byte_and_no_long_equal_run(
            changes in proptest::collection::vec((0..500usize, 1..40usize), 0..8),
        ) {
            let old = vec![0u8; 500];
            let mut new = old.clone();
            for (start, len) in changes {
                let end = (start + len).min(new.len());
                new[start..end].fill(1);
            }
            let mut patched = old.clone();
            let found = differences(&old, &new);
            for &(start, end) in &found {
                prop_assert!(new[start] == 1 && new[end - 1] == 1);
                patched[start..end].copy_from_slice(&new[start..end]);
            }
            prop_assert_eq!(&patched, &new);
            prop_assert!(found.windows(2).all(|pair| pair[1].0 - pair[0].1 >= EQUAL_RUN_MIN));
        }
    }
}
