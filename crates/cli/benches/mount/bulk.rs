//! What a file system costs where syncs are rare: a tree unpacked and looked at, and a large file written and read.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use evenkeel_host::kernel_setting::drop_caches;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use crate::places::Place;
use crate::process::run;
use crate::rounds::{extremes, median, order};
use crate::{Args, Outcome};

/// What is done, in this order.
const STEPS: [&str; 6] = ["untar", "git add", "git status", "write, fsync", "read", "rm -rf"];

/// Files of a folder of the tree.
const FILES_OF_FOLDER: usize = 20;
/// Bytes of a file of the tree, at least and at most: 64 MB in 5,000 files, as sources have them.
const FILE_BYTES: std::ops::RangeInclusive<usize> = 200..=25_400;

/// Measures and tells.
pub(crate) fn measure(places: &[Place], made_in: &Path, args: &Args) -> Outcome {
    let tree = made_in.join("tree.tar");
    make_tree(made_in, &tree, args)?;
    println!();
    println!(
        "A tree of {} files, and a file of {} MiB; {} rounds; seconds",
        args.tree_files, args.bulk_mib, args.rounds
    );
    let mut all: Vec<Vec<[f64; STEPS.len()]>> = vec![Vec::new(); places.len()];
    for round in 0..args.rounds {
        for at in order(places.len(), args.seed, round) {
            all[at].push(turn(&places[at], &tree, args)?);
        }
    }
    for (step, name) in STEPS.into_iter().enumerate() {
        println!();
        println!("{name:<15} {:>20} {:>24}", "seconds", "ratio");
        for (place, mine) in places.iter().zip(&all) {
            let seconds: Vec<f64> = mine.iter().map(|turn| turn[step]).collect();
            let ratios: Vec<f64> = all[0].iter().zip(&seconds).map(|(ours, it)| ours[step] / it).collect();
            let (least, most) = extremes(&seconds);
            let (least_ratio, most_ratio) = extremes(&ratios);
            println!(
                "  {:<13} {least:>8.2} to {most:>8.2} {:>8.2} ({least_ratio:.2} to {most_ratio:.2})",
                place.name,
                median(&ratios),
            );
        }
    }
    println!("ratio: seconds of {} to those of the other; median and extremes of the rounds", places[0].name);
    Ok(())
}

fn turn(place: &Place, tree: &Path, args: &Args) -> Outcome<[f64; STEPS.len()]> {
    place.begin()?;
    let folder = &place.folder;
    let mut took_s = [0.0; STEPS.len()];
    took_s[0] = timed(|| run(Command::new("tar").arg("xf").arg(tree).current_dir(folder)).map(drop))?;
    run(git().args(["init", "--quiet"]).current_dir(folder))?;
    took_s[1] = timed(|| run(git().args(["add", "--all"]).current_dir(folder)).map(drop))?;
    took_s[2] = timed(|| run(git().args(["status", "--short"]).current_dir(folder)).map(drop))?;
    place.settle();
    let large = folder.join("large");
    took_s[3] = timed(|| write_large(&large, args))?;
    place.settle();
    drop_caches().map_err(|error| format!("the page cache: {error}; `bulk` is run by root"))?;
    took_s[4] = timed(|| read_large(&large, args))?;
    took_s[5] =
        timed(|| fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display())))?;
    place.end()?;
    Ok(took_s)
}

fn timed(step: impl FnOnce() -> Outcome) -> Outcome<f64> {
    let began = Instant::now();
    step()?;
    Ok(began.elapsed().as_secs_f64())
}

/// git, with no configuration but its own.
fn git() -> Command {
    let mut git = Command::new("git");
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    git
}

/// Makes a tree of text, and an archive of it.
fn make_tree(made_in: &Path, archive: &Path, args: &Args) -> Outcome {
    let folder = made_in.join("tree");
    let mut random = StdRng::seed_from_u64(args.seed);
    let made = (0..args.tree_files).try_for_each(|number| {
        let part = folder.join(format!("part-{}", number / FILES_OF_FOLDER));
        if number % FILES_OF_FOLDER == 0 {
            fs::create_dir_all(&part)?;
        }
        let text: String =
            (0..random.random_range(FILE_BYTES)).map(|_| random.random_range('a'..='z')).collect();
        fs::write(part.join(format!("{number}.txt")), text)
    });
    made.map_err(|error| format!("{}: {error}", folder.display()))?;
    run(Command::new("tar").arg("cf").arg(archive).arg(".").current_dir(&folder))?;
    fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn write_large(at: &Path, args: &Args) -> Outcome {
    let mut bytes = vec![0; 1 << 20];
    StdRng::seed_from_u64(args.seed).fill_bytes(&mut bytes);
    let written = File::create(at).and_then(|mut file| {
        (0..args.bulk_mib).try_for_each(|number| {
            // No two parts are equal, so that nothing can leave one out.
            bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
            file.write_all(&bytes)
        })?;
        file.sync_all()
    });
    written.map_err(|error| format!("{}: {error}", at.display()))
}

fn read_large(at: &Path, args: &Args) -> Outcome {
    let mut bytes = vec![0; 1 << 20];
    let read = File::open(at).and_then(|mut file| {
        for number in 0..args.bulk_mib {
            file.read_exact(&mut bytes)?;
            assert_eq!(bytes[..8], (number as u64).to_le_bytes(), "what was written is read");
        }
        Ok(())
    });
    read.map_err(|error| format!("{}: {error}", at.display()))
}
