//! What the kernel is answered: a head, and what it asked for.

use std::time::Duration;

use super::OPEN_KEEP_CACHE;

/// Bytes of a head: `fuse_out_header`.
const HEAD_BYTES: usize = 16;

/// A head.
pub(in super::super) type ReplyHead = [u8; HEAD_BYTES];

/// Bytes of a `fuse_attr`.
const ATTRIBUTES_BYTES: usize = 88;

/// Bytes of a `fuse_entry_out`.
const ENTRY_BYTES: usize = 40 + ATTRIBUTES_BYTES;

/// Bytes of a `fuse_dirent` before its name, which is filled up to a multiple of 8.
const LISTED_BYTES: usize = 24;

/// A time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Time {
    pub(in super::super) secs: i64,
    pub(in super::super) nanos: u32,
}

/// What a file is like, in the order of a `fuse_attr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Attributes {
    pub(in super::super) node: u64,
    pub(in super::super) size: u64,
    pub(in super::super) sectors: u64,
    pub(in super::super) atime: Time,
    pub(in super::super) mtime: Time,
    pub(in super::super) ctime: Time,
    /// Kind and permissions, as stat(2) has them.
    pub(in super::super) mode: u32,
    pub(in super::super) links: u32,
    pub(in super::super) uid: u32,
    pub(in super::super) gid: u32,
    pub(in super::super) device: u32,
    pub(in super::super) block_bytes: u32,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Entry {
    pub(in super::super) generation: u64,
    /// How long the kernel may keep it, with its attributes.
    pub(in super::super) is_kept_for: Duration,
    pub(in super::super) attributes: Attributes,
}

/// How full a file system is, in the order of a `fuse_kstatfs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Statistics {
    pub(in super::super) blocks: u64,
    pub(in super::super) free_blocks: u64,
    pub(in super::super) available_blocks: u64,
    pub(in super::super) inodes: u64,
    pub(in super::super) free_inodes: u64,
    pub(in super::super) block_bytes: u32,
    pub(in super::super) name_max_bytes: u32,
}

/// A reply: room for its head, and what was asked for. It is one piece, so that one write hands it over.
#[derive(Debug)]
pub(in super::super) struct Answer(Vec<u8>);

impl Default for Answer {
    fn default() -> Self {
        Self(vec![0; HEAD_BYTES])
    }
}

impl<const N: usize> From<[u8; N]> for Answer {
    fn from(bytes: [u8; N]) -> Self {
        Self::of(&bytes)
    }
}

impl From<Vec<u8>> for Answer {
    fn from(bytes: Vec<u8>) -> Self {
        Self::of(&bytes)
    }
}

impl Answer {
    fn of(bytes: &[u8]) -> Self {
        let mut whole = Vec::with_capacity(HEAD_BYTES + bytes.len());
        whole.resize(HEAD_BYTES, 0);
        whole.extend_from_slice(bytes);
        Self(whole)
    }

    /// Room for so many bytes, in memory that may have been used before: what it holds is not defined.
    pub(in super::super) fn of_len(mut memory: Vec<u8>, len: usize) -> Self {
        memory.resize(HEAD_BYTES + len, 0);
        Self(memory)
    }

    /// What was asked for.
    pub(in super::super) fn body(&mut self) -> &mut [u8] {
        &mut self.0[HEAD_BYTES..]
    }

    /// Keeps the first `len` bytes.
    pub(in super::super) fn truncate(&mut self, len: usize) {
        self.0.truncate(HEAD_BYTES + len);
    }

    /// All its bytes, as the reply to the request that the kernel calls `unique`; `errno` is positive, or 0 where all went
    /// well.
    pub(in super::super) fn addressed(mut self, unique: u64, errno: i32) -> Vec<u8> {
        let head = head(self.0.len() - HEAD_BYTES, unique, errno);
        self.0[..HEAD_BYTES].copy_from_slice(&head);
        self.0
    }
}

/// The head of a reply with so many bytes behind it, as for [`Answer::addressed`].
pub(in super::super) fn head(body_len: usize, unique: u64, errno: i32) -> ReplyHead {
    let mut out = Out::new();
    out.u32((HEAD_BYTES + body_len) as u32).u32(errno.wrapping_neg().cast_unsigned()).u64(unique);
    out.bytes
}

/// A `fuse_attr_out`.
pub(in super::super) fn attributes(it: &Attributes, is_kept_for: Duration) -> [u8; 16 + ATTRIBUTES_BYTES] {
    let mut out = Out::new();
    out.u64(is_kept_for.as_secs()).u32(is_kept_for.subsec_nanos()).u32(0).attributes(it);
    out.bytes
}

/// A `fuse_entry_out`.
pub(in super::super) fn entry(it: &Entry) -> [u8; ENTRY_BYTES] {
    let mut out = Out::new();
    out.entry(it);
    out.bytes
}

/// A `fuse_entry_out` and a `fuse_open_out`: the file has no handle, and keeps what the kernel has of it.
pub(in super::super) fn created(it: &Entry) -> [u8; ENTRY_BYTES + 16] {
    let mut out = Out::new();
    out.entry(it).u64(0).u32(OPEN_KEEP_CACHE).u32(0);
    out.bytes
}

/// A `fuse_write_out`, or the `fuse_getxattr_out` of who asks for a size.
pub(in super::super) fn count(bytes: u32) -> [u8; 8] {
    let mut out = Out::new();
    out.u32(bytes).u32(0);
    out.bytes
}

/// A `fuse_lseek_out`.
pub(in super::super) fn offset(at: i64) -> [u8; 8] {
    at.to_ne_bytes()
}

/// A `fuse_statfs_out`.
pub(in super::super) fn statistics(it: &Statistics) -> [u8; 80] {
    let mut out = Out::new();
    out.u64(it.blocks).u64(it.free_blocks).u64(it.available_blocks).u64(it.inodes).u64(it.free_inodes);
    out.u32(it.block_bytes).u32(it.name_max_bytes).u32(it.block_bytes);
    out.bytes
}

/// Entries of a folder, as many as the kernel has room for.
#[derive(Debug)]
pub(in super::super) struct Listing {
    answer: Answer,
    max_bytes: usize,
}

impl Listing {
    pub(in super::super) fn new(max_bytes: usize) -> Self {
        Self { answer: Answer::default(), max_bytes }
    }

    /// Adds an entry; false where there is no room for it. `cookie` names what follows it, `kind` is the file's as the upper
    /// bits of its mode.
    pub(in super::super) fn add(&mut self, node: u64, cookie: u64, kind: u32, name: &[u8]) -> bool {
        let has_room = self.has_room(LISTED_BYTES, name);
        if has_room {
            self.put(node, cookie, kind, name);
        }
        has_room
    }

    /// As [`Self::add`], with what the name stands for.
    pub(in super::super) fn add_entry(&mut self, it: &Entry, cookie: u64, name: &[u8]) -> bool {
        let has_room = self.has_room(ENTRY_BYTES + LISTED_BYTES, name);
        if has_room {
            self.answer.0.extend(entry(it));
            self.put(it.attributes.node, cookie, it.attributes.mode >> 12, name);
        }
        has_room
    }

    fn has_room(&self, head_bytes: usize, name: &[u8]) -> bool {
        self.answer.0.len() - HEAD_BYTES + (head_bytes + name.len()).next_multiple_of(8) <= self.max_bytes
    }

    fn put(&mut self, node: u64, cookie: u64, kind: u32, name: &[u8]) {
        let mut out = Out::<LISTED_BYTES>::new();
        out.u64(node).u64(cookie).u32(name.len() as u32).u32(kind);
        let bytes = &mut self.answer.0;
        bytes.extend(out.bytes);
        bytes.extend(name);
        // The head's length is a multiple of 8, too.
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }

    /// Whether nothing was added.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.answer.0.len() == HEAD_BYTES
    }
}

impl From<Listing> for Answer {
    fn from(listing: Listing) -> Self {
        listing.answer
    }
}

/// Fields one behind the other; what is not written is zeros.
struct Out<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Out<N> {
    fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    fn put(&mut self, field: &[u8]) -> &mut Self {
        self.bytes[self.len..][..field.len()].copy_from_slice(field);
        self.len += field.len();
        self
    }

    fn u32(&mut self, field: u32) -> &mut Self {
        self.put(&field.to_ne_bytes())
    }

    fn u64(&mut self, field: u64) -> &mut Self {
        self.put(&field.to_ne_bytes())
    }

    fn attributes(&mut self, it: &Attributes) -> &mut Self {
        self.u64(it.node).u64(it.size).u64(it.sectors);
        for time in [it.atime, it.mtime, it.ctime] {
            self.u64(time.secs.cast_unsigned());
        }
        for time in [it.atime, it.mtime, it.ctime] {
            self.u32(time.nanos);
        }
        self.u32(it.mode).u32(it.links).u32(it.uid).u32(it.gid).u32(it.device).u32(it.block_bytes).u32(0)
    }

    fn entry(&mut self, it: &Entry) -> &mut Self {
        let (secs, nanos) = (it.is_kept_for.as_secs(), it.is_kept_for.subsec_nanos());
        self.u64(it.attributes.node).u64(it.generation).u64(secs).u64(secs).u32(nanos).u32(nanos);
        self.attributes(&it.attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Attributes = Attributes {
        node: 12,
        size: 5000,
        sectors: 16,
        atime: Time { secs: -1, nanos: 1 },
        mtime: Time { secs: 2, nanos: 3 },
        ctime: Time { secs: 4, nanos: 5 },
        mode: libc::S_IFREG | 0o640,
        links: 1,
        uid: 1000,
        gid: 100,
        device: 0,
        block_bytes: 4096,
    };

    const NAMED: Entry = Entry { generation: 9, is_kept_for: Duration::from_millis(1500), attributes: FILE };

    fn u64_at(bytes: &[u8], at: usize) -> u64 {
        u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    fn u32_at(bytes: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn a_head_says_how_long_the_reply_is_and_has_its_error_below_zero() {
        let head = Answer::default().addressed(7, libc::ENOENT);
        assert_eq!((u32_at(&head, 0), u32_at(&head, 4).cast_signed(), u64_at(&head, 8)), (16, -2, 7));
        let whole = Answer::from([1, 2, 3]).addressed(7, 0);
        assert_eq!((u32_at(&whole, 0), u32_at(&whole, 4), &whole[16..]), (19, 0, &[1, 2, 3][..]));
    }

    #[test]
    fn an_answer_takes_memory_that_was_used_before_and_keeps_what_is_asked_for() {
        let mut answer = Answer::of_len(vec![9; 500], 100);
        answer.body()[..40].fill(1);
        answer.truncate(40);
        assert_eq!(answer.addressed(1, 0)[16..], [1; 40]);
    }

    #[test]
    fn an_entry_has_its_attributes_where_the_kernel_looks_for_them() {
        let entry = entry(&NAMED);
        assert_eq!((u64_at(&entry, 0), u64_at(&entry, 8)), (12, 9));
        assert_eq!((u64_at(&entry, 16), u64_at(&entry, 24)), (1, 1));
        assert_eq!((u32_at(&entry, 32), u32_at(&entry, 36)), (500_000_000, 500_000_000));
        let told = attributes(&FILE, Duration::from_millis(1500));
        assert_eq!((u64_at(&told, 0), u32_at(&told, 8)), (1, 500_000_000));
        assert_eq!(entry[40..], told[16..]);
        let file = &told[16..];
        assert_eq!((u64_at(file, 0), u64_at(file, 8), u64_at(file, 16)), (12, 5000, 16));
        assert_eq!(u64_at(file, 24).cast_signed(), -1);
        let rest: Vec<u32> = (48..88).step_by(4).map(|at| u32_at(file, at)).collect();
        assert_eq!(rest, [1, 3, 5, libc::S_IFREG | 0o640, 1, 1000, 100, 0, 4096, 0]);
        assert_eq!(created(&NAMED)[..ENTRY_BYTES], entry);
    }

    #[test]
    fn a_listing_takes_no_more_than_there_is_room_for_and_each_entry_begins_at_a_multiple_of_8() {
        let mut listing = Listing::new(32 + 40);
        assert!(listing.is_empty());
        assert!(listing.add(12, 1, 8, b"eight..."));
        assert!(!listing.add(13, 2, 8, b"more than eight..."));
        assert!(listing.add(13, 2, 4, b"nine....."));
        assert!(!listing.add(14, 3, 8, b"a"));
        let bytes = &Answer::from(listing).addressed(1, 0)[HEAD_BYTES..];
        assert_eq!(bytes.len(), 72);
        assert_eq!((u64_at(bytes, 32), u64_at(bytes, 40)), (13, 2));
        assert_eq!((u32_at(bytes, 48), u32_at(bytes, 52)), (9, 4));
        assert_eq!(&bytes[56..], b"nine.....\0\0\0\0\0\0\0");
    }

    #[test]
    fn a_listing_with_attributes_has_an_entry_before_each_name() {
        let mut listing = Listing::new(4096);
        assert!(listing.add_entry(&NAMED, 3, b"name"));
        let bytes = &Answer::from(listing).addressed(1, 0)[HEAD_BYTES..];
        assert_eq!(bytes[..ENTRY_BYTES], entry(&NAMED));
        assert_eq!((u64_at(bytes, ENTRY_BYTES), u64_at(bytes, ENTRY_BYTES + 8)), (12, 3));
        assert_eq!((u32_at(bytes, ENTRY_BYTES + 16), u32_at(bytes, ENTRY_BYTES + 20)), (4, 8));
        assert!(!Listing::new(ENTRY_BYTES + 31).add_entry(&NAMED, 3, b"name"));
    }
}
