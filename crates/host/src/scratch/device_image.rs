//! A device copied to a file and back.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::interrupt::Interrupt;
use crate::scratch::ScratchFile;

/// Bytes copied at once.
const UNIT_BYTES: usize = 1 << 20;

/// Writes zeros all over a device.
///
/// # Errors
///
/// Those of the device; `Interrupted`.
pub fn zero(device: &Path, interrupt: &Interrupt) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(device)?;
    let mut left = size_bytes(&mut file)?;
    let zeros = vec![0; UNIT_BYTES];
    while left > 0 {
        go_on(interrupt)?;
        let unit = left.min(UNIT_BYTES as u64);
        file.write_all(&zeros[..unit as usize])?;
        left -= unit;
    }
    file.sync_all()
}

/// Copies a device to a new file, with holes where the device has zeros.
///
/// # Errors
///
/// Those of both; `Interrupted`.
pub fn save(device: &Path, image: &Path, interrupt: &Interrupt) -> io::Result<ScratchFile> {
    let mut from = File::open(device)?;
    let bytes = size_bytes(&mut from)?;
    let (guard, ()) = ScratchFile::make(image, |image| {
        let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(image)?;
        to.set_len(bytes)?;
        copy(&mut from, bytes, interrupt, |at, unit| {
            if unit.iter().all(|&byte| byte == 0) {
                return Ok(());
            }
            to.seek(SeekFrom::Start(at))?;
            to.write_all(unit)
        })?;
        to.sync_all()
    })?;
    Ok(guard)
}

/// Copies a file that [`save`] made back, zeros included.
///
/// # Errors
///
/// Those of both, `InvalidData` where the device has another size; `Interrupted`.
pub fn restore(image: &Path, device: &Path, interrupt: &Interrupt) -> io::Result<()> {
    let mut from = File::open(image)?;
    let mut to = OpenOptions::new().write(true).open(device)?;
    let bytes = size_bytes(&mut to)?;
    if bytes != from.metadata()?.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the image is of a device of another size"));
    }
    copy(&mut from, bytes, interrupt, |_, unit| to.write_all(unit))?;
    to.sync_all()
}

fn copy(
    from: &mut File,
    bytes: u64,
    interrupt: &Interrupt,
    mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut unit = vec![0; UNIT_BYTES];
    let mut at = 0;
    while at < bytes {
        go_on(interrupt)?;
        let unit = &mut unit[..(bytes - at).min(UNIT_BYTES as u64) as usize];
        from.read_exact(unit)?;
        take(at, unit)?;
        at += unit.len() as u64;
    }
    Ok(())
}

fn go_on(interrupt: &Interrupt) -> io::Result<()> {
    if interrupt.is_asked() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
}

/// The size of a file or device; its place is its begin again.
fn size_bytes(file: &mut File) -> io::Result<u64> {
    let end = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_device_is_again_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (device, image) = (folder.path().join("device"), folder.path().join("image"));
        let mut before = vec![0; 3 * UNIT_BYTES + 512];
        before[UNIT_BYTES..UNIT_BYTES + 3].copy_from_slice(b"abc");
        *before.last_mut().unwrap() = 7;
        fs::write(&device, &before).unwrap();
        let interrupt = Interrupt::default();
        let guard = save(&device, &image, &interrupt).unwrap();
        fs::write(&device, vec![9; before.len()]).unwrap();
        restore(&image, &device, &interrupt).unwrap();
        assert!(fs::read(&device).unwrap() == before);
        fs::write(&device, [1; 512]).unwrap();
        assert_eq!(restore(&image, &device, &interrupt).unwrap_err().kind(), io::ErrorKind::InvalidData);
        zero(&device, &interrupt).unwrap();
        assert_eq!(fs::read(&device).unwrap(), [0; 512]);
        drop(guard);
        assert!(!image.exists());
    }
}
