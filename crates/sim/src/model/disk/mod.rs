//! A disk: one arm over turning platters, a track buffer, and a write cache that can be off.
//!
//! 1. The arm does one thing at a time. Of the requests in the disk's queue, what it reaches first goes first, but once the
//!    first of them has been passed over for [`PATIENCE_NS`], it is the next. What the queue has no place for waits at the
//!    host, in the order of coming, and that time does not count: the disk does not know of it.
//! 2. After a read the disk reads on into the track buffer until the arm is needed elsewhere; reads of what is there
//!    need no arm.
//! 3. With the write cache on a write is done when it is in the cache, and goes to the platters when the arm has
//!    nothing else to do, when the cache is half full, or when a flush asks for it. Durable writes go to the
//!    platters themselves.
//! 4. After a power cut what was only in the cache is gone. Of a write under the head the sectors passed are written,
//!    the one below it is torn, and the others are as before.

mod platters;
pub(crate) mod presets;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub use platters::DiskShape;

use super::store::{ByteStore, Bytes};
use super::{Completion, Model, Operation, Request, SECTOR_BYTES, Storage};
use crate::random::Random;
use crate::sparse::SparseBytes;
use platters::Platters;

/// How long a request in the disk's queue may be passed over. Firmware bounds that, or the edges of the platters starve
/// under load; no maker of these disks states the time. Half a second is what Linux's deadline scheduler grants a read.
pub const PATIENCE_NS: u64 = 500_000_000;

/// What crosses the link before or after the head passes; the rest crosses meanwhile.
const STREAMED_BYTES: u64 = 64 << 10;

/// A range of sectors, first and end.
type Sectors = (u64, u64);

/// What the arm does.
#[derive(Debug, Clone)]
struct Pass {
    /// The request; `None` for what goes from the cache to the platters.
    job: Option<Job>,
    sectors: Sectors,
    /// Of what comes from the cache, when it came there.
    since: u64,
    begins_ns: u64,
    ends_ns: u64,
}

#[derive(Debug, Clone)]
struct Job {
    request: Request,
    /// Since when it is in the disk's queue, once it is.
    queued_ns: Option<u64>,
    bytes: Option<Vec<u8>>,
}

/// A disk.
#[derive(Debug, Clone)]
pub struct Disk {
    shape: DiskShape,
    platters: Platters,
    now_ns: u64,
    link_free_ns: u64,
    /// Requests on their way in, and when they are there.
    arrivals: VecDeque<(u64, Job)>,
    /// What waits for the arm, in the order of arrival.
    queue: VecDeque<Job>,
    /// Writes that wait for room in the cache.
    crowded: VecDeque<Job>,
    /// Flushes under way, and up to which number of the cache's counter.
    flushes: Vec<(Request, u64)>,
    pass: Option<Pass>,
    track: u64,
    /// What is only in the cache: by first sector its end and the number of the write that came first.
    dirty: BTreeMap<u64, (u64, u64)>,
    dirty_sectors: u64,
    accepted: u64,
    /// What the track buffer holds, and since when the arm reads on; `None`: it does not any more.
    buffered: Sectors,
    reads_on_since_ns: Option<u64>,
    done: BTreeMap<(u64, u64), u64>,
    done_count: u64,
    /// What a read finds, and what is on the platters.
    contents: Option<[Bytes; 2]>,
}

impl Disk {
    /// A disk that was never written.
    pub fn new(shape: DiskShape) -> Self {
        assert!(shape.size_bytes > 0 && shape.size_bytes.is_multiple_of(SECTOR_BYTES), "no whole sectors");
        Self {
            platters: Platters::new(&shape),
            now_ns: 0,
            link_free_ns: 0,
            arrivals: VecDeque::new(),
            queue: VecDeque::new(),
            crowded: VecDeque::new(),
            flushes: Vec::new(),
            pass: None,
            track: 0,
            dirty: BTreeMap::new(),
            dirty_sectors: 0,
            accepted: 0,
            buffered: (0, 0),
            reads_on_since_ns: None,
            done: BTreeMap::new(),
            done_count: 0,
            contents: None,
            shape,
        }
    }

    /// What it is made of.
    pub fn shape(&self) -> &DiskShape {
        &self.shape
    }

    /// From now on bytes are kept: what was written before reads as zeros.
    pub fn keep_contents(&mut self) {
        let zeros = SparseBytes::new(self.shape.size_bytes);
        self.contents = Some([Bytes::Here(zeros.clone()), Bytes::Here(zeros)]);
    }

    /// As [`Self::keep_contents`], but in `store`, in twice the bytes of the disk. A clone of the disk shares it: only one
    /// of them may go on.
    pub fn keep_contents_in(&mut self, store: Arc<dyn ByteStore>) {
        let found = Bytes::Elsewhere { store: Arc::clone(&store), base: 0 };
        self.contents = Some([found, Bytes::Elsewhere { store, base: self.shape.size_bytes }]);
    }

    fn enter(&mut self, now_ns: u64, request: Request, bytes: Option<&[u8]>) {
        assert!(
            now_ns >= self.now_ns && self.next_event_ns().is_none_or(|next| next >= now_ns),
            "time runs forwards"
        );
        let Request { offset, len, .. } = request;
        let is_sound = offset.is_multiple_of(SECTOR_BYTES) && len.is_multiple_of(SECTOR_BYTES);
        assert!(is_sound, "{request:?} is not made of whole sectors");
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.shape.size_bytes),
            "{request:?} lies outside"
        );
        self.now_ns = now_ns;
        let (in_bytes, first_bytes) = match request.operation {
            Operation::Write if self.shape.write_cache => (len, len),
            // The head can write the beginning while the rest crosses the link.
            Operation::Write | Operation::DurableWrite => (len, len.min(STREAMED_BYTES)),
            _ => (0, 0),
        };
        let at_ns = self.link(now_ns + self.shape.command_ns, first_bytes);
        self.link(at_ns, in_bytes - first_bytes);
        let job = Job { request, queued_ns: None, bytes: bytes.map(<[u8]>::to_vec) };
        self.arrivals.push_back((at_ns, job));
    }

    /// When so many bytes have crossed the link, from `from_ns` on, after what crosses it already.
    fn link(&mut self, from_ns: u64, bytes: u64) -> u64 {
        self.link_free_ns =
            self.link_free_ns.max(from_ns) + bytes * 1_000_000_000 / self.shape.link_bytes_per_s;
        self.link_free_ns
    }

    fn complete(&mut self, tag: u64, at_ns: u64) {
        self.done.insert((at_ns, self.done_count), tag);
        self.done_count += 1;
    }

    fn arrive(&mut self, job: Job) {
        let request = job.request;
        let sectors = sectors_of(&request);
        match request.operation {
            Operation::Read => {
                self.read_on();
                let is_dirty =
                    self.dirty.range(..=sectors.0).next_back().is_some_and(|(_, &(end, _))| end >= sectors.1);
                let is_buffered = self.buffered.0 <= sectors.0 && sectors.1 <= self.buffered.1;
                if is_dirty || is_buffered {
                    let at_ns = self.link(self.now_ns, request.len);
                    self.complete(request.tag, at_ns);
                } else {
                    self.queue.push_back(job);
                }
            }
            Operation::Write if self.shape.write_cache && !self.is_queued(sectors) => {
                self.crowded.push_back(job);
                self.accept();
            }
            Operation::Write | Operation::DurableWrite => self.queue.push_back(job),
            Operation::Flush | Operation::FlushRange | Operation::FlushStream => {
                self.flushes.push((request, self.accepted));
                self.finish_flushes();
            }
            Operation::Discard => self.complete(request.tag, self.now_ns),
        }
    }

    /// Whether the range shares a sector with what waits for the arm or is under it: such requests keep their order.
    fn is_queued(&self, sectors: Sectors) -> bool {
        let under_way = self.pass.iter().filter_map(|pass| pass.job.as_ref());
        self.queue.iter().chain(under_way).any(|job| overlap(sectors_of(&job.request), sectors))
    }

    /// Lets writes into the cache, in order, as long as there is room.
    fn accept(&mut self) {
        while let Some(job) = self.crowded.front() {
            let (first, end) = sectors_of(&job.request);
            let room = self.shape.cache_bytes / SECTOR_BYTES;
            if self.dirty_sectors > 0 && self.dirty_sectors + end - first > room {
                break;
            }
            let job = self.crowded.pop_front().expect("seen above");
            self.accepted += 1;
            self.write_bytes(&job, false);
            if end > first {
                self.add_dirty(first, end);
            }
            self.complete(job.request.tag, self.now_ns);
        }
    }

    /// Puts a range among what is only in the cache, together with what it touches.
    fn add_dirty(&mut self, first: u64, end: u64) {
        let (mut first, mut end, mut since) = (first, end, self.accepted);
        while let Some((&other, &(other_end, other_since))) = self.dirty.range(..=end).next_back() {
            if other_end < first {
                break;
            }
            self.dirty.remove(&other);
            self.dirty_sectors -= other_end - other;
            (first, end, since) = (first.min(other), end.max(other_end), since.min(other_since));
        }
        self.dirty.insert(first, (end, since));
        self.dirty_sectors += end - first;
    }

    /// Whether a flush under way waits for this part of the cache.
    fn is_wanted(&self, sectors: Sectors, since: u64) -> bool {
        self.flushes.iter().any(|(request, until)| {
            let (first, end) = sectors_of(request);
            let is_of_range =
                request.operation != Operation::FlushRange || sectors.0 < end && first < sectors.1;
            since <= *until && is_of_range
        })
    }

    fn finish_flushes(&mut self) {
        let flushes = std::mem::take(&mut self.flushes);
        for flush in flushes {
            self.flushes.push(flush);
            let in_cache = self.dirty.iter().map(|(&first, &(end, since))| ((first, end), since));
            let under_way =
                self.pass.iter().filter(|pass| pass.job.is_none()).map(|pass| (pass.sectors, pass.since));
            let last = self.flushes.split_off(self.flushes.len() - 1);
            let others = std::mem::replace(&mut self.flushes, last);
            let waits = in_cache
                .chain(under_way)
                .collect::<Vec<_>>()
                .iter()
                .any(|&(at, since)| self.is_wanted(at, since));
            let last = std::mem::replace(&mut self.flushes, others);
            if waits {
                self.flushes.extend(last);
            } else {
                self.complete(flush.0.tag, self.now_ns);
            }
        }
    }

    /// The track buffer as it is now.
    fn read_on(&mut self) {
        let Some(since_ns) = self.reads_on_since_ns else { return };
        // A part of the cache for reading on, as disks divide it.
        let room = self.shape.cache_bytes / 4 / SECTOR_BYTES;
        let all = self.shape.size_bytes / SECTOR_BYTES;
        let (first, end) = self.buffered;
        let a_track = self.platters.place(end.min(all - 1)).sectors_a_track;
        let passed = (self.now_ns - since_ns) * a_track / self.platters.rotation_ns;
        let new_end = (end + passed).min(all);
        if passed > 0 {
            self.buffered = (first.max(new_end.saturating_sub(room)), new_end);
            let (took_ns, track) = self.platters.pass(end.min(all - 1), (new_end - end).max(1));
            self.track = track;
            self.reads_on_since_ns = Some(since_ns + took_ns.min(self.now_ns - since_ns));
        }
    }

    /// Gives the arm the next thing to do, if there is one.
    fn dispatch(&mut self) {
        if self.pass.is_some() {
            return;
        }
        self.read_on();
        let depth = self.queue.len().min(self.shape.queue_depth);
        let now_ns = self.now_ns;
        self.queue.iter_mut().take(depth).for_each(|job| {
            job.queued_ns.get_or_insert(now_ns);
        });
        let reach =
            |sectors: Sectors, is_write| self.platters.reach(self.track, self.now_ns, sectors.0, is_write);
        let mut best: Option<(u64, Option<usize>, Sectors, u64)> = None;
        for (number, job) in self.queue.iter().take(depth).enumerate() {
            let sectors = sectors_of(&job.request);
            if self.queue.iter().take(number).any(|before| overlap(sectors_of(&before.request), sectors)) {
                continue;
            }
            let is_read = job.request.operation == Operation::Read;
            let at_ns =
                if is_read && self.comes_under(sectors) { self.now_ns } else { reach(sectors, !is_read) };
            if best.is_none_or(|best| at_ns < best.0) {
                best = Some((at_ns, Some(number), sectors, 0));
            }
            if number == 0 && job.queued_ns.is_some_and(|since_ns| since_ns + PATIENCE_NS < now_ns) {
                break;
            }
        }
        let is_crowded =
            !self.crowded.is_empty() || self.dirty_sectors * SECTOR_BYTES * 2 > self.shape.cache_bytes;
        for (&first, &(end, since)) in &self.dirty {
            let is_due =
                is_crowded || best.is_none_or(|best| best.1.is_none()) || self.is_wanted((first, end), since);
            if !is_due {
                continue;
            }
            let at_ns = reach((first, end), true);
            if best.is_none_or(|best| at_ns < best.0) {
                best = Some((at_ns, None, (first, end), since));
            }
        }
        let Some((begins_ns, number, sectors, since)) = best else { return };
        let job = number.and_then(|number| self.queue.remove(number));
        if job.is_none() {
            self.dirty.remove(&sectors.0);
        }
        let is_read = job.as_ref().is_some_and(|job| job.request.operation == Operation::Read);
        // What the head has passed already is in the buffer.
        let from = if is_read && self.comes_under(sectors) { self.buffered.1 } else { sectors.0 };
        if from == sectors.0 {
            self.buffered = (from, from);
        }
        self.reads_on_since_ns = None;
        let (ns, track) = self.platters.pass(from, (sectors.1 - from).max(1));
        self.track = track;
        self.pass = Some(Pass { job, sectors, since, begins_ns, ends_ns: begins_ns + ns });
    }

    /// Whether a range begins in the track buffer or right after it, and the arm reads on there.
    fn comes_under(&self, sectors: Sectors) -> bool {
        self.reads_on_since_ns.is_some()
            && self.buffered.0 <= sectors.0
            && sectors.0 <= self.buffered.1
            && self.buffered.1 < sectors.1
    }

    fn finish_pass(&mut self) {
        let Pass { job, sectors, .. } = self.pass.take().expect("a pass was due");
        match job {
            Some(job) if job.request.operation == Operation::Read => {
                self.buffered.1 = sectors.1;
                self.reads_on_since_ns = Some(self.now_ns);
                // What came before has crossed the link while the head was passing.
                let at_ns = self.link(self.now_ns, job.request.len.min(STREAMED_BYTES));
                self.complete(job.request.tag, at_ns);
            }
            Some(job) => {
                self.write_bytes(&job, true);
                self.complete(job.request.tag, self.now_ns);
            }
            None => {
                self.dirty_sectors -= sectors.1 - sectors.0;
                self.copy_to_platters(sectors);
                self.accept();
                self.finish_flushes();
            }
        }
    }

    fn write_bytes(&mut self, job: &Job, to_platters: bool) {
        let (Some([found, platters]), Some(bytes)) = (&mut self.contents, &job.bytes) else { return };
        found.write(job.request.offset, bytes);
        if to_platters {
            platters.write(job.request.offset, bytes);
        }
    }

    fn copy_to_platters(&mut self, (first, end): Sectors) {
        let Some([found, platters]) = &mut self.contents else { return };
        let mut bytes = vec![0; ((end - first) * SECTOR_BYTES) as usize];
        found.read(first * SECTOR_BYTES, &mut bytes);
        platters.write(first * SECTOR_BYTES, &bytes);
    }

    /// Leaves the write under the head as a power cut does.
    fn tear_pass(&mut self, random: &mut Random) {
        let Some(pass) = self.pass.take() else { return };
        let is_read = pass.job.as_ref().is_some_and(|job| job.request.operation == Operation::Read);
        if is_read || self.now_ns <= pass.begins_ns {
            return;
        }
        let Some([found, platters]) = &mut self.contents else { return };
        let (first, end) = pass.sectors;
        let mut new = vec![0; ((end - first) * SECTOR_BYTES) as usize];
        match pass.job.and_then(|job| job.bytes) {
            Some(bytes) => new = bytes,
            None => found.read(first * SECTOR_BYTES, &mut new),
        }
        let (took_ns, whole_ns) = (self.now_ns - pass.begins_ns, (pass.ends_ns - pass.begins_ns).max(1));
        let passed = ((end - first) * took_ns / whole_ns) as usize * SECTOR_BYTES as usize;
        platters.write(first * SECTOR_BYTES, &new[..passed]);
        if passed < new.len() {
            let mut torn = [0; SECTOR_BYTES as usize];
            platters.read(first * SECTOR_BYTES + passed as u64, &mut torn);
            let arrived = random.index(SECTOR_BYTES as usize / 8) * 8;
            torn[..arrived].copy_from_slice(&new[passed..passed + arrived]);
            random.fill(&mut torn[arrived..arrived + 8]);
            platters.write(first * SECTOR_BYTES + passed as u64, &torn);
        }
    }
}

fn overlap(one: Sectors, other: Sectors) -> bool {
    one.0 < other.1 && other.0 < one.1
}

fn sectors_of(request: &Request) -> Sectors {
    (request.offset / SECTOR_BYTES, (request.offset + request.len) / SECTOR_BYTES)
}

impl Model for Disk {
    fn size_bytes(&self) -> u64 {
        self.shape.size_bytes
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn submit(&mut self, now_ns: u64, request: Request) {
        self.enter(now_ns, request, None);
    }

    fn next_event_ns(&self) -> Option<u64> {
        let arrival = self.arrivals.front().map(|(at_ns, _)| *at_ns);
        let pass = self.pass.as_ref().map(|pass| pass.ends_ns);
        let done = self.done.first_key_value().map(|(&(at_ns, _), _)| at_ns);
        [arrival, pass, done].into_iter().flatten().min()
    }

    fn run_until(&mut self, now_ns: u64, done: &mut Vec<Completion>) {
        while let Some(next_ns) = self.next_event_ns().filter(|&next_ns| next_ns <= now_ns) {
            self.now_ns = next_ns;
            while let Some(first) = self.done.first_entry().filter(|first| first.key().0 == next_ns) {
                done.push(Completion { at_ns: next_ns, tag: first.remove() });
            }
            if self.pass.as_ref().is_some_and(|pass| pass.ends_ns == next_ns) {
                self.finish_pass();
            }
            while self.arrivals.front().is_some_and(|(at_ns, _)| *at_ns == next_ns) {
                let (_, job) = self.arrivals.pop_front().expect("seen above");
                self.arrive(job);
            }
            self.dispatch();
        }
        self.now_ns = self.now_ns.max(now_ns);
    }
}

impl Storage for Disk {
    fn submit_write(&mut self, now_ns: u64, request: Request, bytes: &[u8]) {
        assert_eq!(request.len, bytes.len() as u64, "a write of other bytes than it says");
        self.enter(now_ns, request, Some(bytes));
    }

    fn read_contents(&self, offset: u64, into: &mut [u8]) {
        match &self.contents {
            Some([found, _]) => found.read(offset, into),
            None => into.fill(0),
        }
    }

    fn power_cut(&mut self, random: &mut Random) -> u64 {
        /// From rest to full speed and calibrated: typical.
        const SPIN_UP_NS: u64 = 10_000_000_000;
        // What is found and is not on the platters is in the cache, or on its way from there.
        let mut cached: Vec<Sectors> = self.dirty.iter().map(|(&first, &(end, _))| (first, end)).collect();
        cached.extend(self.pass.as_ref().map(|pass| pass.sectors));
        self.tear_pass(random);
        let mut contents = self.contents.take().expect("a disk without contents has nothing to lose");
        let [found, platters] = &mut contents;
        for (first, end) in cached {
            let mut bytes = vec![0; ((end - first) * SECTOR_BYTES) as usize];
            platters.read(first * SECTOR_BYTES, &mut bytes);
            found.write(first * SECTOR_BYTES, &bytes);
        }
        *self = Self { contents: Some(contents), ..Self::new(self.shape.clone()) };
        SPIN_UP_NS
    }

    fn has_atomic_sectors(&self) -> bool {
        false
    }
}
