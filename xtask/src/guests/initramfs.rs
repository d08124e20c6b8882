//! The initramfs of a guest: an archive in cpio's format `newc`, as the kernel takes it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::machine::Kernel;
use crate::run::{self, Failure, Outcome, context};

/// Modules of every guest.
const MODULES: &[&str] = &[
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci.ko",
    "net/core/failover.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/virtio_net.ko",
    "drivers/block/nbd.ko",
];

/// What every guest does first.
const START: &str = r#"#!/bin/busybox sh
/bin/busybox mkdir -p /dev /proc /sys /sbin /usr/bin /usr/sbin
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
# Whichever needs another comes after it in one of the turns.
for turn in 1 2 3; do
    for module in /modules/*.ko; do insmod "$module" 2>/dev/null; done
done
ip link set lo up
ip address add 10.0.2.15/24 dev eth0
ip link set eth0 up
"#;

/// Bytes of the archive's header, its name, and of what follows, are each a multiple of this.
const ALIGNMENT: usize = 4;

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    folders: BTreeSet<PathBuf>,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, contents: &[u8]) {
        self.entries += 1;
        let fields =
            [self.entries, mode, 0, 0, 1, 0, contents.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(contents);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }

    /// A file, with the folders that lead to it.
    fn file(&mut self, name: &str, contents: &[u8]) {
        let mut above: Vec<&Path> = Path::new(name).ancestors().skip(1).collect();
        above.reverse();
        for folder in above.into_iter().filter(|folder| !folder.as_os_str().is_empty()) {
            if self.folders.insert(folder.to_owned()) {
                self.add(&folder.display().to_string(), 0o040_755, &[]);
            }
        }
        self.add(name, 0o100_755, contents);
    }

    fn end(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

/// What a guest has beside its kernel and busybox.
pub(crate) struct Contents<'a> {
    /// What the first process, a script of busybox, does once devices and network are there.
    pub(crate) work: &'a str,
    /// Files below the kernel's folder of modules, beside those of devices and network. A kernel that has one built in has
    /// no file of it.
    pub(crate) modules: &'a [&'a str],
    /// Programs by their path in the guest, and where they are here. What they load comes along.
    pub(crate) programs: &'a [(&'a str, PathBuf)],
}

/// The archive for guests with this kernel.
pub(crate) fn image(kernel: &Kernel, contents: &Contents<'_>) -> Outcome<Vec<u8>> {
    let mut archive = Archive::default();
    archive.file("init", [START, contents.work].concat().as_bytes());
    archive.file("bin/busybox", &read(&found("busybox")?)?);
    let mut needed = BTreeSet::new();
    for (name, program) in contents.programs {
        archive.file(name, &read(program)?);
        needed.extend(libraries(program)?);
    }
    for library in needed {
        archive.file(library.trim_start_matches('/'), &read(Path::new(&library))?);
    }
    for (number, module) in MODULES.iter().chain(contents.modules).enumerate() {
        let path = kernel.modules.join(module);
        if path.exists() {
            archive.file(&format!("modules/{number:02}.ko"), &read(&path)?);
        }
    }
    Ok(archive.end())
}

fn read(path: &Path) -> Outcome<Vec<u8>> {
    fs::read(path).map_err(context(format!("cannot read {}", path.display())))
}

/// Where a program is.
pub(crate) fn found(name: &str) -> Outcome<PathBuf> {
    let folders = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];
    let found = folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
    found.ok_or_else(|| Failure::Failed(format!("no {name} in the folders of the system")))
}

/// The libraries that a program loads, with what loads them.
fn libraries(program: &Path) -> Outcome<Vec<String>> {
    let told = run::system("ldd", &[&program.display().to_string()]).output();
    let told = told.map_err(context("cannot run ldd"))?;
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_each_folder_once_and_before_what_is_in_it() {
        let mut archive = Archive::default();
        archive.file("lib/a/one", b"12345");
        archive.file("lib/a/other", b"");
        let bytes = archive.end();
        assert!(bytes.len().is_multiple_of(ALIGNMENT));
        let mut names = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |number: usize| {
                let digits = std::str::from_utf8(&bytes[at + 6 + 8 * number..][..8]).unwrap();
                usize::from_str_radix(digits, 16).unwrap()
            };
            let (len, name_len) = (field(6), field(11));
            names.push(String::from_utf8(bytes[at + 110..at + 110 + name_len - 1].to_vec()).unwrap());
            let contents = (at + 110 + name_len).next_multiple_of(ALIGNMENT);
            if len > 0 {
                assert_eq!(&bytes[contents..contents + len], b"12345");
            }
            at = (contents + len).next_multiple_of(ALIGNMENT);
        }
        assert_eq!(names, ["lib", "lib/a", "lib/a/one", "lib/a/other", "TRAILER!!!"]);
    }
}
