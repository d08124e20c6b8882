//! Folders and files as large as they get.

use crate::common::{debugfs, e2fsck, formatted, mounted, run};
use evenkeel_ext2::{Caller, Kind, ROOT_INODE, SetAttributes};

const ROOT: Caller = Caller::ROOT;

/// A folder with so many entries: all are found, listed once, and half of them removed.
fn folder_of(count: u32, store_bytes: u64) {
    let store = formatted(store_bytes);
    let files = mounted(store.clone());
    let name = |number: u32| format!("entry {number}").into_bytes();
    run(async {
        let folder = files.mkdir(ROOT_INODE, b"folder", 0o755, &ROOT).await.unwrap().inode;
        let file = files.create(folder, &name(0), 0o644, &ROOT).await.unwrap().inode;
        // A file has no more than 32,000 names.
        let mut target = file;
        for number in 1..count {
            if number.is_multiple_of(30_000) {
                target = files.create(folder, &name(number), 0o644, &ROOT).await.unwrap().inode;
            } else {
                files.link(target, folder, &name(number), &ROOT).await.unwrap();
            }
        }
        let (mut cookie, mut listed) = (0, 0);
        loop {
            let part = files.readdir(folder, cookie, 1000).await.unwrap();
            let Some(last) = part.last() else { break };
            cookie = last.cookie;
            listed += part.len() as u32;
        }
        assert_eq!(listed, count + 2);
        for number in (0..count).step_by(97) {
            let found = files.lookup(folder, &name(number)).await.unwrap();
            files.forget(found.inode, 1).await.unwrap();
        }
        files.sync_all().await.unwrap();
        e2fsck(&store).unwrap();
        for number in (1..count).step_by(2).filter(|number| !number.is_multiple_of(30_000)) {
            files.unlink(folder, &name(number)).await.unwrap();
        }
        files.unmount().await.unwrap();
    });
    e2fsck(&store).unwrap();
    if let Some(told) = debugfs(&store, "htree_dump /folder") {
        assert!(told.contains("Indirect levels: 1"), "{}", told.chars().take(300).collect::<String>());
    }
}

#[test]
fn a_folder_of_100_000_entries_has_an_index_of_two_levels() {
    folder_of(100_000, 64 << 20);
}

#[test]
#[ignore = "takes a minute"]
fn a_folder_of_1_000_000_entries_works() {
    folder_of(1_000_000, 256 << 20);
}

#[test]
fn a_folder_of_folders_counts_its_links() {
    let store = formatted(64 << 20);
    let files = mounted(store.clone());
    run(async {
        let mut parent = ROOT_INODE;
        for depth in 0..200u32 {
            parent = files.mkdir(parent, format!("{depth}").as_bytes(), 0o755, &ROOT).await.unwrap().inode;
        }
        for number in 0..1000u32 {
            files.mkdir(parent, format!("{number}").as_bytes(), 0o755, &ROOT).await.unwrap();
        }
        assert_eq!(files.getattr(parent).await.unwrap().links, 1002);
        files.sync_all().await.unwrap();
    });
    e2fsck(&store).unwrap();
}

#[test]
fn a_file_of_one_tebibyte_has_bytes_at_all_levels_of_its_map() {
    let store = formatted(256 << 20);
    let files = mounted(store.clone());
    let places = [0, 40_000, 48 << 10, 4 << 20, (4 << 30) + (5 << 20), 1 << 38, (1 << 40) - 8];
    run(async {
        let file = files.create(ROOT_INODE, b"file", 0o644, &ROOT).await.unwrap().inode;
        for (number, place) in places.into_iter().enumerate() {
            files.write(file, place, &[number as u8 + 1; 8], &ROOT).await.unwrap();
        }
        files.fsync(file).await.unwrap();
        let attributes = files.getattr(file).await.unwrap();
        assert_eq!((attributes.size, attributes.kind), (1 << 40, Kind::File));
        e2fsck(&store).unwrap();
        for (number, place) in places.into_iter().enumerate() {
            let mut bytes = [0; 8];
            files.read(file, place, &mut bytes).await.unwrap();
            assert_eq!(bytes, [number as u8 + 1; 8], "at {place}");
        }
        let size = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
        for kept in (0..places.len()).rev() {
            files.setattr(file, &size(places[kept])).await.unwrap();
            files.sync_all().await.unwrap();
            e2fsck(&store).unwrap();
        }
        assert_eq!(files.getattr(file).await.unwrap().sectors, 0);
    });
}

#[test]
fn a_file_that_takes_more_commits_than_one_is_truncated_whole_after_a_cut() {
    use evenkeel_ext2::store::CommitLimits;
    use evenkeel_ext2::{FileSystem, MemoryStore, MountOptions, format};
    let limits = CommitLimits { bytes: 560_000, pages: 300 };
    let store = MemoryStore::with_limits(64 << 20, limits);
    run(format(&store, &crate::common::format_options())).unwrap();
    let files = mounted(store.clone());
    let file = run(async {
        let file = files.create(ROOT_INODE, b"file", 0o644, &ROOT).await.unwrap().inode;
        // A mapping block each, so that there is much to unmap.
        for part in 0..400u64 {
            files.write(file, part << 22, &[1; 100], &ROOT).await.unwrap();
        }
        files.fsync(file).await.unwrap();
        file
    });
    let before = store.after_power_cut(|| false);
    let truncated = |size: u64| SetAttributes { size: Some(size), ..SetAttributes::default() };
    let asked = store.asked().commits;
    run(async {
        files.setattr(file, &truncated(10)).await.unwrap();
        files.fsync(file).await.unwrap();
    });
    let commits = store.asked().commits - asked;
    for cut in 0..commits + 2 {
        let store = before.after_power_cut(|| false);
        let files = mounted(store.clone());
        store.lose_power_after(cut);
        run(async {
            let file = files.lookup(ROOT_INODE, b"file").await.unwrap().inode;
            let _until_the_cut = files.setattr(file, &truncated(10)).await;
            let _until_the_cut = files.fsync(file).await;
        });
        let left = store.after_power_cut(|| false);
        let files =
            run(FileSystem::mount(left.clone(), MountOptions::default(), crate::common::clock())).unwrap();
        let found = run(files.lookup(ROOT_INODE, b"file")).unwrap();
        assert!([10, (399 << 22) + 100].contains(&found.size), "{} after {cut}", found.size);
        e2fsck(&left).unwrap();
    }
}
