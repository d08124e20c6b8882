//! Operations, each as a user sees it, with e2fsck as the judge of what they leave.

use std::cell::Cell;
use std::rc::Rc;

use crate::common::{clock, debugfs, e2fsck, formatted, mounted, run};
use evenkeel_ext2::format::hash::half_md4;
use evenkeel_ext2::{
    Caller, Errno, FileSystem, Kind, MemoryStore, MountOptions, ROOT_INODE, RenameMode, Seek, SetAttributes,
    Timestamp, XattrMode,
};
use evenkeel_sim::random::Random;

const ROOT: Caller = Caller::ROOT;

fn judged(store: &MemoryStore) {
    e2fsck(store).unwrap();
}

async fn contents<S: evenkeel_ext2::Store>(files: &FileSystem<S>, number: u32) -> Vec<u8> {
    let mut bytes = vec![0xaa; files.getattr(number).await.unwrap().size as usize + 10];
    let len = files.read(number, 0, &mut bytes).await.unwrap();
    bytes.truncate(len);
    bytes
}

#[test]
fn e2fsck_finds_nothing_in_new_file_systems_of_many_sizes() {
    for size in [1 << 20, 5 << 20, 127 << 20, 128 << 20, (128 << 20) + 4096, 129 << 20, 1 << 30, 9 << 30] {
        let store = formatted(size);
        judged(&store);
        let files = mounted(store.clone());
        run(files.unmount()).unwrap();
        judged(&store);
    }
}

#[test]
fn names_are_hashed_as_debugfs_hashes_them() {
    let seed = std::array::from_fn(|part| {
        u32::from_le_bytes(b"a seed of hashes"[4 * part..4 * part + 4].try_into().unwrap())
    });
    let store = formatted(1 << 20);
    for name in ["a", "lost+found", "a name of more than thirty-two bytes, for a second round", "äöü"] {
        let request = format!("dx_hash -h half_md4 -s 61207365-6564-206f-6620-686173686573 {name:?}");
        let Some(answer) = debugfs(&store, &request) else { return };
        let hash = half_md4(name.as_bytes(), &seed, !answer.contains("signed") || name.is_ascii());
        let expected = format!("0x{:08x} (minor 0x{:08x})", hash.major, hash.minor);
        assert!(!name.is_ascii() || answer.contains(&expected), "{answer} for {expected}");
    }
}

#[test]
fn what_is_written_is_read_before_and_after_it_is_committed_and_mounted_again() {
    let store = formatted(64 << 20);
    let files = mounted(store.clone());
    let large: Vec<u8> = (0..9_000_000u32).map(|byte| (byte % 251) as u8).collect();
    run(async {
        let small = files.create(ROOT_INODE, b"small", 0o600, &ROOT).await.unwrap().inode;
        let big = files.create(ROOT_INODE, b"big", 0o644, &ROOT).await.unwrap().inode;
        files.write(small, 3, b"bytes", &ROOT).await.unwrap();
        files.write(big, 0, &large, &ROOT).await.unwrap();
        assert_eq!(contents(&files, small).await, b"\0\0\0bytes");
        assert_eq!(contents(&files, big).await, large);
        files.fsync(big).await.unwrap();
        files.fsync(small).await.unwrap();
        assert_eq!(contents(&files, small).await, b"\0\0\0bytes");
        assert_eq!(contents(&files, big).await, large);
        files.write(big, 1_000_000, b"anew", &ROOT).await.unwrap();
        files.unmount().await.unwrap();
    });
    judged(&store);
    let files = mounted(store.clone());
    run(async {
        let small = files.lookup(ROOT_INODE, b"small").await.unwrap();
        assert_eq!((small.size, small.permissions), (8, 0o600));
        assert_eq!(contents(&files, small.inode).await, b"\0\0\0bytes");
        let big = files.lookup(ROOT_INODE, b"big").await.unwrap();
        let mut expected = large.clone();
        expected[1_000_000..1_000_004].copy_from_slice(b"anew");
        assert_eq!(contents(&files, big.inode).await, expected);
    });
}

#[test]
fn an_append_of_100_bytes_commits_little_more_than_them() {
    let store = formatted(64 << 20);
    let files = mounted(store.clone());
    run(async {
        let log = files.create(ROOT_INODE, b"log", 0o644, &ROOT).await.unwrap().inode;
        files.write(log, 0, &[1; 100], &ROOT).await.unwrap();
        files.fsync(log).await.unwrap();
        let before = store.asked();
        for append in 1..=20 {
            files.write(log, append * 100, &[2; 100], &ROOT).await.unwrap();
            files.fsync(log).await.unwrap();
        }
        let after = store.asked();
        let bytes = (after.commit_bytes - before.commit_bytes) / 20;
        let changes = (after.commit_changes - before.commit_changes) / 20;
        assert_eq!(after.commits - before.commits, 20);
        assert_eq!(after.written_bytes, before.written_bytes);
        assert!((100..180).contains(&bytes), "{bytes} bytes");
        assert!(changes <= 4, "{changes} changes");
    });
}

#[test]
fn an_fsync_carries_nothing_of_another_files_data() {
    let store = formatted(256 << 20);
    let files = mounted(store.clone());
    run(async {
        let other = files.create(ROOT_INODE, b"other", 0o644, &ROOT).await.unwrap().inode;
        let own = files.create(ROOT_INODE, b"own", 0o644, &ROOT).await.unwrap().inode;
        files.write(other, 0, &vec![7; 32 << 20], &ROOT).await.unwrap();
        files.write(own, 0, &[8; 1000], &ROOT).await.unwrap();
        let before = store.asked();
        files.fsync(own).await.unwrap();
        let after = store.asked();
        assert_eq!(after.written_bytes, before.written_bytes);
        assert!(after.commit_bytes - before.commit_bytes < 4000, "{after:?}");
        let left = store.after_power_cut(|| false);
        let files = mounted(left.clone());
        let other = files.lookup(ROOT_INODE, b"other").await.unwrap();
        assert_eq!((other.size, other.sectors), (0, 0));
        let own = files.lookup(ROOT_INODE, b"own").await.unwrap();
        assert_eq!(contents(&files, own.inode).await, [8; 1000]);
        judged(&left);
    });
}

#[test]
fn folders_of_many_entries_are_found_listed_and_removed() {
    let store = formatted(256 << 20);
    let files = mounted(store.clone());
    let count = 12_000;
    let name = |number: u32| format!("{number}-{}", "x".repeat((number * 7 % 60) as usize)).into_bytes();
    run(async {
        let folder = files.mkdir(ROOT_INODE, b"folder", 0o755, &ROOT).await.unwrap().inode;
        let file = files.create(folder, &name(0), 0o644, &ROOT).await.unwrap().inode;
        for number in 1..count {
            let pipe = files.mknod(folder, &name(number), (Kind::Pipe, 0o644), (0, 0), &ROOT).await.unwrap();
            files.forget(pipe.inode, 1).await.unwrap();
        }
        assert_eq!(files.create(folder, &name(77), 0, &ROOT).await, Err(Errno::Exists));
        files.sync_all().await.unwrap();
        judged(&store);
        assert_eq!(files.lookup(folder, &name(0)).await.unwrap().inode, file);
        // A listing in many parts, with files that go meanwhile: each that stays comes once.
        let (mut cookie, mut seen, mut gone) = (0, std::collections::BTreeSet::new(), 0);
        loop {
            let part = files.readdir(folder, cookie, 100).await.unwrap();
            let Some(last) = part.last() else { break };
            cookie = last.cookie;
            for entry in &part {
                assert!(seen.insert(entry.name.clone()), "{:?} comes twice", entry.name);
            }
            files.unlink(folder, &name(count - 1 - gone)).await.unwrap();
            let new = files.create(folder, format!("new{gone}").as_bytes(), 0o644, &ROOT).await.unwrap();
            files.forget(new.inode, 1).await.unwrap();
            gone += 1;
        }
        assert!((0..count - gone).all(|number| seen.contains(&name(number))));
        for number in 0..count - gone {
            files.unlink(folder, &name(number)).await.unwrap();
        }
        assert_eq!(files.rmdir(ROOT_INODE, b"folder").await, Err(Errno::NotEmpty));
        for number in 0..gone {
            files.unlink(folder, format!("new{number}").as_bytes()).await.unwrap();
        }
        assert_eq!(files.readdir(folder, 0, 10).await.unwrap().len(), 2);
        files.rmdir(ROOT_INODE, b"folder").await.unwrap();
        files.forget(folder, 1).await.unwrap();
        files.forget(file, 2).await.unwrap();
        files.sync_all().await.unwrap();
    });
    judged(&store);
}

#[test]
fn a_listing_with_attributes_tells_each_file_once_and_reads_the_store_once_at_most() {
    const COUNT: usize = 1000;
    let store = formatted(64 << 20);
    let files = mounted(store.clone());
    let name = |number: usize| format!("file {number}").into_bytes();
    run(async {
        let folder = files.mkdir(ROOT_INODE, b"folder", 0o755, &ROOT).await.unwrap().inode;
        for number in 0..COUNT {
            files.create(folder, &name(number), (number % 512) as u16, &ROOT).await.unwrap();
        }
        files.sync_all().await.unwrap();
    });
    // Nothing of it is in memory.
    drop(files);
    let files = mounted(store.clone());
    run(async {
        let folder = files.lookup(ROOT_INODE, b"folder").await.unwrap().inode;
        // What a listing reads of the folder itself is in memory from here on.
        let names = files.readdir(folder, 0, 2 * COUNT).await.unwrap();
        assert_eq!(names.len(), COUNT + 2);
        let known = files.activity().await.known_files;
        let (mut cookie, mut told, mut calls_with_a_read) = (0, Vec::new(), 0);
        loop {
            let reads = store.asked().reads;
            let part = files.readdirplus(folder, cookie, 20).await.unwrap();
            let read = store.asked().reads - reads;
            assert!(read <= 1, "{read} reads in one call");
            calls_with_a_read += read;
            assert!(part.len() <= 20);
            let Some((last, _)) = part.last() else { break };
            cookie = last.cookie;
            told.extend(part);
        }
        assert!(calls_with_a_read > 10, "inodes were read: {calls_with_a_read}");
        assert!(told.iter().map(|(entry, _)| entry).eq(&names));
        assert_eq!(
            files.activity().await.known_files,
            known + COUNT as u64,
            "the folder itself was not counted"
        );
        for (entry, attributes) in told {
            let attributes = attributes.unwrap();
            assert_eq!(attributes.inode, entry.inode);
            if ![&b"."[..], b".."].contains(&&entry.name[..]) {
                assert_eq!(files.lookup(folder, &entry.name).await.unwrap(), attributes);
                files.forget(entry.inode, 2).await.unwrap();
            }
        }
        assert_eq!(files.activity().await.known_files, known);
    });
    judged(&store);
}

#[test]
fn a_file_that_is_known_and_has_nothing_dirty_takes_a_number_alone() {
    const COUNT: u32 = 400;
    let store = formatted(64 << 20);
    let files = mounted(store.clone());
    run(async {
        let mut known = Vec::new();
        for number in 0..COUNT {
            let name = format!("{number}").into_bytes();
            let file = files.create(ROOT_INODE, &name, 0o644, &ROOT).await.unwrap().inode;
            files.write(file, 0, &[1; 8192], &ROOT).await.unwrap();
            match number % 8 {
                0 => files.fsync(file).await.unwrap(),
                1 => files.fdatasync(file).await.unwrap(),
                _ => {}
            }
            known.push((file, 1));
        }
        files.sync_all().await.unwrap();
        let counts = async || {
            let activity = files.activity().await;
            (activity.known_files, activity.busy_files)
        };
        assert_eq!(counts().await, (u64::from(COUNT), 0));
        for (number, &(file, _)) in known.iter().enumerate() {
            let set = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
            match number % 5 {
                0 => drop(files.setattr(file, &set(0)).await.unwrap()),
                1 => drop(files.setattr(file, &set(20_000)).await.unwrap()),
                2 => files.punch_hole(file, 4096, 4096).await.unwrap(),
                3 => files.fallocate(file, 0, 30_000, true, &ROOT).await.unwrap(),
                _ => drop(files.lookup(ROOT_INODE, format!("{number}").as_bytes()).await.unwrap()),
            }
            assert_eq!(contents(&files, file).await.is_empty(), number % 5 == 0);
            assert_eq!(counts().await, (u64::from(COUNT), 0), "after step {number}");
        }
        // An unlinked file goes when the last of those that know of it forgets it.
        files.unlink(ROOT_INODE, b"7").await.unwrap();
        files.unlink(ROOT_INODE, b"4").await.unwrap();
        let free = files.statistics().await.free_inodes;
        files.forget_all(&known).await.unwrap();
        assert_eq!(counts().await, (u64::from(COUNT / 5), 0), "one lookup of two is taken back");
        assert_eq!(files.statistics().await.free_inodes, free + 1);
        known.reverse();
        files.forget_all(&known).await.unwrap();
        assert_eq!(counts().await, (0, 0));
        assert_eq!(files.statistics().await.free_inodes, free + 2);
        files.sync_all().await.unwrap();
    });
    judged(&store);
}

#[test]
fn an_unmount_leaves_no_file_without_a_name_whoever_still_knew_of_it() {
    let store = formatted(16 << 20);
    let files = mounted(store.clone());
    run(async {
        let free = files.statistics().await.free_inodes;
        for name in [b"open", b"told"] {
            let file = files.create(ROOT_INODE, name, 0o644, &ROOT).await.unwrap();
            files.write(file.inode, 0, &[7; 9000], &ROOT).await.unwrap();
            files.fsync(file.inode).await.unwrap();
            if name == b"open" {
                files.open(file.inode).await.unwrap();
            }
            files.unlink(ROOT_INODE, name).await.unwrap();
        }
        assert_eq!(files.statistics().await.free_inodes, free - 2);
        files.unmount().await.unwrap();
        assert_eq!(files.statistics().await.free_inodes, free);
    });
    judged(&store);
}

#[test]
fn a_number_of_a_file_leads_to_it_until_it_is_gone() {
    let store = formatted(16 << 20);
    let files = mounted(store.clone());
    run(async {
        let file = files.create(ROOT_INODE, b"file", 0o644, &ROOT).await.unwrap();
        let folder = files.mkdir(ROOT_INODE, b"folder", 0o755, &ROOT).await.unwrap();
        for found in [&file, &folder] {
            let again = files.lookup(found.inode, b".").await.unwrap();
            assert_eq!((again.inode, again.generation), (found.inode, found.generation));
        }
        assert_eq!(files.lookup(file.inode, b"..").await, Err(Errno::NotFolder));
        files.unlink(ROOT_INODE, b"file").await.unwrap();
        assert_eq!(files.lookup(file.inode, b".").await, Err(Errno::Stale));
        files.forget(file.inode, 1).await.unwrap();
        assert!(files.getattr(file.inode).await.is_ok(), "it was looked up twice");
        files.forget(file.inode, 1).await.unwrap();
        for number in [0, 1, 7, file.inode, u32::MAX] {
            assert_eq!(files.lookup(number, b".").await, Err(Errno::Stale), "{number}");
        }
        files.sync_all().await.unwrap();
    });
    judged(&store);
}

#[test]
fn renames_replace_exchange_and_refuse() {
    let store = formatted(16 << 20);
    let files = mounted(store.clone());
    run(async {
        let a = files.mkdir(ROOT_INODE, b"a", 0o755, &ROOT).await.unwrap().inode;
        let b = files.mkdir(ROOT_INODE, b"b", 0o755, &ROOT).await.unwrap().inode;
        let one = files.create(a, b"one", 0o644, &ROOT).await.unwrap().inode;
        let two = files.create(b, b"two", 0o644, &ROOT).await.unwrap().inode;
        let sub = files.mkdir(a, b"sub", 0o755, &ROOT).await.unwrap().inode;
        let no = RenameMode::NoReplace;
        assert_eq!(files.rename((a, b"one"), (b, b"two"), no).await, Err(Errno::Exists));
        assert_eq!(files.rename((a, b"sub"), (sub, b"x"), no).await, Err(Errno::Invalid));
        assert_eq!(files.rename((ROOT_INODE, b"a"), (sub, b"x"), no).await, Err(Errno::Invalid));
        files.rename((a, b"sub"), (b, b"two"), RenameMode::Exchange).await.unwrap();
        assert_eq!(files.lookup(b, b"two").await.unwrap().inode, sub);
        assert_eq!(files.lookup(sub, b"..").await.unwrap().inode, b);
        assert_eq!((files.getattr(a).await.unwrap().links, files.getattr(b).await.unwrap().links), (2, 3));
        files.rename((a, b"one"), (a, b"sub"), RenameMode::Replace).await.unwrap();
        assert_eq!(files.lookup(a, b"sub").await.unwrap().inode, one);
        assert_eq!(files.getattr(two).await.unwrap().links, 0);
        files.forget(two, 1).await.unwrap();
        assert_eq!(files.getattr(two).await, Err(Errno::Stale));
        let empty = files.mkdir(ROOT_INODE, b"empty", 0o755, &ROOT).await.unwrap().inode;
        assert_eq!(
            files.rename((b, b"two"), (ROOT_INODE, b"a"), RenameMode::Replace).await,
            Err(Errno::NotEmpty)
        );
        files.rename((b, b"two"), (ROOT_INODE, b"empty"), RenameMode::Replace).await.unwrap();
        assert_eq!(files.lookup(ROOT_INODE, b"empty").await.unwrap().inode, sub);
        files.forget(empty, 1).await.unwrap();
        files.sync_all().await.unwrap();
    });
    judged(&store);
}

#[test]
fn links_devices_and_attributes_are_kept() {
    let store = formatted(16 << 20);
    let files = mounted(store.clone());
    let caller = Caller { uid: 70_000, gid: 80_000, is_privileged: false };
    run(async {
        let file = files.create(ROOT_INODE, b"file", 0o4755, &caller).await.unwrap().inode;
        files.link(file, ROOT_INODE, b"again", &caller).await.unwrap();
        assert_eq!(files.getattr(file).await.unwrap().links, 2);
        let long = "x".repeat(4000);
        for target in ["short", &"y".repeat(59), &"z".repeat(60), &long] {
            let name = format!("link{}", target.len());
            let link = files.symlink(ROOT_INODE, name.as_bytes(), target.as_bytes(), &caller).await.unwrap();
            assert_eq!(files.readlink(link.inode).await.unwrap(), target.as_bytes());
        }
        let device =
            files.mknod(ROOT_INODE, b"null", (Kind::CharDevice, 0o666), (1, 300), &caller).await.unwrap();
        assert_eq!(device.device, (1, 300));
        let times = SetAttributes {
            atime: Some(Timestamp { secs: -5, nanos: 1 }),
            mtime: Some(Timestamp { secs: 1 << 33, nanos: 999_999_999 }),
            ..SetAttributes::default()
        };
        files.setattr(file, &times).await.unwrap();
        let owner = SetAttributes { uid: Some(1), ..SetAttributes::default() };
        assert_eq!(files.setattr(file, &owner).await.unwrap().permissions, 0o755);
        // Of everything but folders, as Linux does.
        let pipe = files.mknod(ROOT_INODE, b"pipe", (Kind::Pipe, 0o6755), (0, 0), &caller).await.unwrap();
        assert_eq!(files.setattr(pipe.inode, &owner).await.unwrap().permissions, 0o755);
        let folder = files.mkdir(ROOT_INODE, b"folder", 0o2755, &caller).await.unwrap();
        assert_eq!(files.setattr(folder.inode, &owner).await.unwrap().permissions, 0o2755);
        let unnamed = files.tmpfile(ROOT_INODE, 0o600, &caller).await.unwrap().inode;
        files.write(unnamed, 0, b"found a name", &caller).await.unwrap();
        files.link(unnamed, ROOT_INODE, b"named", &caller).await.unwrap();
        files.unmount().await.unwrap();
    });
    judged(&store);
    let files = mounted(store.clone());
    run(async {
        let file = files.lookup(ROOT_INODE, b"again").await.unwrap();
        assert_eq!((file.uid, file.gid, file.links), (1, 80_000, 2));
        assert_eq!(file.atime, Timestamp { secs: -5, nanos: 1 });
        assert_eq!(file.mtime, Timestamp { secs: 1 << 33, nanos: 999_999_999 });
        let named = files.lookup(ROOT_INODE, b"named").await.unwrap();
        assert_eq!(contents(&files, named.inode).await, b"found a name");
    });
}

#[test]
fn extended_attributes_fill_the_inode_and_then_a_block() {
    let store = formatted(16 << 20);
    let files = mounted(store.clone());
    run(async {
        let file = files.create(ROOT_INODE, b"file", 0o644, &ROOT).await.unwrap().inode;
        let names = ["user.a", "trusted.overlay.opaque", "security.selinux", "user.some.longer.name"];
        for (len, name) in [10, 0, 300, 3000].into_iter().zip(names) {
            files.setxattr(file, name.as_bytes(), &vec![len as u8; len], XattrMode::Create).await.unwrap();
        }
        files.sync_all().await.unwrap();
        judged(&store);
        let too_much = files.setxattr(file, b"user.x", &[0; 2000], XattrMode::Set).await;
        assert_eq!(too_much, Err(Errno::NoSpace));
        let exists = files.setxattr(file, b"user.a", b"", XattrMode::Create).await;
        assert_eq!(exists, Err(Errno::Exists));
        let acl = files.setxattr(file, b"system.posix_acl_access", b"", XattrMode::Set).await;
        assert_eq!(acl, Err(Errno::NotSupported));
        assert_eq!(files.getxattr(file, b"user.some.longer.name").await.unwrap(), [3000u32 as u8; 3000]);
        let mut listed = files.listxattr(file).await.unwrap();
        listed.sort();
        let mut expected = names.map(|name| name.as_bytes().to_vec());
        expected.sort();
        assert_eq!(listed, expected);
        files.removexattr(file, b"user.some.longer.name").await.unwrap();
        files.removexattr(file, b"security.selinux").await.unwrap();
        assert_eq!(files.getxattr(file, b"security.selinux").await, Err(Errno::NoAttribute));
        assert_eq!(files.getattr(file).await.unwrap().sectors, 0);
        files.sync_all().await.unwrap();
    });
    judged(&store);
}

#[test]
fn holes_are_made_filled_and_found() {
    let store = formatted(64 << 20);
    let files = mounted(store.clone());
    run(async {
        let file = files.create(ROOT_INODE, b"file", 0o644, &ROOT).await.unwrap().inode;
        files.write(file, 1 << 40, b"far", &ROOT).await.unwrap();
        files.write(file, 5 << 20, b"near", &ROOT).await.unwrap();
        for synced in [false, true] {
            assert_eq!(files.seek(file, 0, Seek::Data).await, Ok(5 << 20));
            assert_eq!(files.seek(file, 5 << 20, Seek::Hole).await, Ok((5 << 20) + 4096));
            assert_eq!(files.seek(file, 6 << 20, Seek::Data).await, Ok(1 << 40));
            assert_eq!(files.seek(file, 1 << 40, Seek::Hole).await, Ok((1 << 40) + 3));
            assert_eq!(files.seek(file, 2 << 40, Seek::Data).await, Err(Errno::NothingThere));
            if !synced {
                files.fsync(file).await.unwrap();
            }
        }
        judged(&store);
        files.setattr(file, &SetAttributes { size: Some(6 << 20), ..Default::default() }).await.unwrap();
        files.fallocate(file, 1000, 1 << 20, false, &ROOT).await.unwrap();
        assert_eq!(files.getattr(file).await.unwrap().size, 6 << 20);
        assert_eq!(files.seek(file, 0, Seek::Hole).await, Ok((1 << 20) + 4096));
        files.write(file, 0, &[9; 20_000], &ROOT).await.unwrap();
        files.punch_hole(file, 5000, 10_000).await.unwrap();
        let mut expected = vec![9; 20_000];
        expected[5000..15_000].fill(0);
        assert_eq!(contents(&files, file).await[..20_000], expected);
        files.fsync(file).await.unwrap();
        assert_eq!(contents(&files, file).await[..20_000], expected);
        files.punch_hole(file, 0, u64::MAX >> 8).await.unwrap();
        assert_eq!(files.getattr(file).await.unwrap().sectors, 0);
        files.sync_all().await.unwrap();
    });
    judged(&store);
}

#[test]
fn a_file_that_was_made_shorter_and_longer_again_shows_zeros() {
    let store = formatted(16 << 20);
    let files = mounted(store.clone());
    run(async {
        let file = files.create(ROOT_INODE, b"file", 0o644, &ROOT).await.unwrap().inode;
        files.write(file, 0, &[1; 5000], &ROOT).await.unwrap();
        files.fsync(file).await.unwrap();
        for size in [1000, 3000, 2000, 9000] {
            files.setattr(file, &SetAttributes { size: Some(size), ..Default::default() }).await.unwrap();
            files.fsync(file).await.unwrap();
            let bytes = contents(&files, file).await;
            assert_eq!(bytes.len() as u64, size);
            assert!(
                bytes[..1000].iter().all(|&byte| byte == 1) && bytes[1000..].iter().all(|&byte| byte == 0)
            );
        }
        files.write(file, 9100, b"x", &ROOT).await.unwrap();
        assert_eq!(contents(&files, file).await[9000..], [&[0; 100][..], b"x"].concat());
    });
}

#[test]
fn a_file_that_is_open_lives_on_without_a_name() {
    let store = formatted(16 << 20);
    let files = mounted(store.clone());
    run(async {
        let free = files.statistics().await;
        let file = files.create(ROOT_INODE, b"file", 0o644, &ROOT).await.unwrap().inode;
        files.open(file).await.unwrap();
        files.forget(file, 1).await.unwrap();
        files.write(file, 0, &[5; 100_000], &ROOT).await.unwrap();
        files.unlink(ROOT_INODE, b"file").await.unwrap();
        files.fsync(file).await.unwrap();
        assert_eq!(contents(&files, file).await, [5; 100_000]);
        let left = store.after_power_cut(|| false);
        files.release(file).await.unwrap();
        files.sync_all().await.unwrap();
        assert_eq!(files.statistics().await, free);
        judged(&store);
        // After a cut, the mount frees it.
        let files = mounted(left.clone());
        assert_eq!(files.statistics().await, free);
        judged(&left);
    });
}

#[test]
fn no_room_is_told_when_it_is_written_and_what_was_taken_is_durable() {
    let store = formatted(8 << 20);
    let files = mounted(store.clone());
    let user = Caller { uid: 1, gid: 1, is_privileged: false };
    run(async {
        let file = files.create(ROOT_INODE, b"file", 0o666, &user).await.unwrap().inode;
        let mut written = 0;
        loop {
            match files.write(file, written, &[3; 10_000], &user).await {
                Ok(count) => written += count as u64,
                Err(error) => {
                    assert_eq!(error, Errno::NoSpace);
                    break;
                }
            }
        }
        assert!(written > 6 << 20, "{written}");
        let privileged = files.write(file, written, &[3; 10_000], &ROOT).await.unwrap() as u64;
        assert_eq!(privileged, 10_000);
        files.fsync(file).await.unwrap();
        assert_eq!(contents(&files, file).await, vec![3; (written + privileged) as usize]);
        judged(&store);
        // What is freed can be taken, in the same breath.
        files.unlink(ROOT_INODE, b"file").await.unwrap();
        files.forget(file, 1).await.unwrap();
        let file = files.create(ROOT_INODE, b"next", 0o666, &user).await.unwrap().inode;
        assert_eq!(files.write(file, 0, &vec![4; 6 << 20], &user).await, Ok(6 << 20));
        files.fsync(file).await.unwrap();
    });
    judged(&store);
}

#[test]
fn data_beyond_the_bound_goes_to_its_blocks_by_itself() {
    let store = formatted(256 << 20);
    let options = MountOptions { dirty_bytes_max: 1 << 20, ..MountOptions::default() };
    let files = run(FileSystem::mount(store.clone(), options, clock())).unwrap();
    run(async {
        let file = files.create(ROOT_INODE, b"file", 0o666, &ROOT).await.unwrap().inode;
        for part in 0..64 {
            files.write(file, part << 20, &vec![part as u8; 1 << 20], &ROOT).await.unwrap();
            assert!(files.activity().await.dirty_pages <= 600);
        }
        for part in 0..64 {
            let mut bytes = vec![0; 1 << 20];
            files.read(file, part << 20, &mut bytes).await.unwrap();
            assert!(bytes.iter().all(|&byte| byte == part as u8));
        }
        files.sync_all().await.unwrap();
    });
    judged(&store);
}

#[test]
fn an_fsync_beside_a_stream_commits_its_own_bytes_and_none_of_the_stream_which_goes_past_commits() {
    const STREAM: u64 = 48 << 20;
    let store = formatted(128 << 20);
    let options = MountOptions { dirty_bytes_max: 4 << 20, ..MountOptions::default() };
    let files = run(FileSystem::mount(store.clone(), options, clock())).unwrap();
    let (stream, small) = run(async {
        let stream = files.create(ROOT_INODE, b"stream", 0o666, &ROOT).await.unwrap().inode;
        let small = files.create(ROOT_INODE, b"small", 0o666, &ROOT).await.unwrap().inode;
        files.sync_all().await.unwrap();
        (stream, small)
    });
    store.pause_each(2);
    let before = store.asked();
    let (is_over, syncs) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let background = Box::pin(async { files.write_out_in_background().await });
    let streaming = Box::pin(async {
        for part in 0..STREAM >> 20 {
            files.write(stream, part << 20, &vec![7; 1 << 20], &ROOT).await.unwrap();
            assert!(files.activity().await.dirty_pages <= (4 << 20) / 4096 + 256);
        }
        is_over.set(true);
    });
    let syncing = Box::pin(async {
        let mut at = 0;
        while !is_over.get() {
            files.write(small, at, &[3; 100], &ROOT).await.unwrap();
            files.fsync(small).await.unwrap();
            (at, _) = (at + 100, syncs.set(syncs.get() + 1));
        }
        files.end_background();
    });
    let mut turns = Random::new(1);
    let tasks: Vec<std::pin::Pin<Box<dyn Future<Output = ()> + '_>>> = vec![background, streaming, syncing];
    crate::common::run_all(tasks, |bound| turns.below(bound));
    let after = store.asked();
    assert!(syncs.get() > 20, "{}", syncs.get());
    let fresh_bytes = after.fresh_bytes - before.fresh_bytes;
    assert!(fresh_bytes >= STREAM - (4 << 20), "{fresh_bytes}");
    assert_eq!(after.written_bytes, before.written_bytes, "nothing was written twice");
    let commit_bytes = after.commit_bytes - before.commit_bytes;
    assert!(commit_bytes < STREAM / 100 + 400 * syncs.get(), "{commit_bytes} bytes of {} syncs", syncs.get());
    // Inode, sizes and times; a block may be new, and a few of the stream's are mapped.
    assert!(after.awaited_max_bytes < 2000, "{after:?}");
    let own_commits = after.background_commits - before.background_commits;
    assert!(own_commits < (STREAM >> 20) / 4, "the stream rides with them, but for {own_commits} commits");
    run(async {
        store.pause_each(0);
        files.sync_all().await.unwrap();
        let left = mounted(store.after_power_cut(|| false));
        assert!(contents(&left, stream).await == vec![7; STREAM as usize]);
    });
    judged(&store);
}

#[test]
fn a_stream_beside_which_nobody_syncs_needs_a_commit_for_more_and_more_of_it_until_somebody_does() {
    let store = formatted(256 << 20);
    let files = run(FileSystem::mount(store.clone(), MountOptions::default(), clock())).unwrap();
    let commits_of = async |file: u32, from: u64, mib: u64| {
        let before = store.asked();
        for part in from..from + mib {
            files.write(file, part << 20, &vec![part as u8; 1 << 20], &ROOT).await.unwrap();
        }
        store.asked().background_commits - before.background_commits
    };
    run(async {
        let stream = files.create(ROOT_INODE, b"stream", 0o666, &ROOT).await.unwrap().inode;
        let small = files.create(ROOT_INODE, b"small", 0o666, &ROOT).await.unwrap().inode;
        // The memory for it is full from here on.
        commits_of(stream, 0, 56).await;
        assert_eq!(commits_of(stream, 56, 64).await, 64);
        let unsynced = commits_of(stream, 120, 32).await;
        assert!((8..=10).contains(&unsynced), "{unsynced}");
        files.write(small, 0, &[3; 100], &ROOT).await.unwrap();
        files.fsync(small).await.unwrap();
        let synced = commits_of(stream, 152, 32).await;
        assert!((28..=32).contains(&synced), "{synced}");
        files.sync_all().await.unwrap();
        let found = contents(&mounted(store.after_power_cut(|| false)), stream).await;
        assert!(
            found.chunks(1 << 20).enumerate().all(|(part, bytes)| bytes.iter().all(|&it| it == part as u8))
        );
        assert_eq!(found.len(), 184 << 20);
    });
    judged(&store);
}

#[test]
fn a_part_of_a_file_that_was_written_out_is_as_long_as_what_is_committed() {
    let store = formatted(64 << 20);
    let options = MountOptions { dirty_bytes_max: 1 << 20, ..MountOptions::default() };
    let files = run(FileSystem::mount(store.clone(), options, clock())).unwrap();
    run(async {
        let file = files.create(ROOT_INODE, b"file", 0o666, &ROOT).await.unwrap().inode;
        files.sync_all().await.unwrap();
        let mut len = 0;
        for part in 0..24_u64 {
            files.write(file, part * 200_000, &[part as u8 + 1; 200_000], &ROOT).await.unwrap();
            let left = mounted(store.after_power_cut(|| false));
            let found = contents(&left, file).await;
            assert!(found.len() >= len && found.len() as u64 <= (part + 1) * 200_000);
            let is_right = |(at, &byte): (usize, &u8)| byte == (at / 200_000) as u8 + 1;
            assert!(found.iter().enumerate().all(is_right), "after {part} parts");
            len = found.len();
        }
        assert!(len > 2 << 20, "{len} bytes were written out");
        files.fsync(file).await.unwrap();
        assert_eq!(contents(&mounted(store.after_power_cut(|| false)), file).await.len(), 24 * 200_000);
    });
    judged(&store);
}

#[test]
fn small_files_without_end_are_bounded_in_memory_and_several_share_a_commit() {
    let store = formatted(64 << 20);
    let options = MountOptions { dirty_bytes_max: 1 << 20, ..MountOptions::default() };
    let files = run(FileSystem::mount(store.clone(), options, clock())).unwrap();
    store.pause_each(1);
    run(async {
        let before = store.asked().commits;
        for number in 0..2000_u32 {
            let name = format!("file-{number}").into_bytes();
            let file = files.create(ROOT_INODE, &name, 0o666, &ROOT).await.unwrap().inode;
            files.write(file, 0, &[1; 3000], &ROOT).await.unwrap();
            files.forget(file, 1).await.unwrap();
            assert!(files.activity().await.dirty_pages <= 257);
        }
        let commits = store.asked().commits - before;
        assert!(commits < 500, "{commits} commits");
        files.sync_all().await.unwrap();
    });
    judged(&store);
}

#[test]
fn an_fdatasync_of_bytes_that_were_there_commits_them_alone_and_their_time_later() {
    let store = formatted(16 << 20);
    let files = mounted(store.clone());
    run(async {
        let file = files.create(ROOT_INODE, b"file", 0o644, &ROOT).await.unwrap().inode;
        files.write(file, 0, &[1; 10_000], &ROOT).await.unwrap();
        files.fsync(file).await.unwrap();
        let before = store.asked();
        files.write(file, 5000, &[2; 70], &ROOT).await.unwrap();
        files.fdatasync(file).await.unwrap();
        let after = store.asked();
        assert_eq!(after.commit_bytes - before.commit_bytes, 70);
        assert_eq!(after.commit_changes - before.commit_changes, 1);
        let time = files.getattr(file).await.unwrap().mtime;
        files.forget(file, 1).await.unwrap();
        files.unmount().await.unwrap();
        let files = mounted(store.after_power_cut(|| false));
        let found = files.lookup(ROOT_INODE, b"file").await.unwrap();
        assert_eq!(found.mtime, time);
        assert_eq!(
            contents(&files, found.inode).await[4999..5071],
            [&[1; 1][..], &[2; 70], &[1; 1]].concat()
        );
    });
}

#[test]
fn a_read_beside_an_unmapping_shows_no_bytes_of_who_got_the_blocks() {
    crate::common::read_beside_an_unmapping();
}

#[test]
fn a_read_beside_a_commit_shows_zeros_where_nothing_was_written() {
    crate::common::read_beside_a_commit();
}

#[test]
fn whoever_writes_little_does_not_write_out_what_another_wrote_until_there_is_no_room() {
    let store = formatted(64 << 20);
    let options = MountOptions { dirty_bytes_max: 4 << 20, ..MountOptions::default() };
    let files = run(FileSystem::mount(store.clone(), options, clock())).unwrap();
    run(async {
        let large = files.create(ROOT_INODE, b"large", 0o666, &ROOT).await.unwrap().inode;
        let small = files.create(ROOT_INODE, b"small", 0o666, &ROOT).await.unwrap().inode;
        files.write(large, 0, &vec![1; 7 << 19], &ROOT).await.unwrap();
        assert_eq!(store.asked().fresh_bytes, 0);
        for part in 0..60 {
            files.write(small, part * 4096, &[2; 4096], &ROOT).await.unwrap();
        }
        assert_eq!(store.asked().fresh_bytes, 0, "small writes are let in beyond what a stream may take");
        files.write(large, 7 << 19, &[1; 4096], &ROOT).await.unwrap();
        assert_eq!(store.asked().fresh_bytes, 1 << 20, "the stream writes out a group");
    });
}

#[test]
fn room_that_cannot_be_given_leaves_a_file_no_longer_than_what_it_got() {
    let store = formatted(16 << 20);
    let files = mounted(store.clone());
    run(async {
        let file = files.create(ROOT_INODE, b"file", 0o644, &ROOT).await.unwrap().inode;
        files.write(file, 0, b"before", &ROOT).await.unwrap();
        assert_eq!(files.fallocate(file, 0, 1 << 30, true, &ROOT).await, Err(Errno::NoSpace));
        let got = files.getattr(file).await.unwrap();
        assert!(got.size <= got.sectors * 512, "{got:?}");
        assert!(contents(&files, file).await.starts_with(b"before"));
        // What is appended is at the end of what there is.
        files.setattr(file, &SetAttributes { size: Some(6), ..SetAttributes::default() }).await.unwrap();
        assert_eq!(
            files.fallocate(file, 0, 1 << 40, true, &Caller { uid: 7, gid: 7, is_privileged: false }).await,
            Err(Errno::NoSpace)
        );
        files.unmount().await.unwrap();
    });
    judged(&store);
}

#[test]
fn a_file_that_takes_the_name_of_another_has_its_contents_as_soon_as_it_has_the_name() {
    let store = formatted(16 << 20);
    let files = mounted(store.clone());
    run(async {
        let file = files.create(ROOT_INODE, b"file", 0o644, &ROOT).await.unwrap().inode;
        files.write(file, 0, b"before", &ROOT).await.unwrap();
        files.fsync(file).await.unwrap();
        for number in 0..20u8 {
            let next = files.create(ROOT_INODE, b"next", 0o644, &ROOT).await.unwrap().inode;
            files.write(next, 0, &[number; 10_000], &ROOT).await.unwrap();
            files.rename((ROOT_INODE, b"next"), (ROOT_INODE, b"file"), RenameMode::Replace).await.unwrap();
            if number % 2 == 0 {
                files.fsync(ROOT_INODE).await.unwrap();
            }
            let mut random = Random::new(number.into());
            let after = mounted(store.after_power_cut(|| random.coin()));
            let found = after.lookup(ROOT_INODE, b"file").await.unwrap().inode;
            let found = contents(&after, found).await;
            let is_whole = |number: u8| found == [number; 10_000];
            assert!(
                is_whole(number) || number % 2 == 1 && is_whole(number - 1),
                "{number}: {} bytes",
                found.len()
            );
        }
    });
}

#[test]
fn times_never_go_back() {
    let store = formatted(16 << 20);
    let files = mounted(store.clone());
    run(async {
        let file = files.create(ROOT_INODE, b"file", 0o644, &ROOT).await.unwrap().inode;
        files.write(file, 0, &[1; 20_000], &ROOT).await.unwrap();
        files.fsync(file).await.unwrap();
        // In place: nothing but a time changes.
        files.write(file, 0, &[2; 100], &ROOT).await.unwrap();
        files.fdatasync(file).await.unwrap();
        let changed = SetAttributes { permissions: Some(0o600), ..SetAttributes::default() };
        let told = files.setattr(file, &changed).await.unwrap();
        files.sync_all().await.unwrap();
        let found = files.getattr(file).await.unwrap();
        assert_eq!((found.ctime, found.permissions), (told.ctime, 0o600));
        // A hole beside bytes that are not committed.
        files.write(file, 0, &[3; 100], &ROOT).await.unwrap();
        files.punch_hole(file, 8192, 4096).await.unwrap();
        let told = files.getattr(file).await.unwrap();
        assert!(told.mtime > found.mtime);
        files.sync_all().await.unwrap();
        assert_eq!(files.getattr(file).await.unwrap().mtime, told.mtime);
        files.unmount().await.unwrap();
    });
    judged(&store);
}

#[test]
fn on_a_full_disk_files_are_renamed_and_linked_where_that_needs_no_room() {
    let store = formatted(16 << 20);
    let files = mounted(store.clone());
    run(async {
        for name in [&b"log"[..], b"cfg", b"cfg.tmp"] {
            let file = files.create(ROOT_INODE, name, 0o644, &ROOT).await.unwrap().inode;
            files.write(file, 0, name, &ROOT).await.unwrap();
        }
        let large = files.create(ROOT_INODE, b"large", 0o644, &ROOT).await.unwrap().inode;
        let mut at = 0;
        while let Ok(count) = files.write(large, at, &[1; 65_536], &ROOT).await {
            at += count as u64;
        }
        files.sync_all().await.unwrap();
        files.rename((ROOT_INODE, b"log"), (ROOT_INODE, b"log.1"), RenameMode::Replace).await.unwrap();
        files.rename((ROOT_INODE, b"cfg.tmp"), (ROOT_INODE, b"cfg"), RenameMode::Replace).await.unwrap();
        let file = files.lookup(ROOT_INODE, b"cfg").await.unwrap().inode;
        assert_eq!(contents(&files, file).await, b"cfg.tmp");
        files.link(file, ROOT_INODE, b"cfg.link", &ROOT).await.unwrap();
        assert_eq!(files.mkdir(ROOT_INODE, b"folder", 0o755, &ROOT).await, Err(Errno::NoSpace));
        // As long as the folder has room in its blocks, and then what it needs is not there.
        let mut names = 0;
        let refused = loop {
            let name = format!("{names:0200}");
            match files.link(file, ROOT_INODE, name.as_bytes(), &ROOT).await {
                Ok(_) => names += 1,
                Err(error) => break error,
            }
        };
        assert_eq!((refused, names > 5), (Errno::NoSpace, true));
        files.unmount().await.unwrap();
    });
    judged(&store);
}
