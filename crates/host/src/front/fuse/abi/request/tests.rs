//! Requests by their bytes.

use proptest::prelude::*;

use super::*;

fn request(opcode: u32, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(((HEAD_BYTES + body.len()) as u32).to_ne_bytes());
    out.extend(opcode.to_ne_bytes());
    out.extend(7_u64.to_ne_bytes());
    out.extend(12_u64.to_ne_bytes());
    [1000_u32, 100, 4321, 0].iter().for_each(|field| out.extend(field.to_ne_bytes()));
    out.extend(body);
    out
}

fn numbers(fields: &[u64]) -> Vec<u8> {
    fields.iter().flat_map(|field| field.to_ne_bytes()).collect()
}

/// Two fields of 32 bits.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

#[test]
fn a_head_says_who_asks_for_what_and_how_long_its_request_is() {
    let asked = request(opcode::LOOKUP, b"name\0");
    let head =
        Head { len: 45, opcode: opcode::LOOKUP, unique: 7, node: 12, uid: 1000, gid: 100, thread: 4321 };
    assert_eq!(Head::decode(&asked), Ok(head));
    assert_eq!(Head::decode(&asked[..asked.len() - 1]), Err(Malformed));
    assert_eq!(Operation::decode(opcode::LOOKUP, &asked), Ok(Operation::Lookup { name: b"name" }));
}

#[test]
fn a_name_has_an_end_and_is_not_empty() {
    for body in [&b""[..], b"name", b"\0"] {
        assert_eq!(Operation::decode(opcode::UNLINK, &request(opcode::UNLINK, body)), Err(Malformed));
    }
    let asked = request(opcode::SYMLINK, b"link\0to/there\0");
    let link = Operation::SymLink { name: b"link", target: b"to/there" };
    assert_eq!(Operation::decode(opcode::SYMLINK, &asked), Ok(link));
}

#[test]
fn a_write_brings_as_many_bytes_as_it_says() {
    let mut body = numbers(&[0, 4096, pair(3, 1 | 4), 0, pair(libc::O_DSYNC.cast_unsigned(), 0)]);
    body.extend(b"abc");
    let asked = request(opcode::WRITE, &body);
    assert_eq!(asked.len(), WRITE_HEAD_BYTES + 3);
    let Ok(Operation::Write(write)) = Operation::decode(opcode::WRITE, &asked) else { panic!("no write") };
    assert_eq!((write.offset, write.data, write.open_flags), (4096, &b"abc"[..], libc::O_DSYNC));
    assert!(write.is_written_back && write.takes_privileges);
    assert_eq!(Operation::decode(opcode::WRITE, &asked[..asked.len() - 1]), Err(Malformed));
}

#[test]
fn a_file_is_made_with_a_name_or_without() {
    let body = [&numbers(&[pair(libc::O_RDWR.cast_unsigned(), 0o640), 0])[..], b"#12\0"].concat();
    let of = |opcode| Operation::decode(opcode, &request(opcode, &body)).map(|it| format!("{it:?}"));
    assert_eq!(of(opcode::CREATE), Ok(format!("{:?}", Operation::Create { name: b"#12", mode: 0o640 })));
    assert_eq!(of(opcode::TMPFILE), Ok(format!("{:?}", Operation::CreateUnnamed { mode: 0o640 })));
    let cut = request(opcode::TMPFILE, &body[..8]);
    assert_eq!(Operation::decode(opcode::TMPFILE, &cut), Err(Malformed));
}

#[test]
fn only_attributes_that_are_named_are_set() {
    let valid = attribute::SIZE | attribute::ATIME | attribute::MTIME | attribute::MTIME_NOW;
    let times = [u64::MAX, 9, 9, pair(5, 6), pair(7, 0o644), pair(0, 1), pair(2, 0)];
    let mut body = numbers(&[pair(valid, 0), 0, 77, 0]);
    body.extend(numbers(&times));
    let asked = request(opcode::SETATTR, &body);
    let set = Attributes {
        mode: None,
        uid: None,
        gid: None,
        size: Some(77),
        atime: Some(Time::At { secs: -1, nanos: 5 }),
        mtime: Some(Time::Now),
    };
    assert_eq!(Operation::decode(opcode::SETATTR, &asked), Ok(Operation::SetAttributes(set)));
}

#[test]
fn lookups_of_many_files_are_taken_back_if_all_are_there() {
    let body = numbers(&[pair(2, 0), 12, 1, 13, 5]);
    let asked = request(opcode::BATCH_FORGET, &body);
    let Ok(Operation::ForgetAll(forgets)) = Operation::decode(opcode::BATCH_FORGET, &asked) else {
        panic!("nothing is taken back")
    };
    assert!(forgets.iter().eq([(12, 1), (13, 5)]));
    let asked = request(opcode::BATCH_FORGET, &body[..body.len() - 8]);
    assert_eq!(Operation::decode(opcode::BATCH_FORGET, &asked), Err(Malformed));
    let asked = request(opcode::BATCH_FORGET, &numbers(&[pair(u32::MAX, 0)]));
    assert_eq!(Operation::decode(opcode::BATCH_FORGET, &asked), Err(Malformed));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(opcode in 0_u32..64, body in prop::collection::vec(any::<u8>(), 0..200)) {
        let asked = request(opcode, &body);
        prop_assert!(Head::decode(&asked).is_ok());
        if let Ok(Operation::ForgetAll(forgets)) = Operation::decode(opcode, &asked) {
            prop_assert!(forgets.iter().count() * 16 <= body.len());
        }
        let _decoded_or_not = Operation::decode(opcode, &body);
        let _decoded_or_not = Head::decode(&body);
    }
}
