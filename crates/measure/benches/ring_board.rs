//! Reads and writes of mirrors under the policies, in virtual time, a line for each cell:
//! `cargo xtask bench ring-board -- [PRESET]... [load=NAME|FILE,...] [members=N,...] [share=X,...] [policy=NAME,...]
//! [seconds=N] [reads=N] [speed=X] [volume=MIB] [fills=1] [log=members] [stripes=K+M]`, or with
//! `clients=N [bytes=MIN-MAX] [flushes=1] [reads_per_s=N]` in place of loads.
//!
//! Loads are `postmark`, `tpcc` and `bursts`, or files with traces. A load is played so fast that its writes are this
//! share of what turns can take home by the paper's bound: W_sep = w (N - 1) / N, where w is what the drives take of these
//! writes alone. `speed=X` plays it so many times as fast as it is instead. `fills=1` tells what `auto` takes of writes alone.
//!
//! `stripes=4+2` has a volume of stripes on as many members; of those W_sep = w N (q - 1) / q^2, where q = N / K.
//! `log=members` puts the log on the members. `clients=N` has so many clients that wait each for its own write, durable or
//! with a flush behind it, of these bytes, beside so many reads of 4 KiB in a second.
//!
//! A cell has: reads at 99.9 %, in ms and over the same without writes; writes at 50 % and 99 %, in ms; bytes a second
//! that were home in the end, the time until they were counted; the longest reply to any request, in s; the share of
//! the time in which no member was kept for reads alone.

#![allow(clippy::print_stdout, reason = "a benchmark's output is its figures")]

use std::path::Path;

use evenkeel_engine::format::stripes::Stripes;
use evenkeel_engine::ring::Policy;
use evenkeel_measure::reproduce::mirrors::bed::Plan;
use evenkeel_measure::reproduce::mirrors::clients::{Clients, Wrote};
use evenkeel_measure::reproduce::mirrors::made::Made;
use evenkeel_measure::reproduce::mirrors::stage::Stage;
use evenkeel_measure::reproduce::mirrors::trace::{Played, Requests};

/// Policies by name.
const POLICIES: [(&str, Policy); 3] =
    [("turns", Policy::Turns), ("mixed", Policy::Mixed), ("auto", Policy::Auto)];

/// Seconds of writes alone from which w is taken.
const FLOOD_SECONDS: u64 = 20;

/// What is asked for.
struct Wanted {
    presets: Vec<String>,
    loads: Vec<String>,
    members: Vec<usize>,
    shares: Vec<f64>,
    policies: Vec<String>,
    seconds: u64,
    reads: u64,
    speed: Option<f64>,
    fills: bool,
    volume_bytes: u64,
    log_on_members: bool,
    clients: Option<Clients>,
    stripes: Option<Stripes>,
}

/// Stripes as `4+2`, of shards of 64 KiB.
fn stripes(words: &str) -> Stripes {
    let (data, parity) = words.split_once('+').expect("stripes=K+M");
    let number = |word: &str| word.parse().expect("stripes=K+M");
    Stripes::new(number(data), number(parity), 64 << 10).expect("stripes that there are")
}

fn several<T: std::str::FromStr>(words: &str) -> Vec<T> {
    let one = |word: &str| word.parse().ok().unwrap_or_else(|| panic!("{word}: not what is expected here"));
    words.split(',').map(one).collect()
}

impl Wanted {
    fn of(words: impl Iterator<Item = String>) -> Self {
        let mut wanted = Self {
            presets: Vec::new(),
            loads: Made::ALL.map(|made| made.name().to_owned()).into(),
            members: vec![2],
            shares: vec![0.7, 1.3],
            policies: POLICIES.map(|(name, _)| name.to_owned()).into(),
            seconds: 30,
            reads: 20_000,
            speed: None,
            fills: false,
            volume_bytes: 256 << 20,
            log_on_members: false,
            clients: None,
            stripes: None,
        };
        let mut clients =
            Clients { clients: 0, bytes: (1 << 20, 1 << 20), flushes: false, reads_per_s: 100, seconds: 0 };
        for word in words.filter(|word| !word.starts_with('-')) {
            match word.split_once('=') {
                Some(("load", names)) => wanted.loads = several(names),
                Some(("members", numbers)) => wanted.members = several(numbers),
                Some(("share", numbers)) => wanted.shares = several(numbers),
                Some(("policy", names)) => wanted.policies = several(names),
                Some(("seconds", number)) => wanted.seconds = number.parse().expect("seconds=N"),
                Some(("reads", number)) => wanted.reads = number.parse().expect("reads=N"),
                Some(("fills", word)) => wanted.fills = word == "1",
                Some(("speed", number)) => wanted.speed = Some(number.parse().expect("speed=X")),
                Some(("volume", mib)) => wanted.volume_bytes = mib.parse::<u64>().expect("volume=MIB") << 20,
                Some(("log", place)) => wanted.log_on_members = place == "members",
                Some(("clients", number)) => clients.clients = number.parse().expect("clients=N"),
                Some(("stripes", words)) => wanted.stripes = Some(stripes(words)),
                Some(("bytes", range)) => {
                    let (least, most) = range.split_once('-').unwrap_or((range, range));
                    clients.bytes =
                        (least.parse().expect("bytes=MIN-MAX"), most.parse().expect("bytes=MIN-MAX"));
                }
                Some(("flushes", word)) => clients.flushes = word == "1",
                Some(("reads_per_s", number)) => clients.reads_per_s = number.parse().expect("reads_per_s=N"),
                Some((name, _)) => panic!("{name}: the options are at the head of ring_board.rs"),
                None => wanted.presets.push(word),
            }
        }
        clients.seconds = wanted.seconds;
        wanted.clients = Some(clients).filter(|clients| clients.clients > 0);
        if let Some(stripes) = wanted.stripes {
            wanted.members = vec![stripes.members()];
        }
        if wanted.presets.is_empty() {
            wanted.presets = ["sata-2011", "sata-2008", "nvme-mlc"].map(str::to_owned).into();
        }
        wanted
    }
}

fn requests(load: &str, volume_bytes: u64) -> Requests {
    match Made::find(load) {
        Some(made) => made.requests(volume_bytes, 11),
        None => Requests::read(Path::new(load), volume_bytes).expect("the name of a load, or a trace"),
    }
}

fn told(cell: &str, name: &str, played: &Played, alone: &Played) {
    let p999 = played.reads.quantile_s(0.999);
    println!(
        "{cell} {name:<6} | {:>8.2} {:>7.2} | {:>8.2} {:>9.2} | {:>6.1} | {:>6.2} | {:>5.1} %{}",
        p999 * 1e3,
        p999 / alone.reads.quantile_s(0.999),
        played.writes.quantile_s(0.5) * 1e3,
        played.writes.quantile_s(0.99) * 1e3,
        played.home_bytes_per_s() / 1e6,
        played.longest_s(),
        played.mixed_share * 100.0,
        if played.is_overrun { " | given up: more came than it took" } else { "" },
    );
}

fn told_of_clients(cell: &str, wrote: &Wrote) {
    println!(
        "{cell} | {:>8.2} | {:>8.2} {:>9.2} | {:>6.1} {:>6.1} | {:>6.2}",
        wrote.reads.quantile_s(0.999) * 1e3,
        wrote.writes.quantile_s(0.5) * 1e3,
        wrote.writes.quantile_s(0.99) * 1e3,
        wrote.done_bytes_per_s / 1e6,
        wrote.home_bytes_per_s / 1e6,
        wrote.writes.longest_s().max(wrote.reads.longest_s()),
    );
}

/// Cells of clients, in place of loads.
fn clients(wanted: &Wanted, clients: Clients) {
    println!(
        "drive, members; policy | reads 99.9 %, ms | writes 50 %, 99 %, ms | MB/s done, home | longest, s"
    );
    for preset in &wanted.presets {
        for &members in &wanted.members {
            let stage = stage(preset, members, "tpcc", wanted);
            for (name, policy) in POLICIES {
                if wanted.policies.iter().any(|one| one == name) {
                    let wrote = stage.write_by_clients(policy, clients).expect("a life");
                    told_of_clients(&format!("{preset} {members} {name:<6}"), &wrote);
                }
            }
        }
    }
}

fn stage(preset: &str, members: usize, load: &str, wanted: &Wanted) -> Stage {
    let requests = requests(load, wanted.volume_bytes);
    let plan = match wanted.stripes {
        Some(stripes) => Plan::striped(preset, stripes, wanted.volume_bytes, 7),
        None => Plan {
            log_on_members: wanted.log_on_members,
            ..Plan::of(preset, members, wanted.volume_bytes, 7)
        },
    };
    Stage::on(plan, requests).expect("drives of that name")
}

fn cells(stage: &Stage, about: &str, wanted: &Wanted) {
    let own_bytes_per_s = stage.requests().write_bytes_per_s();
    let speeds: Vec<(String, f64)> = match wanted.speed {
        Some(speed) => vec![(format!("x{speed}"), speed)],
        None => {
            let rate = |policy| stage.write_rate(policy, FLOOD_SECONDS).expect("a life");
            let w = rate(Policy::Mixed);
            let bound = w * stage.plan().separated_share();
            let auto = match wanted.fills {
                true => format!(", auto = {:.1} MB/s", rate(Policy::Auto) / 1e6),
                false => String::new(),
            };
            println!("# {about}: w = {:.1} MB/s{auto}, W_sep = {:.1} MB/s", w / 1e6, bound / 1e6);
            wanted.shares.iter().map(|&share| (share.to_string(), share * bound / own_bytes_per_s)).collect()
        }
    };
    for (share, speed) in speeds {
        let play = |policy, reads_only| {
            let seconds = if reads_only { 0 } else { wanted.seconds };
            stage.play(policy, speed, wanted.reads, seconds, reads_only).expect("a life")
        };
        let alone = play(Policy::Turns, true);
        for (name, policy) in POLICIES {
            if wanted.policies.iter().any(|one| one == name) {
                told(&format!("{about:<24} {share:>5}"), name, &play(policy, false), &alone);
            }
        }
    }
}

fn main() {
    let wanted = Wanted::of(std::env::args().skip(1));
    if let Some(each) = wanted.clients {
        return clients(&wanted, each);
    }
    println!(
        "drive, members, load; share of W_sep; policy | reads 99.9 %, ms, times | writes 50 %, 99 %, ms | MB/s | longest, s | mixed"
    );
    for preset in &wanted.presets {
        for &members in &wanted.members {
            for load in &wanted.loads {
                let stage = stage(preset, members, load, &wanted);
                let name = Path::new(load).file_stem().unwrap_or_default().to_string_lossy().into_owned();
                cells(&stage, &format!("{preset} {members} {name}"), &wanted);
            }
        }
    }
}
