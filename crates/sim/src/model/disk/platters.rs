//! Where sectors lie on the platters, and how long it takes to get there.
//!
//! Tracks of one cylinder follow each other, then those of the next cylinder; each begins as much later on the
//! circle as changing to it takes, so that reading on costs that change and no lost rotation. Tracks get shorter
//! towards the inside, zone by zone.

use crate::model::SECTOR_BYTES;
use crate::model::flash::shape::ShapeError;

/// Zones of all disks here: enough for the bandwidth to fall in small steps.
const ZONES: u64 = 16;

/// A disk's parts and times.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskShape {
    /// Rotations a minute.
    pub rpm: u32,
    /// Surfaces with a head each.
    pub heads: u32,
    /// Bytes of a track of the outermost zone, and of the innermost.
    pub track_bytes: [u64; 2],
    /// A seek to the next cylinder, one of a third of the way (the mean), and one all the way.
    pub seek_ns: [u64; 3],
    /// Changing to another head.
    pub switch_ns: u64,
    /// What a write waits longer than a read until the head is settled after it moved.
    pub write_settle_ns: u64,
    /// RAM: track buffer, and write cache if that is on.
    pub cache_bytes: u64,
    /// Whether a write is done before it is on the platters.
    pub write_cache: bool,
    /// What the host's link moves.
    pub link_bytes_per_s: u64,
    /// What each command takes beside everything else.
    pub command_ns: u64,
    /// Requests among which the one that is reached first goes first.
    pub queue_depth: usize,
    /// Bytes that can be addressed.
    pub size_bytes: u64,
}

impl DiskShape {
    /// Whether a disk can be made of these parts, in any size.
    ///
    /// # Errors
    ///
    /// The first part that cannot be, in a line.
    pub fn check_parts(&self) -> Result<(), ShapeError> {
        const MS: u64 = 1_000_000;
        let within = |name: &str, value: u64, least: u64, most: u64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(ShapeError::parts(format!("{name} is {value}: it takes {least} to {most}"))),
        };
        within("rpm", u64::from(self.rpm), 100, 100_000)?;
        within("heads", u64::from(self.heads), 1, 64)?;
        for (name, bytes) in
            ["the outer track's bytes", "the inner track's bytes"].into_iter().zip(self.track_bytes)
        {
            within(name, bytes, 4096, 1 << 30)?;
            if !bytes.is_multiple_of(SECTOR_BYTES) {
                return Err(ShapeError::parts(format!("{name} are {bytes}: no whole sectors of 512 bytes")));
            }
        }
        let [outer, inner] = self.track_bytes;
        within("the inner track, in bytes,", inner, 4096, outer)?;
        let [next, mean, full] = self.seek_ns;
        within("the seek all the way, in nanoseconds,", full, 0, 1000 * MS)?;
        within("the mean seek, in nanoseconds,", mean, next, full)?;
        within("the seek to the next cylinder, in nanoseconds,", next, 0, mean)?;
        within("changing heads, in nanoseconds,", self.switch_ns, 0, 100 * MS)?;
        within("settling for a write, in nanoseconds,", self.write_settle_ns, 0, 100 * MS)?;
        within("the cache, in bytes,", self.cache_bytes, 1 << 20, 64 << 30)?;
        within("the link's bytes a second", self.link_bytes_per_s, 1_000, 1_000_000_000_000)?;
        within("a command, in nanoseconds,", self.command_ns, 0, 1000 * MS)?;
        within("queue_depth", self.queue_depth as u64, 1, 4096)
    }
}

#[derive(Debug, Clone)]
struct Zone {
    first_sector: u64,
    first_track: u64,
    sectors_a_track: u64,
}

/// The platters of a disk.
#[derive(Debug, Clone)]
pub(crate) struct Platters {
    zones: Vec<Zone>,
    heads: u64,
    cylinders: u64,
    pub(crate) rotation_ns: u64,
    seek_ns: [u64; 3],
    switch_ns: u64,
    write_settle_ns: u64,
}

/// Where a sector is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) track: u64,
    pub(crate) sector: u64,
    pub(crate) sectors_a_track: u64,
}

impl Platters {
    /// Platters for `shape.size_bytes`: the zones keep their tracks' lengths and their share of the cylinders.
    pub(crate) fn new(shape: &DiskShape) -> Self {
        let heads = u64::from(shape.heads);
        let [outer, inner] = shape.track_bytes.map(|bytes| bytes / SECTOR_BYTES);
        let lengths: Vec<u64> = (0..ZONES).map(|zone| outer - (outer - inner) * zone / (ZONES - 1)).collect();
        let sectors = shape.size_bytes.div_ceil(SECTOR_BYTES);
        let cylinders_a_zone = sectors.div_ceil(lengths.iter().sum::<u64>() * heads).max(1);
        let (mut first_sector, mut zones) = (0, Vec::new());
        for (number, &sectors_a_track) in lengths.iter().enumerate() {
            let first_track = number as u64 * cylinders_a_zone * heads;
            zones.push(Zone { first_sector, first_track, sectors_a_track });
            first_sector += cylinders_a_zone * heads * sectors_a_track;
        }
        Self {
            zones,
            heads,
            cylinders: cylinders_a_zone * ZONES,
            rotation_ns: 60_000_000_000 / u64::from(shape.rpm),
            seek_ns: shape.seek_ns,
            switch_ns: shape.switch_ns,
            write_settle_ns: shape.write_settle_ns,
        }
    }

    pub(crate) fn place(&self, sector: u64) -> Place {
        let zone = self.zones.partition_point(|zone| zone.first_sector <= sector) - 1;
        let Zone { first_sector, first_track, sectors_a_track } = self.zones[zone];
        let within = sector - first_sector;
        Place {
            track: first_track + within / sectors_a_track,
            sector: within % sectors_a_track,
            sectors_a_track,
        }
    }

    /// A seek between tracks. From one cylinder to the next the time of that; then with the square root of the way
    /// up to a third of it, and evenly from there (Ruemmler and Wilkes, An introduction to disk drive modeling,
    /// 1994). Ways are parts of the whole, so that a scaled disk has the seeks of the real one.
    fn seek(&self, from: u64, to: u64) -> u64 {
        let way = (from / self.heads).abs_diff(to / self.heads);
        if way == 0 {
            return if from == to { 0 } else { self.switch_ns };
        }
        let [next, third, whole] = self.seek_ns.map(|ns| ns as f64);
        let part = way as f64 / self.cylinders.max(2) as f64;
        let ns = if part < 1.0 / 3.0 {
            next + (third - next) * (3.0 * part).sqrt()
        } else {
            third + (whole - third) * (part - 1.0 / 3.0) * 1.5
        };
        ns as u64
    }

    /// Where on the circle a sector begins, in time since the index mark.
    fn angle_ns(&self, place: Place) -> u64 {
        let skew = place.track * self.switch_ns;
        (place.sector * self.rotation_ns / place.sectors_a_track + skew) % self.rotation_ns
    }

    /// When the head, on `track` at `now_ns`, begins to pass over the sector.
    pub(crate) fn reach(&self, track: u64, now_ns: u64, sector: u64, is_write: bool) -> u64 {
        let place = self.place(sector);
        let seek = self.seek(track, place.track);
        // Where it has not moved, it has nothing to settle from: a write that waits follows the one before it.
        let settle = if is_write && seek > 0 { self.write_settle_ns } else { 0 };
        let there = now_ns + seek + settle;
        let wait = (self.angle_ns(place) + self.rotation_ns - there % self.rotation_ns) % self.rotation_ns;
        there + wait
    }

    /// How long passing over so many sectors takes, and on which track it ends.
    pub(crate) fn pass(&self, sector: u64, sectors: u64) -> (u64, u64) {
        let (mut ns, mut at, mut left) = (0, sector, sectors);
        loop {
            let place = self.place(at);
            let here = left.min(place.sectors_a_track - place.sector);
            ns += here * self.rotation_ns / place.sectors_a_track;
            at += here;
            left -= here;
            if left == 0 {
                return (ns, place.track);
            }
            ns += self.switch_ns;
        }
    }
}
