//! Records of the log: what is taken for one says the same when it is written anew.
#![no_main]

use evenkeel_engine::format::record::{Header, RecordBuilder, decode, decode_header};
use evenkeel_fuzz::{Choices, seal_record};
use libfuzzer_sys::fuzz_target;

const VOLUME: u64 = 7;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::of(data);
    let shape = choices.byte();
    let sector_bytes = [512, 1024, 2048, 4096][usize::from(shape & 3)];
    let mut bytes = choices.rest().to_vec();
    if shape & 4 != 0 {
        // The fuzzer cannot be asked to fill a sector.
        bytes.resize(bytes.len().next_multiple_of(sector_bytes), 0);
        if bytes.len() >= 64 {
            let len = (bytes.len() as u32).to_le_bytes();
            bytes[56..60].copy_from_slice(&len);
        }
    }
    if shape & 8 != 0 {
        seal_record(&mut bytes, VOLUME);
    }
    let header = decode_header(&bytes, sector_bytes);
    let Some(record) = decode(&bytes, VOLUME, sector_bytes) else { return };
    assert_eq!(header, Some(record.header));

    let mut builder = RecordBuilder::default();
    builder.clear();
    for tag in &record.tags {
        builder.tag(tag);
    }
    builder.payload(record.payload.len()).copy_from_slice(record.payload);
    let again = builder.seal(
        VOLUME,
        Header { tags: 0, payload_bytes: 0, len_bytes: 0, ..record.header },
        sector_bytes,
    );
    assert_eq!(decode(again, VOLUME, sector_bytes).as_ref(), Some(&record));
});
