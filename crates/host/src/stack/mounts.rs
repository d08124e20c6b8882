//! The mount table, as `/proc/self/mountinfo` tells it (proc_pid_mountinfo(5)).

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Device number as `major:minor`; major 0 for file systems without a device of their own.
    pub(crate) device_number: String,
    pub(crate) mount_point: PathBuf,
    /// Options of this mount and of the file system, joined by commas.
    pub(crate) options: String,
    pub(crate) file_system: String,
    /// What is mounted: a device node, a server's export, or a mere name.
    pub(crate) source: String,
}

/// The mount that holds `path`, which must be absolute and free of links.
pub(crate) fn mount_of(path: &Path) -> io::Result<Mount> {
    table()?
        .into_iter()
        .filter(|mount| path.starts_with(&mount.mount_point))
        // Of several mounts on one point the last hides the others.
        .max_by_key(|mount| mount.mount_point.as_os_str().len())
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no mount holds this path"))
}

/// Where the first file system of this type is mounted, with this option if one is named.
pub(crate) fn first_of(file_system: &str, option: Option<&str>) -> io::Result<PathBuf> {
    let fits = |mount: &Mount| {
        mount.file_system == file_system
            && option.is_none_or(|option| mount.options.split(',').any(|one| one == option))
    };
    let found = table()?.into_iter().find(fits);
    found
        .map(|mount| mount.mount_point)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no {file_system} is mounted here")))
}

/// Whether something is mounted exactly at `path`, which must be absolute and free of links.
pub fn is_mount_point(path: &Path) -> io::Result<bool> {
    Ok(table()?.iter().any(|mount| mount.mount_point == path))
}

/// What is mounted exactly at `path`, which must be absolute and free of links; of several the last, which hides the others.
pub(crate) fn mounted_at(path: &Path) -> io::Result<Option<Mount>> {
    Ok(table()?.into_iter().rfind(|mount| mount.mount_point == path))
}

/// All mounts that this process sees.
fn table() -> io::Result<Vec<Mount>> {
    const TABLE: &str = "/proc/self/mountinfo";
    match fs::read(TABLE) {
        Ok(table) => Ok(parse(&table)),
        Err(error) => Err(io::Error::new(error.kind(), format!("{TABLE}: {error}; mount /proc"))),
    }
}

/// Every line that can be read; a line that cannot is passed over, for the format may grow.
fn parse(table: &[u8]) -> Vec<Mount> {
    table.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    let device_number = text(fields.nth(2)?);
    let mount_point = PathBuf::from(std::ffi::OsString::from_vec(unescape(fields.nth(1)?)));
    let mount_options = text(fields.next()?);
    fields.find(|&field| field == b"-")?;
    let file_system = text(fields.next()?);
    let source = text(fields.next()?);
    let own_options = text(fields.next().unwrap_or_default());
    let mut options: Vec<&str> = Vec::new();
    for option in mount_options.split(',').chain(own_options.split(',')) {
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Mount { device_number, mount_point, options: options.join(","), file_system, source })
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(field)).into_owned()
}

/// Undoes the kernel's `\ooo` for blanks, line feeds and backslashes.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        match tail.get(..3).filter(|_| byte == b'\\').and_then(octal) {
            Some(escaped) => {
                plain.push(escaped);
                rest = &tail[3..];
            }
            None => {
                plain.push(byte);
                rest = tail;
            }
        }
    }
    plain
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_of_the_table_is_read_whole() {
        let line = br"36 35 98:0 /mnt1 /my\040disk rw,noatime master:1 - ext4 /dev/sdb1 rw,errors=continue";
        let mount = parse_line(line).unwrap();
        assert_eq!(mount.device_number, "98:0");
        assert_eq!(mount.mount_point, Path::new("/my disk"));
        assert_eq!(mount.options, "rw,noatime,errors=continue");
        assert_eq!(mount.file_system, "ext4");
        assert_eq!(mount.source, "/dev/sdb1");
    }

    #[test]
    fn every_path_lies_on_a_mount() {
        assert_eq!(mount_of(Path::new("/proc/self")).unwrap().file_system, "proc");
        assert!(mount_of(Path::new("/")).is_ok());
    }

    proptest! {
        #[test]
        fn no_table_makes_the_parser_panic(table in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse(&table);
        }
    }
}
