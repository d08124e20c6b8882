//! `cargo xtask guests`: virtual machines with Debian's kernel write to a served volume through the kernel's NBD client, and
//! are cut; whatever their fsync said is durable has to be there.
//!
//! 1. A guest is the kernel and an initramfs made here: busybox, nbd-client, and one script that writes pages, each with an
//!    fsync, and says so on its serial line.
//! 2. A guest is cut by killing QEMU, in every other round with the server of the volume right after it.
//! 3. What cannot be had here is a `skipped: REASON`, and no failure.

pub(crate) mod initramfs;
pub(crate) mod machine;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::run::{self, Failure, Outcome, context};
use initramfs::Contents;
use machine::{Kernel, Running, said_by};

/// Rounds unless told otherwise.
const ROUNDS: u64 = 4;

/// Bytes of what a guest writes at once.
const WRITE_BYTES: usize = 4096;

/// Places that guests write to.
const PLACES: u64 = 8192;

/// How long a guest may take to write what it is to write. QEMU may have to do without virtualization.
const GUEST_MAX: Duration = Duration::from_secs(300);

/// What it takes: Debian packages, and a program of each.
const NEEDS: &[(&str, &str)] = &[
    ("qemu-system-x86", "qemu-system-x86_64"),
    ("busybox-static", "busybox"),
    ("nbd-client", "nbd-client"),
    ("libnbd-bin", "nbdcopy"),
];

/// What a guest does once it is up. Its numbers come from the kernel's command line, as variables of the first process.
const WORK: &str = r#"/nbd-client 10.0.2.2 "$port" /dev/nbd0 2>&1
echo "attached $(blockdev --getsize64 /dev/nbd0) bytes"
while :; do
    number=$((number + 1))
    place=$((number * 7919 % places))
    printf '%-4096s' "write $number at $place" |
        dd of=/dev/nbd0 bs=4096 seek="$place" count=1 iflag=fullblock conv=notrunc,fsync 2>/tmp.err ||
        { cat /tmp.err; reboot -f; }
    echo "durable $number"
done
"#;

/// What is asked of `guests`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Gets Debian's kernel, QEMU, busybox and nbd-client with apt-get, as root.

Examples:
  cargo xtask guests                four machines, each cut once
  cargo xtask guests --rounds 20    for longer")]
pub(crate) struct Args {
    /// Machines that are cut, one after the other
    #[arg(long, default_value_t = ROUNDS, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
}

/// Cuts guests.
pub(crate) fn main(args: &Args) -> Outcome {
    let rounds = args.rounds;
    let folder = run::workspace_root().join("target/guests");
    fs::create_dir_all(&folder).map_err(context(format!("cannot make {}", folder.display())))?;
    if let Err(why) = machine::get_programs(NEEDS) {
        println!("skipped: {why}");
        return Ok(());
    }
    let kernel = match machine::get_kernel(&folder) {
        Ok(kernel) => kernel,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(());
        }
    };
    let image = folder.join("initramfs");
    let contents =
        Contents { work: WORK, modules: &[], programs: &[("nbd-client", initramfs::found("nbd-client")?)] };
    fs::write(&image, initramfs::image(&kernel, &contents)?)
        .map_err(context(format!("cannot write {}", image.display())))?;
    run::run(run::cargo(&["build", "--locked", "--quiet", "-p", "evenkeel"]).stdin(Stdio::null()))?;
    cut(&folder, &kernel, &image, rounds)
}

/// What is known of the places that guests wrote to: the number of the write that is durable there, or one of two.
#[derive(Debug, Default)]
struct Known {
    durable: HashMap<u64, u64>,
    /// What was under way when the guest was cut.
    under_way: Option<(u64, u64)>,
}

/// Where the write of this number goes. The guest has the same sum.
const fn place(number: u64) -> u64 {
    number * 7919 % PLACES
}

/// What the write of this number says, up to the blanks behind it.
fn said(number: u64) -> String {
    format!("write {number} at {}", place(number))
}

impl Known {
    /// How many places were compared; the first that is wrong is an error.
    fn compare(&mut self, found: &[u8]) -> Outcome<usize> {
        let text = |place: u64| {
            let start = place as usize * WRITE_BYTES;
            String::from_utf8_lossy(&found[start..start + WRITE_BYTES]).trim_end().to_owned()
        };
        if let Some((place, number)) = self.under_way.take()
            && text(place) == said(number)
        {
            self.durable.insert(place, number);
        }
        for (&place, &number) in &self.durable {
            let (found, expected) = (text(place), said(number));
            if found != expected {
                let shown: String = found.chars().take(60).collect();
                return Err(Failure::Failed(format!(
                    "place {place}: a guest was told that `{expected}` is durable, and `{shown}` is there"
                )));
            }
        }
        Ok(self.durable.len())
    }
}

fn cut(folder: &Path, kernel: &Kernel, image: &Path, rounds: u64) -> Outcome {
    let volume = folder.join("volume");
    let _there_may_be_none = fs::remove_dir_all(&volume);
    let path = volume.display().to_string();
    run::run(&mut evenkeel(&["create", &path, "--size", "64m", "--buffer", "8m"]))?;
    let (mut server, mut port) = serve(&path)?;
    let (mut known, mut compared, mut number, began) = (Known::default(), 0, 0, Instant::now());
    let mut first_write_s = 0.0;
    for round in 0..rounds {
        let (mut guest, lines) = boot(kernel, image, port, number)?;
        let booted = Instant::now();
        let wanted = 40 + round * 29 % 100;
        let mut written = 0;
        while written < wanted {
            let left = GUEST_MAX.saturating_sub(booted.elapsed());
            let line = lines.recv_timeout(left).map_err(|_| {
                Failure::Failed(format!("a guest wrote {written} of {wanted} pages, and then nothing"))
            })?;
            if take(&line, &mut known, &mut number) {
                written += 1;
                if written == 1 {
                    first_write_s += booted.elapsed().as_secs_f64();
                }
            } else {
                eprintln!("  guest: {line}");
            }
        }
        let _it_runs = guest.0.kill();
        drop(guest);
        // What it still said before it was cut counts.
        for line in &lines {
            take(&line, &mut known, &mut number);
        }
        // Another guest goes on behind what this one had under way.
        number += 1;
        known.under_way = Some((place(number), number));
        if round % 2 == 1 {
            drop(server);
            (server, port) = serve(&path)?;
        }
        let copy = folder.join("copy");
        let _there_may_be_none = fs::remove_file(&copy);
        let uri = format!("nbd://127.0.0.1:{port}");
        run::run(&mut run::system("nbdcopy", &[&uri, &copy.display().to_string()]))?;
        let found = fs::read(&copy).map_err(context("cannot read the copy"))?;
        compared += known.compare(&found)?;
    }
    run::run(&mut run::system("kill", &["-TERM", &server.0.id().to_string()]))?;
    server.0.wait().map_err(context("cannot wait for the server"))?;
    run::run(&mut evenkeel(&["check", &path]))?;
    println!(
        "{rounds} guests cut, {} servers killed, {} places written with fsync and {compared} comparisons, all as they were \
         told; {:.0} s from power to the first write, {} s in all",
        rounds / 2,
        known.durable.len(),
        first_write_s / rounds.max(1) as f64,
        began.elapsed().as_secs()
    );
    Ok(())
}

/// Takes what a guest said; whether it was that a write is durable.
fn take(line: &str, known: &mut Known, number: &mut u64) -> bool {
    let Some(durable) = line.trim().strip_prefix("durable ").and_then(|text| text.parse::<u64>().ok()) else {
        return false;
    };
    *number = durable;
    known.durable.insert(place(durable), durable);
    true
}

fn evenkeel(args: &[&str]) -> Command {
    let mut command = Command::new(run::workspace_root().join("target/debug/evenkeel"));
    command.args(args).stdin(Stdio::null());
    command
}

/// A server of the volume, and its port.
fn serve(path: &str) -> Outcome<(Running, u16)> {
    let mut command = evenkeel(&["serve", path, "--nbd", "tcp:127.0.0.1:0"]);
    run::show(&command);
    let child = command.stdout(Stdio::piped()).spawn().map_err(context("cannot start the server"))?;
    let mut server = Running(child);
    let lines = said_by(&mut server.0)?;
    let ready = lines.iter().find(|line| line.starts_with("ready: "));
    let port = ready.as_ref().and_then(|line| line.trim_end_matches('/').rsplit(':').next()?.parse().ok());
    match port {
        Some(port) => Ok((server, port)),
        None => Err(Failure::Failed(format!("the server did not say its port: {ready:?}"))),
    }
}

/// A guest that writes what comes after `number`, and the lines that it says.
fn boot(kernel: &Kernel, image: &Path, port: u16, number: u64) -> Outcome<(Running, Receiver<String>)> {
    let append = format!("console=ttyS0 quiet panic=-1 port={port} number={number} places={PLACES}");
    let mut qemu = machine::qemu(kernel, image, 512, &append);
    run::show(&qemu);
    let qemu = qemu.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut guest = Running(qemu.map_err(context("cannot start QEMU"))?);
    let lines = said_by(&mut guest.0)?;
    Ok((guest, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_to_be_durable_has_to_be_there_and_what_was_under_way_may_be() {
        let (mut known, mut number) = (Known::default(), 0);
        for line in ["Linux version 6.1", "durable 1\r", "durable 2\r", "durable x"] {
            take(line, &mut known, &mut number);
        }
        assert_eq!((number, known.durable.len()), (2, 2));
        let mut bytes = vec![0; PLACES as usize * WRITE_BYTES];
        let write = |bytes: &mut Vec<u8>, number: u64| {
            let text = said(number);
            bytes[place(number) as usize * WRITE_BYTES..][..WRITE_BYTES].fill(b' ');
            bytes[place(number) as usize * WRITE_BYTES..][..text.len()].copy_from_slice(text.as_bytes());
        };
        write(&mut bytes, 1);
        assert!(known.compare(&bytes).is_err(), "the second is lost");
        write(&mut bytes, 2);
        known.under_way = Some((place(3), 3));
        assert!(matches!(known.compare(&bytes), Ok(2)));
        write(&mut bytes, 3);
        known.under_way = Some((place(3), 3));
        assert!(matches!(known.compare(&bytes), Ok(3)));
        bytes[place(3) as usize * WRITE_BYTES] = 0;
        assert!(known.compare(&bytes).is_err(), "it was there once");
    }
}
