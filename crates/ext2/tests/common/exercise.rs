//! Work on a file system that may be damaged in any way: whatever it answers, it answers.

use evenkeel_ext2::store::Store;
use evenkeel_ext2::{
    Caller, FileSystem, FormatOptions, Kind, MemoryStore, MountOptions, ROOT_INODE, RenameMode, Seek,
    SetAttributes, Timestamp, XattrMode, format,
};

/// Bytes that are read of a file at once.
const READ_BYTES: usize = 64 << 10;

/// A small file system with something of everything: a folder with an index, mapping blocks of two levels, links,
/// attributes in the inode and in a block, an orphan.
pub(crate) async fn image() -> MemoryStore {
    let store = MemoryStore::new(4 << 20);
    format(&store, &FormatOptions::default()).await.expect("it fits");
    let options = MountOptions { discards: false, ..MountOptions::default() };
    let files = FileSystem::mount(store.clone(), options, Timestamp::default).await.expect("it is new");
    let caller = Caller::ROOT;
    let folder = files.mkdir(ROOT_INODE, b"folder", 0o755, &caller).await.expect("there is room").inode;
    for number in 0..120 {
        let name = format!("{number}-{}", "n".repeat(60));
        files
            .mknod(folder, name.as_bytes(), (Kind::Pipe, 0o600), (0, 0), &caller)
            .await
            .expect("there is room");
    }
    let file = files.create(ROOT_INODE, b"file", 0o644, &caller).await.expect("there is room").inode;
    files.write(file, 0, &[7; 100_000], &caller).await.expect("there is room");
    files.write(file, 10 << 20, &[8; 10_000], &caller).await.expect("there is room");
    files.setxattr(file, b"user.short", b"value", XattrMode::Set).await.expect("there is room");
    files.setxattr(file, b"user.long", &[9; 1000], XattrMode::Set).await.expect("there is room");
    files.symlink(ROOT_INODE, b"short", b"file", &caller).await.expect("there is room");
    files.symlink(ROOT_INODE, b"long", &[b'x'; 500], &caller).await.expect("there is room");
    let orphan = files.create(ROOT_INODE, b"orphan", 0o644, &caller).await.expect("there is room").inode;
    files.write(orphan, 0, &[6; 60_000], &caller).await.expect("there is room");
    files.unlink(ROOT_INODE, b"orphan").await.expect("it is there");
    files.sync_all().await.expect("memory takes it");
    store
}

/// Mounts what is there, looks at everything, and changes it.
pub(crate) async fn exercise<S: Store>(store: S) {
    let options = MountOptions { cache_bytes: 1 << 20, ..MountOptions::default() };
    let Ok(files) = FileSystem::mount(store, options, Timestamp::default).await else { return };
    let mut found = vec![(ROOT_INODE, b"..".to_vec(), ROOT_INODE)];
    let mut next = 0;
    while next < found.len().min(60) {
        let number = found[next].2;
        next += 1;
        look_at(&files, number).await;
        if let Ok(part) = files.readdir(number, 0, 20).await {
            for entry in
                part.into_iter().take(30).filter(|entry| ![&b"."[..], b".."].contains(&&entry.name[..]))
            {
                let _whatever = files.lookup(number, &entry.name).await;
                found.push((number, entry.name, entry.inode));
            }
        }
    }
    for (parent, name, number) in found.into_iter().skip(1).take(60) {
        change(&files, parent, &name, number).await;
    }
    let _whatever = files.sync_all().await;
    let _whatever = files.statistics().await;
    let _whatever = files.unmount().await;
}

async fn look_at<S: Store>(files: &FileSystem<S>, number: u32) {
    let mut bytes = vec![0; READ_BYTES];
    let _whatever = files.getattr(number).await;
    for offset in [0, 50_000, 10 << 20, 1 << 40] {
        let _whatever = files.read(number, offset, &mut bytes).await;
    }
    let _whatever = files.readlink(number).await;
    for name in files.listxattr(number).await.unwrap_or_default() {
        let _whatever = files.getxattr(number, &name).await;
    }
    let _whatever = files.seek(number, 0, Seek::Hole).await;
    let _whatever = files.seek(number, 5000, Seek::Data).await;
}

async fn change<S: Store>(files: &FileSystem<S>, parent: u32, name: &[u8], number: u32) {
    let caller = Caller::ROOT;
    let _whatever = files.create(parent, b"new", 0o644, &caller).await;
    let _whatever = files.create(number, b"within", 0o644, &caller).await;
    let _whatever = files.mkdir(parent, b"new folder", 0o755, &caller).await;
    let _whatever = files.write(number, 3000, &[1; 9000], &caller).await;
    let _whatever = files.setxattr(number, b"user.new", &[2; 300], XattrMode::Set).await;
    let _whatever = files.fsync(number).await;
    let _whatever = files.punch_hole(number, 5000, 20_000).await;
    let _whatever = files.fallocate(number, 0, 30_000, true, &caller).await;
    let size = SetAttributes { size: Some(4000), ..SetAttributes::default() };
    let _whatever = files.setattr(number, &size).await;
    let _whatever = files.rename((parent, name), (ROOT_INODE, b"renamed"), RenameMode::Exchange).await;
    let _whatever = files.rename((parent, name), (ROOT_INODE, b"renamed"), RenameMode::Replace).await;
    let _whatever = files.unlink(ROOT_INODE, b"renamed").await;
    let _whatever = files.rmdir(ROOT_INODE, b"renamed").await;
    let _whatever = files.forget(number, u64::MAX).await;
}
