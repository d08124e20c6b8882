//! Units and heads of the arena: what is taken for one says the same when it is written anew.
#![no_main]

use evenkeel_engine::format::unit::{
    ArenaHead, Content, HEAD_BYTES, UNIT_EXTENT_BYTES, UNIT_HEADER_BYTES, decode_unit, decode_unit_header,
    encode_unit_head,
};
use evenkeel_fuzz::{Choices, seal_head, seal_unit};
use libfuzzer_sys::fuzz_target;

const VOLUME: u64 = 7;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::of(data);
    let shape = choices.byte();
    let mut bytes = choices.rest().to_vec();
    if shape & 1 != 0 {
        bytes.resize(HEAD_BYTES, 0);
        if shape & 2 != 0 {
            seal_head(&mut bytes);
        }
        if let Some(head) = ArenaHead::decode(&bytes) {
            assert_eq!(ArenaHead::decode(&head.encode()), Some(head));
        }
        return;
    }
    if shape & 2 != 0 {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        if bytes.len() >= UNIT_HEADER_BYTES {
            let extents = u32::from(bytes[32]);
            let payload_start = UNIT_HEADER_BYTES as u32 + extents * UNIT_EXTENT_BYTES as u32;
            let payload_bytes = (bytes.len() as u32).saturating_sub(payload_start);
            for (place, word) in bytes[32..48].chunks_exact_mut(4).zip([
                extents,
                payload_bytes,
                payload_start,
                payload_start + payload_bytes,
            ]) {
                place.copy_from_slice(&word.to_le_bytes());
            }
        }
        seal_unit(&mut bytes, VOLUME);
    }
    let header = decode_unit_header(&bytes);
    let Some((found, extents, payload_start)) = decode_unit(VOLUME, &bytes) else { return };
    assert_eq!(header, Some(found));
    let payload = &bytes[payload_start..payload_start + found.payload_bytes as usize];
    let (mut again, mut parts, mut rest) = (Vec::new(), Vec::new(), payload);
    for extent in extents.iter().filter(|extent| extent.content == Content::Data) {
        let (part, behind) = rest.split_at(extent.len as usize);
        parts.push(part);
        rest = behind;
    }
    encode_unit_head(VOLUME, found.sequence, &extents, parts, &mut again);
    again.extend_from_slice(payload);
    again.resize(found.len_bytes as usize, 0);
    let (same, same_extents, same_start) = decode_unit(VOLUME, &again).expect("it was written");
    assert_eq!(
        (same.sequence, same.len_bytes, same_extents, same_start),
        (found.sequence, found.len_bytes, extents, payload_start)
    );
    assert_eq!(&again[payload_start..payload_start + payload.len()], payload);
});
