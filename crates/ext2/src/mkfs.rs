//! Makes a file system.

use crate::error::{MountError, StoreError};
use crate::format::folder;
use crate::format::group::{self, Group};
use crate::format::inode::{EXTRA_BYTES, Inode, Kind, Timestamp};
use crate::format::superblock::{self, Begin, FIRST_INODE, Geometry, INODE_BYTES};
use crate::format::{BITS, BLOCK, BLOCK_BYTES, BlockBytes, ROOT_INODE};
use crate::store::{Change, Extent, Store};

/// What a new file system is like.
#[derive(Debug, Clone)]
pub struct FormatOptions {
    /// A number that no other file system has.
    pub uuid: [u8; 16],
    /// Seeds the hashes of names: a random number that nobody else knows.
    pub hash_seed: [u8; 16],
    /// Its name: of a longer one, the first 16 bytes.
    pub label: String,
    /// When it is made.
    pub now: Timestamp,
    /// Bytes for each inode.
    pub bytes_per_inode: u64,
    /// Percent of the blocks that only privileged callers may take.
    pub reserved_percent: u32,
    /// Who owns the root folder: user and group.
    pub owner: (u32, u32),
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self {
            uuid: [0; 16],
            hash_seed: [0; 16],
            label: String::new(),
            now: Timestamp::default(),
            bytes_per_inode: 16 << 10,
            reserved_percent: 5,
            owner: (0, 0),
        }
    }
}

/// Smallest store that a file system is made on.
pub const FORMAT_BYTES_MIN: u64 = 1 << 20;

/// Inodes of the folders that a new file system has: the root, and "lost+found".
const LOST_FOUND_INODE: u32 = FIRST_INODE;

/// Blocks of "lost+found", so that e2fsck has room there.
const LOST_FOUND_BLOCKS: u32 = 4;

fn geometry_of(store_bytes: u64, options: &FormatOptions) -> Result<Geometry, MountError> {
    let too_small =
        || MountError::Unusable(format!("{store_bytes} bytes are too few; make it 1 MiB or more"));
    if store_bytes < FORMAT_BYTES_MIN {
        return Err(too_small());
    }
    let blocks = (store_bytes / BLOCK_BYTES).min(u64::from(u32::MAX)) as u32;
    let bytes_per_inode = options.bytes_per_inode.max(BLOCK_BYTES);
    let word = |bytes: &[u8; 16], part: usize| {
        u32::from_le_bytes(bytes[4 * part..4 * part + 4].try_into().expect("4 bytes"))
    };
    let mut label = [0; 16];
    let len = options.label.len().min(16);
    label[..len].copy_from_slice(&options.label.as_bytes()[..len]);
    let mut geometry = Geometry {
        blocks,
        inodes: 0,
        reserved_blocks: 0,
        blocks_per_group: BITS,
        inodes_per_group: 0,
        first_inode: FIRST_INODE,
        is_sparse: true,
        has_folder_index: true,
        reserved_descriptor_blocks: 0,
        hash_seed: std::array::from_fn(|part| word(&options.hash_seed, part)),
        has_unsigned_hash: true,
        uuid: options.uuid,
        label,
    };
    let in_block = (BLOCK / INODE_BYTES) as u64;
    let wanted = (u64::from(blocks) * BLOCK_BYTES / bytes_per_inode).max(in_block);
    let inodes_per_group = wanted.div_ceil(u64::from(geometry.groups())).next_multiple_of(in_block);
    geometry.inodes_per_group = inodes_per_group.clamp(in_block * 2, u64::from(BITS)) as u32;
    // A last group that holds little more than its own tables is left out.
    loop {
        let last = geometry.groups() - 1;
        let fixed = geometry.group_head_blocks(last) + 2 + geometry.inode_table_blocks();
        if geometry.group_blocks(last) >= fixed + 16 {
            break;
        }
        if last == 0 {
            return Err(too_small());
        }
        geometry.blocks = geometry.group_start(last);
    }
    geometry.inodes = geometry
        .groups()
        .checked_mul(geometry.inodes_per_group)
        .ok_or_else(|| MountError::Unusable("too many inodes; take more bytes for each".to_owned()))?;
    let percent = u64::from(options.reserved_percent.min(50));
    geometry.reserved_blocks = (u64::from(geometry.blocks) * percent / 100) as u32;
    Ok(geometry)
}

/// Where the tables of a group begin: behind superblock and descriptors, if it has them.
fn group_of(geometry: &Geometry, number: u32) -> Group {
    let block_bitmap = geometry.group_start(number) + geometry.group_head_blocks(number);
    let inode_table = block_bitmap + 2;
    let fixed = geometry.group_head_blocks(number) + 2 + geometry.inode_table_blocks();
    Group {
        block_bitmap,
        inode_bitmap: block_bitmap + 1,
        inode_table,
        free_blocks: (geometry.group_blocks(number) - fixed) as u16,
        free_inodes: geometry.inodes_per_group as u16,
        folders: 0,
    }
}

fn set_bits(bitmap: &mut BlockBytes, bits: std::ops::Range<u32>) {
    for bit in bits {
        bitmap[bit as usize / 8] |= 1 << (bit % 8);
    }
}

/// Makes a file system that takes the whole of a store; what was there is gone. It is there, whole, once the last write is
/// durable: the superblock.
///
/// # Errors
///
/// Where the store fails, or is too small.
pub async fn format<S: Store>(store: &S, options: &FormatOptions) -> Result<(), MountError> {
    let geometry = geometry_of(store.size_bytes(), options)?;
    let mut groups: Vec<Group> = (0..geometry.groups()).map(|number| group_of(&geometry, number)).collect();
    // No superblock of before shall be found beside what comes now.
    store.zero(Extent::new(0, BLOCK_BYTES)).await?;
    store.flush(&[Extent::new(0, BLOCK_BYTES)]).await?;
    let first = groups[0].inode_table + geometry.inode_table_blocks();
    let folder_blocks = 1 + LOST_FOUND_BLOCKS;
    groups[0].free_blocks -= folder_blocks as u16;
    groups[0].free_inodes -= FIRST_INODE as u16;
    groups[0].folders = 2;
    let mut flushed = Vec::new();
    for (number, group) in (0..).zip(&groups) {
        let in_use = if number == 0 { FIRST_INODE } else { 0 };
        let used_blocks = geometry.group_blocks(number) - u32::from(group.free_blocks);
        let mut bitmap = [0; BLOCK];
        set_bits(&mut bitmap, 0..used_blocks);
        set_bits(&mut bitmap, geometry.group_blocks(number)..BITS);
        let at = |block: u32| u64::from(block) * BLOCK_BYTES;
        store.write(at(group.block_bitmap), &bitmap).await?;
        bitmap.fill(0);
        set_bits(&mut bitmap, 0..in_use);
        set_bits(&mut bitmap, geometry.inodes_per_group..BITS);
        store.write(at(group.inode_bitmap), &bitmap).await?;
        let table = Extent::new(at(group.inode_table), at(geometry.inode_table_blocks()));
        store.zero(table).await?;
        let tables = 2 * BLOCK_BYTES + table.len;
        flushed.push(Extent::new(at(group.block_bitmap), tables));
    }
    write_folders(store, &geometry, groups[0], first, options).await?;
    flushed.push(Extent::new(u64::from(first) * BLOCK_BYTES, u64::from(folder_blocks) * BLOCK_BYTES));
    let sum = |of: fn(&Group) -> u16| groups.iter().map(|group| u32::from(of(group))).sum();
    let begin = Begin {
        free_blocks: sum(|group| group.free_blocks),
        free_inodes: sum(|group| group.free_inodes),
        now_s: options.now.secs.clamp(0, i64::from(u32::MAX)) as u32,
    };
    let mut descriptors = vec![0; geometry.descriptor_blocks() as usize * BLOCK];
    for (bytes, group) in descriptors.chunks_exact_mut(group::BYTES).zip(&groups) {
        group.encode(bytes);
    }
    for number in (0..geometry.groups()).filter(|&number| superblock::has_copy(number)) {
        let start = u64::from(geometry.group_start(number)) * BLOCK_BYTES;
        store.write(start + BLOCK_BYTES, &descriptors).await?;
        if number > 0 {
            let mut bytes = [0; superblock::BYTES];
            superblock::encode(&geometry, &begin, number, &mut bytes);
            store.write(start, &bytes).await?;
        }
        flushed.push(Extent::new(start, BLOCK_BYTES + descriptors.len() as u64));
    }
    store.flush(&flushed).await?;
    let mut bytes = [0; superblock::BYTES];
    superblock::encode(&geometry, &begin, 0, &mut bytes);
    store.commit(&[Change::Write { offset: superblock::AT as u64, bytes: &bytes }]).await?;
    Ok(())
}

/// The root and "lost+found" in it.
async fn write_folders<S: Store>(
    store: &S,
    geometry: &Geometry,
    group: Group,
    first: u32,
    options: &FormatOptions,
) -> Result<(), StoreError> {
    let at = |block: u32| u64::from(block) * BLOCK_BYTES;
    let mut block = [0; BLOCK];
    folder::new_folder(&mut block, ROOT_INODE, ROOT_INODE);
    let folder_type = Kind::Folder.entry_type();
    folder::insert(&mut block, (12, 12), LOST_FOUND_INODE, folder_type, b"lost+found");
    store.write(at(first), &block).await?;
    folder::new_folder(&mut block, LOST_FOUND_INODE, ROOT_INODE);
    for number in 0..LOST_FOUND_BLOCKS {
        store.write(at(first + 1 + number), &block).await?;
        folder::empty(&mut block);
    }
    let new = |blocks: u32, mode: u16, owner: (u32, u32)| Inode {
        mode: Kind::Folder.mode_bits() | mode,
        uid: owner.0,
        gid: owner.1,
        size: at(blocks),
        atime: options.now,
        ctime: options.now,
        mtime: options.now,
        crtime: options.now,
        links: 2,
        sectors: blocks * 8,
        extra_bytes: EXTRA_BYTES,
        ..Inode::default()
    };
    let mut root = new(1, 0o755, options.owner);
    root.links = 3;
    root.map[0] = first;
    let mut lost_found = new(LOST_FOUND_BLOCKS, 0o700, (0, 0));
    for number in 0..LOST_FOUND_BLOCKS {
        lost_found.map[number as usize] = first + 1 + number;
    }
    debug_assert!(geometry.inodes_per_group > LOST_FOUND_INODE);
    for (number, inode) in [(ROOT_INODE, root), (LOST_FOUND_INODE, lost_found)] {
        let mut bytes = [0; INODE_BYTES];
        inode.encode(&mut bytes);
        store
            .write(at(group.inode_table) + (number as usize - 1) as u64 * INODE_BYTES as u64, &bytes)
            .await?;
    }
    Ok(())
}
