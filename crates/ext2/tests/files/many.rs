//! Many files at once.

use crate::common::{e2fsck, formatted, mounted, run};
use evenkeel_ext2::{Caller, ROOT_INODE};

const ROOT: Caller = Caller::ROOT;

#[test]
fn a_sync_of_everything_commits_many_small_files_together() {
    const FILES: u64 = 500;
    let store = formatted(64 << 20);
    let files = mounted(store.clone());
    run(async {
        let mut numbers = Vec::new();
        for name in 0..FILES {
            let file = files.create(ROOT_INODE, name.to_string().as_bytes(), 0o644, &ROOT).await.unwrap();
            numbers.push(file.inode);
        }
        files.sync_all().await.unwrap();
        for &number in &numbers {
            files.write(number, 0, &[number as u8; 100], &ROOT).await.unwrap();
        }
        // One that has much of its own does not hold up the others.
        files.write(numbers[0], 0, &vec![9; 1 << 20], &ROOT).await.unwrap();
        // A commit takes a while, as on a drive: others come meanwhile.
        store.pause_each(1);
        let before = store.asked().commits;
        files.sync_all().await.unwrap();
        let commits = store.asked().commits - before;
        assert!(commits < FILES / 20, "{commits} commits for {FILES} files");
        assert_eq!(files.activity().await.dirty_pages, 0);
        let left = store.after_power_cut(|| false);
        let again = mounted(left.clone());
        for (name, &number) in numbers.iter().enumerate().skip(1) {
            let found = again.lookup(ROOT_INODE, name.to_string().as_bytes()).await.unwrap();
            let mut bytes = [0; 100];
            assert_eq!(again.read(found.inode, 0, &mut bytes).await, Ok(100));
            assert_eq!(bytes, [number as u8; 100]);
        }
        e2fsck(&left).unwrap();
    });
}
