//! The superblock: 1,024 bytes at byte 1,024, with copies in the groups that [`has_copy`] names.

use super::{BITS, BLOCK, BLOCK_BYTES, get_u16, get_u32, put_u16, put_u32};

/// Where in block 0 the superblock begins; a copy begins at byte 0 of its group.
pub const AT: usize = 1024;

/// Bytes of a superblock.
pub const BYTES: usize = 1024;

/// Bytes of an inode that this crate makes and reads.
pub const INODE_BYTES: usize = 256;

/// The first inode that is not reserved.
pub const FIRST_INODE: u32 = 11;

const MAGIC: u16 = 0xef53;
const STATE_CLEAN: u16 = 1;
const STATE_ERROR: u16 = 2;

const INODES: usize = 0;
const BLOCKS: usize = 4;
const RESERVED_BLOCKS: usize = 8;
const FREE_BLOCKS: usize = 12;
const FREE_INODES: usize = 16;
const FIRST_DATA_BLOCK: usize = 20;
const LOG_BLOCK_SIZE: usize = 24;
const LOG_FRAGMENT_SIZE: usize = 28;
const BLOCKS_PER_GROUP: usize = 32;
const FRAGMENTS_PER_GROUP: usize = 36;
const INODES_PER_GROUP: usize = 40;
const MOUNTED_S: usize = 44;
const WRITTEN_S: usize = 48;
const MOUNTS: usize = 52;
const MOUNTS_MAX: usize = 54;
const MAGIC_AT: usize = 56;
const STATE: usize = 58;
const ON_ERROR: usize = 60;
const CHECKED_S: usize = 64;
const REVISION: usize = 76;
const FIRST_INODE_AT: usize = 84;
const INODE_SIZE: usize = 88;
const GROUP_NUMBER: usize = 90;
const COMPATIBLE: usize = 92;
const INCOMPATIBLE: usize = 96;
const READ_ONLY_COMPATIBLE: usize = 100;
const UUID: usize = 104;
const LABEL: usize = 120;
const RESERVED_DESCRIPTOR_BLOCKS: usize = 206;
const LAST_ORPHAN: usize = 232;
const HASH_SEED: usize = 236;
const HASH_VERSION: usize = 252;
const MOUNT_OPTIONS: usize = 256;
const MADE_S: usize = 264;
const EXTRA_BYTES_MIN: usize = 348;
const EXTRA_BYTES_WANTED: usize = 350;
const FLAGS: usize = 352;

const COMPATIBLE_JOURNAL: u32 = 0x4;
const COMPATIBLE_XATTR: u32 = 0x8;
const COMPATIBLE_FOLDER_INDEX: u32 = 0x20;
const INCOMPATIBLE_FILE_TYPE: u32 = 0x2;
const READ_ONLY_SPARSE: u32 = 0x1;
const READ_ONLY_LARGE_FILE: u32 = 0x2;
const READ_ONLY_EXTRA_BYTES: u32 = 0x40;
const FLAG_UNSIGNED_HASH: u32 = 0x2;
const HALF_MD4: u8 = 1;
const OPTION_USER_XATTR: u32 = 0x4;

/// Whether a group holds a copy of superblock and descriptors, with sparse superblocks: 0, 1 and powers of 3, 5 and 7.
pub fn has_copy(group: u32) -> bool {
    let is_power = |base: u32| {
        let mut power = base;
        while power < group {
            power = match power.checked_mul(base) {
                Some(next) => next,
                None => return false,
            };
        }
        power == group
    };
    group <= 1 || is_power(3) || is_power(5) || is_power(7)
}

/// What of a file system never changes, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks, of which the first is number 0.
    pub blocks: u32,
    /// Inodes, of which the first is number 1.
    pub inodes: u32,
    /// Blocks that only privileged callers may take.
    pub reserved_blocks: u32,
    /// Blocks of a group; the last one may have fewer.
    pub blocks_per_group: u32,
    /// Inodes of a group.
    pub inodes_per_group: u32,
    /// The first inode that is not reserved.
    pub first_inode: u32,
    /// Whether only some groups hold a copy of the superblock.
    pub is_sparse: bool,
    /// Whether folders of more than one block get an index.
    pub has_folder_index: bool,
    /// Blocks behind the descriptors that are kept for more of them.
    pub reserved_descriptor_blocks: u32,
    /// What names are hashed with.
    pub hash_seed: [u32; 4],
    /// Whether names are hashed as unsigned bytes.
    pub has_unsigned_hash: bool,
    /// Which file system it is.
    pub uuid: [u8; 16],
    /// Its name.
    pub label: [u8; 16],
}

impl Geometry {
    /// Groups of blocks.
    pub fn groups(&self) -> u32 {
        self.blocks.div_ceil(self.blocks_per_group)
    }

    /// Blocks of the table of inodes of a group.
    pub fn inode_table_blocks(&self) -> u32 {
        self.inodes_per_group / (BLOCK / INODE_BYTES) as u32
    }

    /// Blocks of the table of descriptors.
    pub fn descriptor_blocks(&self) -> u32 {
        self.groups().div_ceil((BLOCK / super::group::BYTES) as u32)
    }

    /// The first block of a group.
    pub fn group_start(&self, group: u32) -> u32 {
        group * self.blocks_per_group
    }

    /// Blocks of a group.
    pub fn group_blocks(&self, group: u32) -> u32 {
        self.blocks_per_group.min(self.blocks - self.group_start(group))
    }

    /// Blocks that the superblock's copy and the descriptors take at the start of a group.
    pub fn group_head_blocks(&self, group: u32) -> u32 {
        match !self.is_sparse || has_copy(group) {
            true => 1 + self.descriptor_blocks() + self.reserved_descriptor_blocks,
            false => 0,
        }
    }

    /// What a superblock says; why it is not one to use, if so.
    ///
    /// # Errors
    ///
    /// What is wrong, and what to do about it.
    pub fn decode(bytes: &[u8; BYTES], store_bytes: u64) -> Result<Self, String> {
        let word = |at: usize| get_u32(bytes, at);
        let half = |at: usize| get_u16(bytes, at);
        let check = |is_right: bool, why: &str| if is_right { Ok(()) } else { Err(why.to_owned()) };
        check(half(MAGIC_AT) == MAGIC, "there is no ext2 file system; make one first")?;
        check(word(REVISION) == 1, "its revision is not 1; make a new file system")?;
        check(word(LOG_BLOCK_SIZE) == 2, "its blocks are not of 4096 bytes; make a new file system")?;
        check(
            usize::from(half(INODE_SIZE)) == INODE_BYTES,
            "its inodes are not of 256 bytes; make a new file system",
        )?;
        let unknown = word(INCOMPATIBLE) & !INCOMPATIBLE_FILE_TYPE
            | word(READ_ONLY_COMPATIBLE) & !(READ_ONLY_SPARSE | READ_ONLY_LARGE_FILE | READ_ONLY_EXTRA_BYTES)
            | word(COMPATIBLE) & COMPATIBLE_JOURNAL;
        check(unknown == 0, "it has features that ext2 has not (see dumpe2fs -h); mount it with the kernel")?;
        check(
            word(INCOMPATIBLE) & INCOMPATIBLE_FILE_TYPE != 0,
            "its folders do not name the types of files; run tune2fs -O filetype and e2fsck -f",
        )?;
        check(
            half(STATE) & (STATE_CLEAN | STATE_ERROR) == STATE_CLEAN,
            "it was not unmounted in order, or errors were found in it; run e2fsck -f",
        )?;
        let geometry = Self {
            blocks: word(BLOCKS),
            inodes: word(INODES),
            reserved_blocks: word(RESERVED_BLOCKS),
            blocks_per_group: word(BLOCKS_PER_GROUP),
            inodes_per_group: word(INODES_PER_GROUP),
            first_inode: word(FIRST_INODE_AT),
            is_sparse: word(READ_ONLY_COMPATIBLE) & READ_ONLY_SPARSE != 0,
            has_folder_index: word(COMPATIBLE) & COMPATIBLE_FOLDER_INDEX != 0,
            reserved_descriptor_blocks: u32::from(half(RESERVED_DESCRIPTOR_BLOCKS)),
            hash_seed: std::array::from_fn(|part| word(HASH_SEED + 4 * part)),
            has_unsigned_hash: word(FLAGS) & FLAG_UNSIGNED_HASH != 0,
            uuid: bytes[UUID..UUID + 16].try_into().expect("16 bytes"),
            label: bytes[LABEL..LABEL + 16].try_into().expect("16 bytes"),
        };
        geometry.check(word(FIRST_DATA_BLOCK), store_bytes)?;
        Ok(geometry)
    }

    fn check(&self, first_data_block: u32, store_bytes: u64) -> Result<(), String> {
        let damaged = |what: &str| Err(format!("its superblock is damaged ({what}); run e2fsck -f"));
        let inodes_per_block = (BLOCK / INODE_BYTES) as u32;
        if first_data_block != 0 {
            return damaged("first block");
        }
        if !(64..=BITS).contains(&self.blocks_per_group) || !self.blocks_per_group.is_multiple_of(8) {
            return damaged("blocks of a group");
        }
        if !(inodes_per_block..=BITS).contains(&self.inodes_per_group)
            || !self.inodes_per_group.is_multiple_of(inodes_per_block)
        {
            return damaged("inodes of a group");
        }
        if self.blocks < 64 {
            return damaged("blocks");
        }
        if u64::from(self.blocks) * BLOCK_BYTES > store_bytes {
            return Err(format!(
                "it has {} blocks of 4096 bytes, and the volume {store_bytes} bytes; grow the volume",
                self.blocks
            ));
        }
        if self.groups().checked_mul(self.inodes_per_group) != Some(self.inodes) {
            return damaged("inodes");
        }
        if !(FIRST_INODE..self.inodes_per_group).contains(&self.first_inode) {
            return damaged("first inode");
        }
        if self.reserved_blocks > self.blocks || self.reserved_descriptor_blocks > 1024 {
            return damaged("reserved blocks");
        }
        let fixed = |group| self.group_head_blocks(group) + 2 + self.inode_table_blocks();
        let last = self.groups() - 1;
        if fixed(0) >= self.group_blocks(0) || fixed(last) > self.group_blocks(last) {
            return damaged("blocks and inodes do not fit their groups");
        }
        Ok(())
    }
}

/// What a new superblock says besides its geometry.
#[derive(Debug, Clone, Copy)]
pub struct Begin {
    /// Free blocks.
    pub free_blocks: u32,
    /// Free inodes.
    pub free_inodes: u32,
    /// When it is made.
    pub now_s: u32,
}

/// A superblock, or the copy that `group` holds.
pub fn encode(geometry: &Geometry, begin: &Begin, group: u32, bytes: &mut [u8; BYTES]) {
    bytes.fill(0);
    put_u32(bytes, INODES, geometry.inodes);
    put_u32(bytes, BLOCKS, geometry.blocks);
    put_u32(bytes, RESERVED_BLOCKS, geometry.reserved_blocks);
    put_u32(bytes, FREE_BLOCKS, begin.free_blocks);
    put_u32(bytes, FREE_INODES, begin.free_inodes);
    put_u32(bytes, LOG_BLOCK_SIZE, 2);
    put_u32(bytes, LOG_FRAGMENT_SIZE, 2);
    put_u32(bytes, BLOCKS_PER_GROUP, geometry.blocks_per_group);
    put_u32(bytes, FRAGMENTS_PER_GROUP, geometry.blocks_per_group);
    put_u32(bytes, INODES_PER_GROUP, geometry.inodes_per_group);
    put_u32(bytes, WRITTEN_S, begin.now_s);
    put_u16(bytes, MOUNTS_MAX, u16::MAX);
    put_u16(bytes, MAGIC_AT, MAGIC);
    put_u16(bytes, STATE, STATE_CLEAN);
    put_u16(bytes, ON_ERROR, 1);
    put_u32(bytes, CHECKED_S, begin.now_s);
    put_u32(bytes, REVISION, 1);
    put_u32(bytes, FIRST_INODE_AT, geometry.first_inode);
    put_u16(bytes, INODE_SIZE, INODE_BYTES as u16);
    put_u16(bytes, GROUP_NUMBER, group as u16);
    put_u32(bytes, COMPATIBLE, COMPATIBLE_XATTR | COMPATIBLE_FOLDER_INDEX);
    put_u32(bytes, INCOMPATIBLE, INCOMPATIBLE_FILE_TYPE);
    put_u32(bytes, READ_ONLY_COMPATIBLE, READ_ONLY_SPARSE | READ_ONLY_LARGE_FILE);
    bytes[UUID..UUID + 16].copy_from_slice(&geometry.uuid);
    bytes[LABEL..LABEL + 16].copy_from_slice(&geometry.label);
    for (part, &word) in geometry.hash_seed.iter().enumerate() {
        put_u32(bytes, HASH_SEED + 4 * part, word);
    }
    bytes[HASH_VERSION] = HALF_MD4;
    put_u32(bytes, MOUNT_OPTIONS, OPTION_USER_XATTR);
    put_u32(bytes, MADE_S, begin.now_s);
    put_u16(bytes, EXTRA_BYTES_MIN, 32);
    put_u16(bytes, EXTRA_BYTES_WANTED, 32);
    put_u32(bytes, FLAGS, FLAG_UNSIGNED_HASH);
}

/// What of a superblock changes, in block 0.
#[derive(Debug)]
pub struct Counts;

impl Counts {
    /// Free blocks.
    pub fn free_blocks(block: &[u8]) -> u32 {
        get_u32(block, AT + FREE_BLOCKS)
    }

    /// Free inodes.
    pub fn free_inodes(block: &[u8]) -> u32 {
        get_u32(block, AT + FREE_INODES)
    }

    /// The first inode of the list of those without a name; 0 where there is none.
    pub fn last_orphan(block: &[u8]) -> u32 {
        get_u32(block, AT + LAST_ORPHAN)
    }

    /// There are so many free blocks.
    pub fn set_free_blocks(block: &mut [u8], count: u32) {
        put_u32(block, AT + FREE_BLOCKS, count);
    }

    /// There are so many free inodes.
    pub fn set_free_inodes(block: &mut [u8], count: u32) {
        put_u32(block, AT + FREE_INODES, count);
    }

    /// The list of inodes without a name begins with this one.
    pub fn set_last_orphan(block: &mut [u8], inode: u32) {
        put_u32(block, AT + LAST_ORPHAN, inode);
    }

    /// It is mounted once more.
    pub fn note_mount(block: &mut [u8], now_s: u32) {
        let mounts = get_u16(block, AT + MOUNTS).saturating_add(1);
        put_u16(block, AT + MOUNTS, mounts);
        put_u32(block, AT + MOUNTED_S, now_s);
        put_u32(block, AT + WRITTEN_S, now_s);
    }
}
