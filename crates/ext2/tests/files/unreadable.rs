//! Blocks that cannot be read cost the file that needs them, and nobody else.

use crate::common::{clock, e2fsck, formatted, mounted, run};
use evenkeel_ext2::{Caller, Errno, FileSystem, MemoryStore, MountOptions, ROOT_INODE, XattrMode};

const ROOT: Caller = Caller::ROOT;

const PAGE: usize = 4096;

/// What fills the pages of the file that will be in want of its map.
const FILL: u8 = 0xee;

type Files = FileSystem<MemoryStore>;

async fn create(files: &Files, name: &str) -> u32 {
    files.create(ROOT_INODE, name.as_bytes(), 0o644, &ROOT).await.unwrap().inode
}

async fn contents(files: &Files, name: &str) -> Vec<u8> {
    let file = files.lookup(ROOT_INODE, name.as_bytes()).await.unwrap();
    let mut bytes = vec![0xaa; file.size as usize];
    assert_eq!(files.read(file.inode, 0, &mut bytes).await, Ok(bytes.len()));
    bytes
}

/// Blocks that map pages of [`FILL`], in the order in which they lie on the store.
fn mapping_blocks(store: &MemoryStore) -> Vec<u64> {
    let image = store.image();
    let blocks: Vec<&[u8]> = image.chunks_exact(PAGE).collect();
    let maps = |block: &&[u8]| {
        let pointers = block.chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
        let mut pointers = pointers.filter(|&pointer| pointer != 0).peekable();
        let is_filled = |pointer: u32| {
            blocks.get(pointer as usize).is_some_and(|page| page.iter().all(|&byte| byte == FILL))
        };
        pointers.peek().is_some() && pointers.all(is_filled)
    };
    (0..).zip(&blocks).filter(|(_, block)| maps(block)).map(|(number, _)| number).collect()
}

/// A file with so many pages in a row, made durable.
async fn fill(files: &Files, name: &str, pages: usize) -> u32 {
    let file = create(files, name).await;
    files.write(file, 0, &vec![FILL; pages * PAGE], &ROOT).await.unwrap();
    files.fsync(file).await.unwrap();
    file
}

#[test]
fn a_removed_file_whose_map_cannot_be_read_stays_an_orphan_and_the_others_are_durable() {
    let store = formatted(16 << 20);
    let files = mounted(store.clone());
    run(async {
        fill(&files, "bad", 40).await;
        files.unmount().await.unwrap();
    });
    let [mapping] = mapping_blocks(&store)[..] else { panic!("one block maps it") };
    store.make_unreadable(mapping);

    let files = mounted(store.clone());
    run(async {
        let bad = files.lookup(ROOT_INODE, b"bad").await.unwrap().inode;
        files.unlink(ROOT_INODE, b"bad").await.unwrap();
        assert_eq!(files.forget(bad, 1).await, Err(Errno::Io));
        assert_eq!(files.failure().await, None);
        let good = create(&files, "good").await;
        files.write(good, 0, b"good", &ROOT).await.unwrap();
        files.unmount().await.unwrap();
    });
    // It can be mounted, read-write, and unmounted again.
    let files = mounted(store.clone());
    run(async {
        assert_eq!(contents(&files, "good").await, b"good");
        let better = create(&files, "better").await;
        files.write(better, 0, b"better", &ROOT).await.unwrap();
        files.unmount().await.unwrap();
    });
    store.make_readable();
    let files = mounted(store.clone());
    run(async {
        assert_eq!(contents(&files, "better").await, b"better");
        assert_eq!(files.lookup(ROOT_INODE, b"bad").await, Err(Errno::NotFound));
        files.unmount().await.unwrap();
    });
    e2fsck(&store).unwrap();
}

#[test]
fn a_file_that_cannot_be_synced_keeps_no_other_from_it() {
    // Much that is dirty goes past commits, little goes with them.
    for pages in [2, 10, 20] {
        one_that_cannot_be_synced(pages);
    }
}

fn one_that_cannot_be_synced(pages: usize) {
    let store = formatted(256 << 20);
    let options = MountOptions { cache_bytes: 0, dirty_bytes_max: 1 << 20, ..MountOptions::default() };
    let mount = || run(FileSystem::mount(store.clone(), options, clock())).unwrap();
    let files = mount();
    run(async {
        fill(&files, "bad", 40).await;
        files.unmount().await.unwrap();
    });
    let mapping = mapping_blocks(&store);
    let files = mount();
    run(async {
        let bad = files.lookup(ROOT_INODE, b"bad").await.unwrap().inode;
        let written = vec![FILL + 1; pages * PAGE];
        files.write(bad, 20 * PAGE as u64, &written, &ROOT).await.unwrap();
        // Inodes all over the store take the place of the map in the cache.
        for _ in 0..3 {
            for number in (16..10_000).step_by(16) {
                let _there_is_none = files.getattr(number).await;
            }
        }
        mapping.iter().for_each(|&block| store.make_unreadable(block));
        // Others write much more than may be dirty, and go on.
        let good = create(&files, "good").await;
        for at in 0..64 {
            let bytes = [at as u8; 64 << 10];
            assert_eq!(files.write(good, at * bytes.len() as u64, &bytes, &ROOT).await, Ok(bytes.len()));
        }
        let small = create(&files, "small").await;
        files.write(small, 0, b"small", &ROOT).await.unwrap();
        assert_eq!(files.sync_all().await, Err(Errno::Io));
        assert_eq!(files.fsync(bad).await, Err(Errno::Io));
        assert_eq!(files.failure().await, None);
    });
    // What was synced is there after a cut, though the one before it could not be.
    let cut = store.after_power_cut(|| false);
    let after = mounted(cut.clone());
    run(async {
        assert_eq!(contents(&after, "small").await, b"small");
        let good = contents(&after, "good").await;
        assert!(
            good.chunks(64 << 10).enumerate().all(|(at, part)| part.iter().all(|&byte| byte == at as u8))
        );
    });
    run(async {
        store.make_readable();
        files.sync_all().await.unwrap();
        let bad = contents(&files, "bad").await;
        assert!(bad[20 * PAGE..][..pages * PAGE].iter().all(|&byte| byte == FILL + 1));
        files.unmount().await.unwrap();
    });
    e2fsck(&store).unwrap();
}

#[test]
fn what_could_not_be_cut_off_never_comes_back() {
    let store = formatted(64 << 20);
    let files = mounted(store.clone());
    // One page for each mapping block: more looks than one operation has.
    let places: Vec<u64> = (0..9).map(|block| (12 + 1024 * block) * PAGE as u64).collect();
    run(async {
        let file = create(&files, "bad").await;
        for &at in &places {
            files.write(file, at, &[FILL; PAGE], &ROOT).await.unwrap();
        }
        files.unmount().await.unwrap();
    });
    let mapping = mapping_blocks(&store);
    assert_eq!(mapping.len(), places.len());
    for bad in [mapping[7], mapping[8]] {
        let store = MemoryStore::of_image(&store.image());
        store.make_unreadable(bad);
        let files = mounted(store.clone());
        let size = |size| evenkeel_ext2::SetAttributes { size: Some(size), ..Default::default() };
        run(async {
            let file = files.lookup(ROOT_INODE, b"bad").await.unwrap().inode;
            assert_eq!(files.setattr(file, &size(0)).await.unwrap_err(), Errno::Io);
            // Behind what is left of it nothing can be written.
            let end = 20_000 * PAGE as u64;
            assert_eq!(files.write(file, end, b"new", &ROOT).await, Err(Errno::Io));
            assert_eq!(files.setattr(file, &size(end)).await.unwrap_err(), Errno::Io);
            assert_eq!(files.fallocate(file, 0, end, true, &ROOT).await, Err(Errno::Io));
            assert_eq!(files.failure().await, None);
            let other = create(&files, "other").await;
            files.write(other, 0, b"other", &ROOT).await.unwrap();
            files.unmount().await.unwrap();
        });
        // A mount goes on where it can.
        let files = mounted(store.clone());
        run(async {
            assert_eq!(contents(&files, "other").await, b"other");
            let file = files.lookup(ROOT_INODE, b"bad").await.unwrap().inode;
            let end = places[8] + PAGE as u64;
            assert_eq!(files.write(file, end, b"new", &ROOT).await, Err(Errno::Io));
            assert_eq!(files.setattr(file, &size(end)).await.unwrap_err(), Errno::Io);
            store.make_readable();
            files.setattr(file, &size(0)).await.unwrap();
            let end = places[8] + PAGE as u64;
            files.write(file, end, b"new", &ROOT).await.unwrap();
            let found = contents(&files, "bad").await;
            assert!(found[..end as usize].iter().all(|&byte| byte == 0) && found.ends_with(b"new"));
            files.unmount().await.unwrap();
        });
        e2fsck(&store).unwrap();
    }
}

#[test]
fn a_removed_file_whose_attributes_cannot_be_read_keeps_no_volume_from_being_mounted() {
    let store = formatted(16 << 20);
    let files = mounted(store.clone());
    run(async {
        let file = fill(&files, "bad", 3).await;
        files.setxattr(file, b"user.large", &[FILL + 1; 1000], XattrMode::Set).await.unwrap();
        files.unmount().await.unwrap();
    });
    let image = store.image();
    let holds = |block: &[u8]| block.windows(1000).any(|bytes| bytes.iter().all(|&byte| byte == FILL + 1));
    let attributes = image.chunks_exact(PAGE).position(holds).unwrap();
    store.make_unreadable(attributes as u64);
    for _ in 0..2 {
        let files = mounted(store.clone());
        run(async {
            if let Ok(bad) = files.lookup(ROOT_INODE, b"bad").await {
                files.unlink(ROOT_INODE, b"bad").await.unwrap();
                assert_eq!(files.forget(bad.inode, 1).await, Err(Errno::Io));
            }
            let good = files.create(ROOT_INODE, b"good", 0o644, &ROOT).await;
            if let Ok(good) = good {
                files.write(good.inode, 0, b"good", &ROOT).await.unwrap();
            }
            assert_eq!(files.failure().await, None);
            files.unmount().await.unwrap();
        });
    }
    store.make_readable();
    let files = mounted(store.clone());
    run(async {
        assert_eq!(contents(&files, "good").await, b"good");
        files.unmount().await.unwrap();
    });
    e2fsck(&store).unwrap();
}

#[test]
fn blocks_that_were_found_for_a_file_that_then_fails_are_free_again() {
    let store = formatted(256 << 20);
    let files = mounted(store.clone());
    run(async {
        // Mapped by three blocks; what is between them has none.
        let file = create(&files, "bad").await;
        for at in [12, 12 + 1024, 12 + 2048] {
            files.write(file, at * PAGE as u64, &[FILL; PAGE], &ROOT).await.unwrap();
        }
        files.unmount().await.unwrap();
    });
    let mapping = mapping_blocks(&store);
    let options = MountOptions { cache_bytes: 0, ..MountOptions::default() };
    let files = run(FileSystem::mount(store.clone(), options, clock())).unwrap();
    run(async {
        let file = files.lookup(ROOT_INODE, b"bad").await.unwrap().inode;
        for at in [20, 2048 + 20] {
            files.write(file, at * PAGE as u64, &[7; 40 * PAGE], &ROOT).await.unwrap();
        }
        for _ in 0..3 {
            for number in (16..10_000).step_by(16) {
                let _there_is_none = files.getattr(number).await;
            }
        }
        store.make_unreadable(mapping[2]);
        let before = files.statistics().await;
        for _ in 0..30 {
            assert_eq!(files.fsync(file).await, Err(Errno::Io));
        }
        assert_eq!(files.statistics().await, before);
        store.make_readable();
        files.unmount().await.unwrap();
    });
    e2fsck(&store).unwrap();
}
