//! The hash of names in folders with an index: half MD4.

/// The hash that orders a folder, and one more that tells apart what it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameHash {
    /// The order in the index; its lowest bit is 0.
    pub major: u32,
    /// Among names of the same order.
    pub minor: u32,
}

/// The largest that no name has: the index says with it that there is no more.
const END: u32 = 0x7fff_ffff << 1;

/// Hashes a name with the seed of its file system, as unsigned or signed bytes.
pub fn half_md4(name: &[u8], seed: &[u32; 4], is_unsigned: bool) -> NameHash {
    let mut state = match seed {
        [0, 0, 0, 0] => [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476],
        seed => *seed,
    };
    let mut rest = name;
    while !rest.is_empty() {
        transform(&mut state, &words(rest, is_unsigned));
        rest = &rest[rest.len().min(32)..];
    }
    let major = state[1] & !1;
    NameHash { major: if major == END { END - 2 } else { major }, minor: state[2] }
}

/// Up to 32 bytes of a name as words, padded with its length.
fn words(name: &[u8], is_unsigned: bool) -> [u32; 8] {
    let len = name.len() as u32;
    let pad = len | len << 8;
    let pad = pad | pad << 16;
    let mut words = [pad; 8];
    for (word, bytes) in words.iter_mut().zip(name.chunks(4)) {
        for &byte in bytes {
            let value = if is_unsigned { u32::from(byte) } else { byte as i8 as u32 };
            *word = value.wrapping_add(*word << 8);
        }
    }
    words
}

fn transform(state: &mut [u32; 4], words: &[u32; 8]) {
    type Mix = fn(u32, u32, u32) -> u32;
    let choose: Mix = |x, y, z| z ^ (x & (y ^ z));
    let majority: Mix = |x, y, z| (x & y).wrapping_add((x ^ y) & z);
    let parity: Mix = |x, y, z| x ^ y ^ z;
    let rounds: [(Mix, u32, [usize; 8], [u32; 4]); 3] = [
        (choose, 0, [0, 1, 2, 3, 4, 5, 6, 7], [3, 7, 11, 19]),
        (majority, 0x5a82_7999, [1, 3, 5, 7, 0, 2, 4, 6], [3, 5, 9, 13]),
        (parity, 0x6ed9_eba1, [3, 7, 2, 6, 1, 5, 0, 4], [3, 9, 11, 15]),
    ];
    let [mut a, mut b, mut c, mut d] = *state;
    for (mix, constant, order, turns) in rounds {
        for (step, &word) in order.iter().enumerate() {
            let sum = a.wrapping_add(mix(b, c, d)).wrapping_add(words[word]).wrapping_add(constant);
            (a, b, c, d) = (d, sum.rotate_left(turns[step % 4]), b, c);
        }
    }
    for (word, change) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(change);
    }
}
