//! Inodes: 256 bytes each, times with nanoseconds.

use super::superblock::INODE_BYTES;
use super::{get_u16, get_u32, put_u16, put_u32};

/// The bits of a mode that say what kind of file it is.
pub const KIND_BITS: u16 = 0o170_000;

/// Words of an inode that map blocks, or hold a short symbolic link or a device's number.
pub const MAP_WORDS: usize = 15;

/// Bytes of a symbolic link that fit into the inode, and one more.
pub const LINK_BYTES: usize = 4 * MAP_WORDS;

/// Where extended attributes begin, in an inode that this crate makes.
pub const EXTRA_BYTES: u16 = 32;

/// Where the fields of revision 0 end.
pub const OLD_BYTES: usize = 128;

/// The flag of a folder with an index.
pub const FLAG_INDEX: u32 = 0x1000;

/// Flags of contents that this crate does not read: compressed, encrypted, extents, inline.
pub const FLAGS_UNREADABLE: u32 = 0x4 | 0x200 | 0x800 | 0x8_0000 | 0x1000_0000;

/// Flags that forbid changes: immutable.
pub const FLAG_IMMUTABLE: u32 = 0x10;

/// The flag of a file that may only be appended to.
pub const FLAG_APPEND: u32 = 0x20;

/// Flags that a new file has from its folder: no dump, no atime, synchronous.
pub const FLAGS_INHERITED: u32 = 0x8 | 0x40 | 0x80;

/// A point in time, by the clock of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub secs: i64,
    /// And nanoseconds.
    pub nanos: u32,
}

impl Timestamp {
    fn decode(low: u32, extra: u32) -> Self {
        let secs = i64::from(low as i32) + (i64::from(extra & 3) << 32);
        Self { secs, nanos: (extra >> 2).min(999_999_999) }
    }

    /// The nearest that an inode can hold.
    fn encode(self) -> (u32, u32) {
        let secs = self.secs.clamp(i64::from(i32::MIN), i64::from(i32::MIN) + (1 << 34) - 1);
        let epoch = ((secs - i64::from(secs as i32)) >> 32) as u32 & 3;
        (secs as u32, self.nanos.min(999_999_999) << 2 | epoch)
    }
}

/// What kind of file an inode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file with bytes.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
}

impl Kind {
    /// What a mode says; `None` where it says none.
    pub fn of_mode(mode: u16) -> Option<Self> {
        Some(match mode & KIND_BITS {
            0o010_000 => Self::Pipe,
            0o020_000 => Self::CharDevice,
            0o040_000 => Self::Folder,
            0o060_000 => Self::BlockDevice,
            0o100_000 => Self::File,
            0o120_000 => Self::Link,
            0o140_000 => Self::Socket,
            _ => return None,
        })
    }

    /// Its bits in a mode.
    pub fn mode_bits(self) -> u16 {
        match self {
            Self::Pipe => 0o010_000,
            Self::CharDevice => 0o020_000,
            Self::Folder => 0o040_000,
            Self::BlockDevice => 0o060_000,
            Self::File => 0o100_000,
            Self::Link => 0o120_000,
            Self::Socket => 0o140_000,
        }
    }

    /// Its number in an entry of a folder.
    pub fn entry_type(self) -> u8 {
        match self {
            Self::File => 1,
            Self::Folder => 2,
            Self::CharDevice => 3,
            Self::BlockDevice => 4,
            Self::Pipe => 5,
            Self::Socket => 6,
            Self::Link => 7,
        }
    }

    /// What an entry of a folder says; `None` where it says none.
    pub fn of_entry_type(number: u8) -> Option<Self> {
        [Self::File, Self::Folder, Self::CharDevice, Self::BlockDevice, Self::Pipe, Self::Socket, Self::Link]
            .into_iter()
            .find(|kind| kind.entry_type() == number)
    }
}

/// An inode, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inode {
    /// Kind and permissions.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group of owners.
    pub gid: u32,
    /// Bytes of the file.
    pub size: u64,
    /// Last read, as far as that is noted.
    pub atime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Last change of the contents.
    pub mtime: Timestamp,
    /// When it was made.
    pub crtime: Timestamp,
    /// When it was deleted; of an orphan, the next orphan.
    pub dtime: u32,
    /// Names.
    pub links: u16,
    /// 512-byte sectors that it takes.
    pub sectors: u32,
    /// Flags.
    pub flags: u32,
    /// Tells apart the files that had this number.
    pub generation: u32,
    /// The block of extended attributes; 0 where there is none.
    pub xattr_block: u32,
    /// The map of its blocks.
    pub map: [u32; MAP_WORDS],
    /// Bytes behind the fields of revision 0 that are fields.
    pub extra_bytes: u16,
}

impl Inode {
    /// From the first 256 of `bytes`.
    pub fn decode(bytes: &[u8]) -> Self {
        let word = |at: usize| get_u32(bytes, at);
        let half = |at: usize| u32::from(get_u16(bytes, at));
        let extra_bytes = get_u16(bytes, 128);
        let extra = |at: usize| match at + 4 <= OLD_BYTES + usize::from(extra_bytes) {
            true => word(at),
            false => 0,
        };
        let mode = get_u16(bytes, 0);
        let has_high_size = Kind::of_mode(mode) == Some(Kind::File);
        Self {
            mode,
            uid: half(2) | half(120) << 16,
            gid: half(24) | half(122) << 16,
            size: u64::from(word(4)) | if has_high_size { u64::from(word(108)) << 32 } else { 0 },
            atime: Timestamp::decode(word(8), extra(140)),
            ctime: Timestamp::decode(word(12), extra(132)),
            mtime: Timestamp::decode(word(16), extra(136)),
            crtime: Timestamp::decode(extra(144), extra(148)),
            dtime: word(20),
            links: get_u16(bytes, 26),
            sectors: word(28),
            flags: word(32),
            generation: word(100),
            xattr_block: word(104),
            map: std::array::from_fn(|slot| word(40 + 4 * slot)),
            extra_bytes,
        }
    }

    /// Into the first 256 of `bytes`, of which the rest stays.
    pub fn encode(&self, bytes: &mut [u8]) {
        put_u16(bytes, 0, self.mode);
        put_u16(bytes, 2, self.uid as u16);
        put_u32(bytes, 4, self.size as u32);
        put_u32(bytes, 20, self.dtime);
        put_u16(bytes, 24, self.gid as u16);
        put_u16(bytes, 26, self.links);
        put_u32(bytes, 28, self.sectors);
        put_u32(bytes, 32, self.flags);
        for (slot, &word) in self.map.iter().enumerate() {
            put_u32(bytes, 40 + 4 * slot, word);
        }
        put_u32(bytes, 100, self.generation);
        put_u32(bytes, 104, self.xattr_block);
        if Kind::of_mode(self.mode) == Some(Kind::File) {
            put_u32(bytes, 108, (self.size >> 32) as u32);
        }
        put_u16(bytes, 120, (self.uid >> 16) as u16);
        put_u16(bytes, 122, (self.gid >> 16) as u16);
        put_u16(bytes, 128, self.extra_bytes);
        let fits = |at: usize| at + 4 <= OLD_BYTES + usize::from(self.extra_bytes);
        let times = [(8, 140, self.atime), (12, 132, self.ctime), (16, 136, self.mtime)];
        for (low_at, extra_at, time) in times {
            let (low, extra) = time.encode();
            put_u32(bytes, low_at, low);
            if fits(extra_at) {
                put_u32(bytes, extra_at, extra);
            }
        }
        if fits(148) {
            let (low, extra) = self.crtime.encode();
            put_u32(bytes, 144, low);
            put_u32(bytes, 148, extra);
        }
    }

    /// What kind of file it is; `None` where its mode says none.
    pub fn kind(&self) -> Option<Kind> {
        Kind::of_mode(self.mode)
    }

    /// Whether it is in use and what it says of itself can be true.
    pub fn is_sound(&self) -> bool {
        self.kind().is_some()
            && self.flags & FLAGS_UNREADABLE == 0
            && self.size <= super::FILE_BYTES_MAX
            && usize::from(self.extra_bytes) <= INODE_BYTES - OLD_BYTES
            && self.extra_bytes.is_multiple_of(4)
            && (self.kind() != Some(Kind::Folder)
                || self.size > 0 && self.size.is_multiple_of(super::BLOCK_BYTES))
    }

    /// Whether the map holds a symbolic link's target.
    pub fn is_short_link(&self) -> bool {
        let xattr_sectors = if self.xattr_block != 0 { 8 } else { 0 };
        self.kind() == Some(Kind::Link) && self.sectors <= xattr_sectors && self.size < LINK_BYTES as u64
    }

    /// The bytes of the map.
    pub fn map_bytes(&self) -> [u8; LINK_BYTES] {
        let mut bytes = [0; LINK_BYTES];
        for (slot, word) in self.map.iter().enumerate() {
            bytes[4 * slot..][..4].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Stores bytes in the map.
    pub fn set_map_bytes(&mut self, target: &[u8]) {
        let mut bytes = [0; LINK_BYTES];
        bytes[..target.len()].copy_from_slice(target);
        self.map = std::array::from_fn(|slot| get_u32(&bytes, 4 * slot));
    }

    /// A device's number, as Linux has it: major and minor.
    pub fn device(&self) -> (u32, u32) {
        match self.map[0] {
            0 => {
                let word = self.map[1];
                ((word & 0xf_ff00) >> 8, word & 0xff | word >> 12 & 0xf_ff00)
            }
            old => (old >> 8 & 0xff, old & 0xff),
        }
    }

    /// Stores a device's number.
    pub fn set_device(&mut self, major: u32, minor: u32) {
        match major < 256 && minor < 256 {
            true => self.map[0] = major << 8 | minor,
            false => self.map[1] = minor & 0xff | major << 8 | (minor & !0xff) << 12,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_nanoseconds_from_1901_to_2446() {
        for secs in [i64::from(i32::MIN), -1, 0, i64::from(i32::MAX), 1 << 31, (1 << 32) + 5, 15_032_385_535]
        {
            let time = Timestamp { secs, nanos: 999_999_999 };
            let (low, extra) = time.encode();
            assert_eq!(Timestamp::decode(low, extra), time);
        }
    }

    #[test]
    fn an_inode_is_the_same_after_encoding_and_decoding() {
        let inode = Inode {
            mode: 0o100_644,
            uid: 70_000,
            gid: 80_000,
            size: 1 << 40,
            mtime: Timestamp { secs: 1 << 33, nanos: 7 },
            links: 3,
            map: std::array::from_fn(|slot| slot as u32),
            extra_bytes: EXTRA_BYTES,
            ..Inode::default()
        };
        let mut bytes = [0; INODE_BYTES];
        inode.encode(&mut bytes);
        assert_eq!(Inode::decode(&bytes), inode);
    }

    #[test]
    fn device_numbers_are_those_of_linux() {
        for (major, minor) in [(8, 1), (300, 70_000), (1, 256), (0, 0)] {
            let mut inode = Inode::default();
            inode.set_device(major, minor);
            assert_eq!(inode.device(), (major, minor));
        }
    }
}
