//! Loads that are made up: what a mail server, a database and a file server ask of a disk, about.
//!
//! 1. The same load and seed give the same requests.
//! 2. Requests come at chance times with a mean rate, and in bursts where the load has some. Writes are durable.

use evenkeel_sim::random::Random;

use super::trace::{Request, Requests};

/// Requests of a round.
const REQUESTS: usize = 20_000;

/// Mean time between two requests at the load's own speed.
const INTERVAL_NS: f64 = 2e6;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// A kind of load that can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// Small files that are made, read, grown and removed at random, each with its directory, as Postmark does.
    Postmark,
    /// Pages of 8 KiB, a few of them asked for most, and a sequential log, as TPC-C does.
    Tpcc,
    /// Little for a while; then many reads at once, or many large writes.
    Bursts,
}

impl Made {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Postmark, Self::Tpcc, Self::Bursts];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Postmark => "postmark",
            Self::Tpcc => "tpcc",
            Self::Bursts => "bursts",
        }
    }

    /// That of a name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|made| made.name() == name)
    }

    /// A round of it on a volume of so many bytes.
    pub fn requests(self, volume_bytes: u64, seed: u64) -> Requests {
        let mut draw = Draw { random: Random::new(seed), at_ns: 0, volume_bytes, all: Vec::new() };
        while draw.all.len() < REQUESTS {
            match self {
                Self::Postmark => draw.postmark(),
                Self::Tpcc => draw.tpcc(),
                Self::Bursts => draw.bursts(),
            }
        }
        draw.all.sort_by_key(|request| request.at_ns);
        Requests::new(draw.all, volume_bytes)
    }
}

struct Draw {
    random: Random,
    at_ns: u64,
    volume_bytes: u64,
    all: Vec<Request>,
}

impl Draw {
    fn pass(&mut self, mean_ns: f64) {
        self.at_ns += (-mean_ns * (1.0 - self.random.unit()).ln()) as u64;
    }

    fn push(&mut self, is_read: bool, offset: u64, len: u64) {
        let offset = offset % (self.volume_bytes - (1 << 20));
        self.all.push(Request { at_ns: self.at_ns, is_read, offset, len: len as u32 });
    }

    fn anywhere(&mut self) -> u64 {
        self.random.below(self.volume_bytes / PAGE) * PAGE
    }

    /// A transaction: a file is read or grown, and one is made or removed.
    fn postmark(&mut self) {
        let file_bytes = (1 + self.random.below(20)) * 512;
        let file = self.anywhere();
        self.pass(INTERVAL_NS);
        match self.random.coin() {
            true => self.push(true, file, file_bytes),
            false => self.push(false, file, file_bytes),
        }
        self.pass(INTERVAL_NS);
        // Its entry, in one of the directories of the first sixteenth; and the file, if it is new.
        let directory = self.random.below(self.volume_bytes / 16 / PAGE) * PAGE;
        self.push(true, directory, PAGE);
        let entry = directory + self.random.below(8) * 512;
        self.push(false, entry, 128);
        if self.random.coin() {
            let (made, made_bytes) = (self.anywhere(), (1 + self.random.below(20)) * 512);
            self.push(false, made, made_bytes);
        }
        self.pass(INTERVAL_NS);
        let other = self.anywhere();
        self.push(true, other, file_bytes);
    }

    /// A transaction: pages are read, some of them written back later, and the log gets a record.
    fn tpcc(&mut self) {
        const LOG_SHARE: u64 = 16;
        let pages = self.volume_bytes / 8192;
        for _ in 0..1 + self.random.below(4) {
            self.pass(INTERVAL_NS);
            // Four fifths of them in a fifth of the pages.
            let hot = self.random.chance(0.8);
            let page = if hot { self.random.below(pages / 5) } else { self.random.below(pages) };
            self.push(true, page * 8192, 8192);
            if self.random.chance(0.4) {
                self.push(false, page * 8192, 8192);
            }
        }
        let log_bytes = self.volume_bytes / LOG_SHARE;
        let record = 512 * (1 + self.random.below(8));
        let at = self.all.len() as u64 * 2048 % log_bytes;
        self.push(false, at, record);
    }

    fn bursts(&mut self) {
        for _ in 0..300 {
            self.pass(INTERVAL_NS);
            let (at, is_read) = (self.anywhere(), self.random.chance(0.7));
            self.push(is_read, at, PAGE);
        }
        let is_read = self.random.coin();
        let (requests, len) = if is_read { (400, 16 << 10) } else { (100, 64 << 10) };
        for _ in 0..requests {
            self.pass(INTERVAL_NS / 50.0);
            let at = self.anywhere();
            self.push(is_read, at, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_has_reads_and_writes_and_is_the_same_for_the_same_seed() {
        for made in Made::ALL {
            let requests = made.requests(64 << 20, 3);
            let (reads, writes) = requests.counts();
            assert!(
                reads >= REQUESTS / 4 && writes >= REQUESTS / 5,
                "{made:?}: {reads} reads, {writes} writes"
            );
            assert!(requests.write_bytes_per_s() > 0.0);
            assert_eq!(format!("{requests:?}"), format!("{:?}", made.requests(64 << 20, 3)));
            assert_ne!(format!("{requests:?}"), format!("{:?}", made.requests(64 << 20, 4)));
            assert_eq!(Made::find(made.name()), Some(made));
        }
    }
}
