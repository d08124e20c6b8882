//! What virtual machines take: their programs, Debian's kernel, QEMU, and processes that end with what holds them.
//!
//! 1. What cannot be had is told as a reason, for the chore to print as `skipped: REASON`.
//! 2. A child lives no longer than its [`Running`], one that is [tied](`tied`) no longer than the chore, however that ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::run::{self, Failure, Outcome};

/// A process that ends with this.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _gone_already_is_fine = self.0.kill();
        let _no_zombie = self.0.wait();
    }
}

/// What is installed, or is by now; why not, if so.
pub(crate) fn get_programs(needs: &[(&'static str, &str)]) -> Result<(), String> {
    let missing =
        || needs.iter().filter(|(_, program)| !run::has_program(program)).map(|(package, _)| *package);
    if evenkeel_host::program::is_root() && run::has_program("apt-get") && missing().next().is_some() {
        let mut install = run::system("apt-get", &["install", "--yes", "--no-install-recommends"]);
        let _what_is_missing_is_named = run::status(install.args(missing()).stdin(Stdio::null()));
    }
    let missing: Vec<&str> = missing().collect();
    match missing[..] {
        [] => Ok(()),
        _ => Err(format!("no guests without {}", missing.join(", "))),
    }
}

/// Debian's kernel, unpacked.
pub(crate) struct Kernel {
    pub(crate) image: PathBuf,
    pub(crate) modules: PathBuf,
}

/// Gets it, or says why it cannot be had.
pub(crate) fn get_kernel(folder: &Path) -> Result<Kernel, String> {
    let output = |program: &str, args: &[&str]| {
        let ran = run::system(program, args).current_dir(folder).stdin(Stdio::null()).output();
        let ran = ran.map_err(|error| format!("no kernel for guests: cannot run {program}: {error}"))?;
        match ran.status.success() {
            true => Ok(String::from_utf8_lossy(&ran.stdout).into_owned()),
            false => Err(format!("no kernel for guests: {program} {} failed", args.join(" "))),
        }
    };
    let depends = output("apt-cache", &["depends", "linux-image-amd64"])?;
    let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    let version = package.ok_or("no kernel for guests: apt-get knows no linux-image-amd64 for it")?;
    let root = folder.join("kernel");
    let kernel = Kernel {
        image: root.join(format!("boot/vmlinuz-{version}")),
        modules: root.join(format!("lib/modules/{version}/kernel")),
    };
    if kernel.image.exists() {
        return Ok(kernel);
    }
    output("apt-get", &["download", &format!("linux-image-{version}")])?;
    let packages = fs::read_dir(folder).map_err(|error| error.to_string())?.flatten();
    let names = packages.filter_map(|entry| entry.file_name().into_string().ok());
    let is_it = |name: &String| name.starts_with(&format!("linux-image-{version}_"));
    let name = names.into_iter().find(is_it).ok_or("no kernel for guests: apt-get downloaded none")?;
    output("dpkg-deb", &["--extract", &name, "kernel"])?;
    Ok(kernel)
}

/// A program that is killed once the thread that started it is gone.
pub(crate) fn tied(program: &str, args: &[&str]) -> Command {
    let mut command = run::system("setpriv", &["--pdeathsig", "KILL", program]);
    command.args(args);
    command
}

/// QEMU with this much memory in MiB, a network that leads to this machine as 10.0.2.2, and its serial line as its input and
/// output.
pub(crate) fn qemu(kernel: &Kernel, image: &Path, memory: u32, append: &str) -> Command {
    let (kernel, image) = (kernel.image.display().to_string(), image.display().to_string());
    let memory = memory.to_string();
    let mut qemu = tied("qemu-system-x86_64", &["-accel", "tcg", "-m", &memory, "-display", "none"]);
    qemu.args(["-serial", "stdio", "-monitor", "none", "-no-reboot", "-nodefaults"]);
    qemu.args(["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="]);
    qemu.args(["-kernel", &kernel, "-initrd", &image, "-append", append]);
    qemu
}

/// The lines that a child says, which end with it.
pub(crate) fn said_by(child: &mut Child) -> Outcome<Receiver<String>> {
    let out = child.stdout.take().ok_or_else(|| Failure::Failed("a child without output".to_owned()))?;
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(out).split(b'\n');
        while let Some(Ok(line)) = lines.next() {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}
