//! A volume as a disk of this machine: nbdfuse, a loop device, and a file system on it.

use std::path::Path;

use crate::support::attached::{Disk, possible};
use crate::support::root::{Mounted, programs, run};
use crate::support::served::{Volume, noise_file};
use crate::support::{Scene, skip};

/// A file system, and how it is made and judged.
struct FileSystem {
    make: &'static [&'static str],
    /// Reads only, and fails where anything is wrong.
    judge: &'static [&'static str],
    size: &'static str,
}

#[track_caller]
fn ran(program: &str, args: &[&str]) -> String {
    run(program, args).unwrap_or_else(|why| panic!("{why}"))
}

/// A tree with something of everything: many small files, a large one, holes, links, names of all lengths.
fn plant(tree: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    std::fs::create_dir(tree).unwrap();
    ran("cp", &["-a", &sources.display().to_string(), &tree.join("sources").display().to_string()]);
    noise_file(&tree.join("large"), 11, 20_000_003);
    let holes = std::fs::File::create(tree.join("holes")).unwrap();
    holes.set_len(30 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&holes, b"in the middle", 12_345_678).unwrap();
    std::os::unix::fs::symlink("large", tree.join("link")).unwrap();
    std::fs::hard_link(tree.join("large"), tree.join("other name")).unwrap();
    std::fs::create_dir(tree.join("d".repeat(200))).unwrap();
    for number in 0..300 {
        noise_file(&tree.join("d".repeat(200)).join(format!("{number}")), number, number as usize * 37);
    }
}

/// Makes it, copies a tree, unmounts, checks, restarts the server, mounts again, compares; then the same with a
/// kill of the server in the place of its stop.
fn a_tree_survives(test: &str, system: &FileSystem) {
    if let Err(why) = possible().and_then(|()| programs(&[system.make[0], system.judge[0]])) {
        return skip(test, &why);
    }
    let scene = Scene::new();
    let volume = Volume::create(&scene, &format!("--size {} --log-size 32m --buffer 16m", system.size));
    let tree = scene.path("tree");
    plant(&tree);
    let (from, point) = (tree.display().to_string(), scene.path("mounted"));
    let compare = |name: &str| {
        let copy = point.join(name).display().to_string();
        ran("diff", &["--recursive", "--no-dereference", &from, &copy]);
    };
    let judge = |disk: &Disk| ran(system.judge[0], &[&system.judge[1..], &[disk.node.as_str()]].concat());

    let server = volume.serve("");
    let disk = Disk::attach(&volume.socket(), &scene.path("fuse"));
    ran(system.make[0], &[&system.make[1..], &[disk.node.as_str()]].concat());
    let mounted = Mounted::of(&disk.node, &point).unwrap();
    ran("cp", &["-a", &from, &point.join("first").display().to_string()]);
    drop(mounted);
    judge(&disk);
    drop(disk);
    server.stop();

    let mut server = volume.serve("");
    let disk = Disk::attach(&volume.socket(), &scene.path("fuse"));
    let mounted = Mounted::of(&disk.node, &point).unwrap();
    compare("first");
    ran("cp", &["-a", &from, &point.join("second").display().to_string()]);
    ran("rm", &["-r", &point.join("first").display().to_string()]);
    drop(mounted);
    // Unmounted cleanly, and killed before it took all of it home.
    server.kill();
    drop(disk);

    let server = volume.serve("");
    let disk = Disk::attach(&volume.socket(), &scene.path("fuse"));
    judge(&disk);
    let mounted = Mounted::of(&disk.node, &point).unwrap();
    compare("second");
    assert!(!point.join("first").exists());
    drop(mounted);
    judge(&disk);
    drop(disk);
    server.stop();
    assert!(scene.done("check disk").stdout.contains(" 0 damaged"));
}

#[test]
fn a_tree_on_xfs_survives() {
    let xfs = FileSystem { make: &["mkfs.xfs", "-q", "-f"], judge: &["xfs_repair", "-n"], size: "320m" };
    a_tree_survives("a_tree_on_xfs_survives", &xfs);
}

#[test]
fn a_tree_on_ext4_survives() {
    let ext4 = FileSystem { make: &["mkfs.ext4", "-q", "-F"], judge: &["e2fsck", "-f", "-n"], size: "256m" };
    a_tree_survives("a_tree_on_ext4_survives", &ext4);
}

#[test]
fn a_tree_on_btrfs_survives() {
    let btrfs = FileSystem {
        make: &["mkfs.btrfs", "-q", "-f"],
        judge: &["btrfs", "check", "--readonly"],
        size: "320m",
    };
    a_tree_survives("a_tree_on_btrfs_survives", &btrfs);
}
