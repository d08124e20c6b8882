//! The code beside a naive model: products bit by bit, and missing shards by solving all K equations.

use evenkeel_erasure::{Code, Kernel, MAX_DATA, MAX_PARITY, Misuse};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

/// The product by the definition.
fn product(left: u8, right: u8) -> u8 {
    let (mut product, mut doubled) = (0, left);
    for bit in 0..8 {
        if right >> bit & 1 == 1 {
            product ^= doubled;
        }
        doubled = (doubled << 1) ^ if doubled & 0x80 == 0 { 0 } else { 0x1d };
    }
    product
}

/// The element whose product with this one is 1, by trying all.
fn quotient(left: u8, right: u8) -> u8 {
    let inverse = (1..=255).find(|&inverse| product(right, inverse) == 1).expect("not 0");
    product(left, inverse)
}

/// The coefficient that the format fixes.
fn coefficient(parity: usize, data: usize) -> u8 {
    let (first, this, column) = (255u8, 255 - parity as u8, data as u8);
    quotient(first ^ column, this ^ column)
}

/// Parity by the model.
fn naive_parity(data: &[Vec<u8>], parity: usize) -> Vec<Vec<u8>> {
    let shard = |row: usize| {
        let factors: Vec<u8> = (0..data.len()).map(|column| coefficient(row, column)).collect();
        let byte =
            |at: usize| data.iter().zip(&factors).fold(0, |sum, (shard, &c)| sum ^ product(shard[at], c));
        (0..data[0].len()).map(byte).collect()
    };
    (0..parity).map(shard).collect()
}

/// The data shards by the model: solves the K equations that the first K shards there are.
fn naive_data(k: usize, present: &[(usize, Vec<u8>)]) -> Vec<Vec<u8>> {
    let equation = |(number, shard): &(usize, Vec<u8>)| {
        let factor = |column| match *number < k {
            true => u8::from(column == *number),
            false => coefficient(number - k, column),
        };
        ((0..k).map(factor).collect::<Vec<u8>>(), shard.clone())
    };
    let mut equations: Vec<(Vec<u8>, Vec<u8>)> = present.iter().take(k).map(equation).collect();
    for column in 0..k {
        let pivot = (column..k).find(|&row| equations[row].0[column] != 0).expect("a solution");
        equations.swap(column, pivot);
        let scale = equations[column].0[column];
        let (mut factors, mut shard) = equations[column].clone();
        factors.iter_mut().chain(&mut shard).for_each(|byte| *byte = quotient(*byte, scale));
        equations[column] = (factors.clone(), shard.clone());
        for (row, equation) in equations.iter_mut().enumerate().filter(|(row, _)| *row != column) {
            let times = equation.0[column];
            assert!(row < k);
            for (byte, other) in equation.0.iter_mut().zip(&factors) {
                *byte ^= product(*other, times);
            }
            for (byte, other) in equation.1.iter_mut().zip(&shard) {
                *byte ^= product(*other, times);
            }
        }
    }
    equations.into_iter().map(|(_, shard)| shard).collect()
}

/// Shards of noise.
fn noise(shards: usize, len: usize, mut state: u32) -> Vec<Vec<u8>> {
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..shards).map(|_| (0..len).map(|_| next()).collect()).collect()
}

/// All shards of a stripe, parity by the code.
fn encoded(code: Code, mut shards: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let len = shards[0].len();
    let mut parity = vec![vec![0xaa; len]; code.parity()];
    let data: Vec<&[u8]> = shards.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&data, &mut outputs).expect("parity");
    shards.append(&mut parity);
    shards
}

/// What the code gives back of `wanted` from the shards at `there`.
fn rebuilt(code: Code, shards: &[Vec<u8>], there: &[usize], wanted: &[usize]) -> Vec<Vec<u8>> {
    let present: Vec<(usize, &[u8])> =
        there.iter().map(|&number| (number, shards[number].as_slice())).collect();
    let mut missing = vec![vec![0x55; shards[0].len()]; wanted.len()];
    let mut named: Vec<(usize, &mut [u8])> =
        wanted.iter().copied().zip(missing.iter_mut().map(Vec::as_mut_slice)).collect();
    code.reconstruct(&present, &mut named).expect("enough shards");
    missing
}

#[test]
fn every_code_up_to_sixteen_and_four_gives_back_every_pattern_of_missing_shards() {
    let mut tried = 0;
    for k in 1..=16usize {
        for m in 1..=4usize {
            let code = Code::new(k, m).unwrap();
            let data = noise(k, 3, (k * 10 + m) as u32);
            let shards = encoded(code, data.clone());
            assert_eq!(&shards[k..], naive_parity(&data, m), "parity of {k}+{m}");
            for pattern in 0u32..1 << (k + m) {
                if !(1..=m as u32).contains(&pattern.count_ones()) {
                    continue;
                }
                let (wanted, there): (Vec<usize>, Vec<usize>) =
                    (0..k + m).partition(|number| pattern >> number & 1 == 1);
                let found = rebuilt(code, &shards, &there, &wanted);
                let right: Vec<_> = wanted.iter().map(|&number| shards[number].clone()).collect();
                assert_eq!(found, right, "{k}+{m} without {wanted:?}");
                tried += 1;
            }
        }
    }
    // For each K and M, the sum of the ways to choose 1 to M of K + M.
    assert_eq!(tried, 35_300);
}

/// A code, how many bytes a shard has, how far it is from being aligned, and a seed.
fn shapes() -> impl Strategy<Value = (usize, usize, usize, u32)> {
    (1..=MAX_DATA, 1..=MAX_PARITY, 0..700usize, any::<u32>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn all_kernels_are_the_naive_model((k, m, len, seed) in shapes(), places in any::<u64>()) {
        let data = noise(k, len.max(1), seed);
        let parity = naive_parity(&data, m);
        // Any K of the shards, in any order of numbers.
        let mut numbers: Vec<usize> = (0..k + m).collect();
        let mut state = places | 1;
        for at in (1..numbers.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            numbers.swap(at, (state >> 33) as usize % (at + 1));
        }
        let (there, wanted) = numbers.split_at(k);
        let all: Vec<Vec<u8>> = data.iter().chain(&parity).cloned().collect();
        let present: Vec<(usize, Vec<u8>)> = there.iter().map(|&number| (number, all[number].clone())).collect();
        prop_assert_eq!(naive_data(k, &present), data.clone());
        for kernel in Kernel::available() {
            let code = Code::new(k, m).unwrap().with_kernel(kernel);
            prop_assert_eq!(&encoded(code, data.clone())[k..], &parity[..], "encoded by {}", kernel.name());
            let right: Vec<_> = wanted.iter().map(|&number| all[number].clone()).collect();
            prop_assert_eq!(rebuilt(code, &all, there, wanted), right, "rebuilt by {}", kernel.name());
        }
    }

    #[test]
    fn parity_follows_by_what_changed(
        (k, m, len, seed) in shapes(),
        changes in vec((any::<Index>(), any::<Index>(), any::<Index>(), any::<u32>()), 1..5),
    ) {
        let len = len.max(1);
        for kernel in Kernel::available() {
            let code = Code::new(k, m).unwrap().with_kernel(kernel);
            let mut shards = encoded(code, noise(k, len, seed));
            for (which, from, to, seed) in &changes {
                let (which, from, to) = (which.index(k), from.index(len), to.index(len + 1));
                let range = from.min(to)..from.max(to);
                let delta = noise(1, range.len(), *seed).remove(0);
                for (byte, change) in shards[which][range.clone()].iter_mut().zip(&delta) {
                    *byte ^= change;
                }
                for parity in 0..m {
                    code.update(which, &delta, parity, &mut shards[k + parity][range.clone()]).unwrap();
                }
            }
            prop_assert_eq!(&shards[k..], naive_parity(&shards[..k], m), "{}", kernel.name());
        }
    }

    #[test]
    fn only_what_is_asked_for_is_given_back(
        there in subsequence((0..14usize).collect::<Vec<_>>(), 10..14),
        seed in any::<u32>(),
    ) {
        let code = Code::new(10, 4).unwrap();
        let shards = encoded(code, noise(10, 100, seed));
        let missing: Vec<usize> = (0..14).filter(|number| !there.contains(number)).collect();
        for &wanted in &missing {
            prop_assert_eq!(&rebuilt(code, &shards, &there, &[wanted])[0], &shards[wanted]);
        }
    }
}

#[test]
fn each_constant_times_each_byte_is_right_in_every_kernel() {
    // Of a code with enough of them, all coefficients; the byte strings hold every byte.
    let bytes: Vec<u8> = (0..=255).collect();
    let mut seen = [false; 256];
    for kernel in Kernel::available() {
        let code = Code::new(MAX_DATA, MAX_PARITY).unwrap().with_kernel(kernel);
        for data in 0..MAX_DATA {
            for parity in 0..MAX_PARITY {
                let constant = coefficient(parity, data);
                seen[usize::from(constant)] = true;
                let mut range = vec![0; 256];
                code.update(data, &bytes, parity, &mut range).unwrap();
                let right: Vec<u8> = bytes.iter().map(|&byte| product(byte, constant)).collect();
                assert_eq!(range, right, "{} times {constant}", kernel.name());
            }
        }
    }
    assert!(seen.iter().filter(|&&seen| seen).count() > 100);
}

#[test]
fn one_parity_shard_is_the_xor_of_the_data() {
    let data = noise(5, 200, 3);
    let xor: Vec<u8> = (0..200).map(|at| data.iter().fold(0, |sum, shard| sum ^ shard[at])).collect();
    for m in 1..=MAX_PARITY {
        assert_eq!(encoded(Code::new(5, m).unwrap(), data.clone())[5], xor);
    }
}

#[test]
fn what_a_code_cannot_do_is_an_error_and_changes_nothing() {
    for (data, parity) in [(0, 1), (1, 0), (MAX_DATA + 1, 1), (1, MAX_PARITY + 1), (usize::MAX, usize::MAX)] {
        assert_eq!(Code::new(data, parity), Err(Misuse::Shape { data, parity }));
    }
    let code = Code::new(2, 1).unwrap();
    let (four, five) = ([7u8; 4], [7u8; 5]);
    let mut out = [9u8; 4];
    let too_few = code.encode(&[&four], &mut [&mut out]);
    assert_eq!(too_few, Err(Misuse::Count { given: 1, needed: 2 }));
    assert_eq!(code.encode(&[&four, &four], &mut []), Err(Misuse::Count { given: 0, needed: 1 }));
    let differ = code.encode(&[&four, &five], &mut [&mut out]);
    assert_eq!(differ, Err(Misuse::Lengths { one: 4, other: 5 }));
    let mut rebuild =
        |there: &[(usize, &[u8])], number| code.reconstruct(there, &mut [(number, &mut out[..])]);
    assert_eq!(rebuild(&[(0, &four)], 1), Err(Misuse::TooFew { given: 1, needed: 2 }));
    assert_eq!(rebuild(&[(0, &four), (3, &four)], 1), Err(Misuse::NoShard(3)));
    assert_eq!(rebuild(&[(0, &four), (usize::MAX, &four)], 1), Err(Misuse::NoShard(usize::MAX)));
    assert_eq!(rebuild(&[(0, &four), (0, &four)], 1), Err(Misuse::Twice(0)));
    assert_eq!(rebuild(&[(0, &four), (1, &four)], 1), Err(Misuse::Twice(1)));
    assert_eq!(rebuild(&[(0, &four), (1, &five)], 2), Err(Misuse::Lengths { one: 4, other: 5 }));
    assert_eq!(code.update(2, &four, 0, &mut out), Err(Misuse::NoShard(2)));
    assert_eq!(code.update(0, &four, usize::MAX, &mut out), Err(Misuse::NoShard(usize::MAX)));
    assert_eq!(code.update(0, &five, 0, &mut out), Err(Misuse::Lengths { one: 5, other: 4 }));
    assert_eq!(out, [9; 4]);
    let text = Code::new(0, 1).unwrap_err().to_string();
    assert!(text.contains("not 0 and 1"), "{text}");
}
