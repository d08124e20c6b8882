//! The testbed: streams of requests, 31 under way at once, and what takes them.
//!
//! 1. What takes the requests is any [`Model`]: a drive, or several drives behind a policy, which has the same face.
//! 2. As soon as a request is done the next one is sent, of the stream that is furthest behind its rate: however slow some
//!    requests are, the streams' requests keep their proportion.
//! 3. Time goes on from one run to the next with what is under way: a change of rates is not a pause.

use evenkeel_sim::model::{Completion, Model, Operation, Request};
use evenkeel_sim::random::Random;

use super::log::Log;

pub(super) const KIB: u64 = 1 << 10;

/// The paper's queue depth.
pub(super) const DEPTH: usize = 31;

/// The paper's request.
pub(super) const REQUEST_BYTES: u64 = 256 * KIB;

pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// In which order a stream goes over its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// From the beginning to the end, and again.
    Sequential,
    /// Whole requests anywhere.
    Random,
}

/// Requests of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    pub(super) operation: Operation,
    pub(super) order: Order,
    pub(super) request_bytes: u64,
    /// From the beginning of the drive on.
    pub(super) range_bytes: u64,
    /// Its part of the requests, beside those of the other streams.
    pub(super) rate: f64,
}

impl Stream {
    /// A stream of the paper's requests.
    pub(super) fn new(operation: Operation, order: Order, range_bytes: u64, rate: f64) -> Self {
        Self { operation, order, request_bytes: REQUEST_BYTES, range_bytes, rate }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct UnderWay {
    stream: usize,
    begun_ns: u64,
}

/// Streams over something that takes requests.
pub(super) struct Bed<P> {
    policy: P,
    streams: Vec<Stream>,
    /// By stream, the number of its next request.
    next: Vec<u64>,
    /// By stream, by how many requests it is behind its rate.
    behind: Vec<f64>,
    random: Random,
    under_way: Vec<UnderWay>,
    /// Tags of no request.
    free: Vec<usize>,
    done: Vec<Completion>,
}

impl<P: Model> Bed<P> {
    pub(super) fn new(policy: P, streams: &[Stream], seed: u64) -> Self {
        Self {
            policy,
            streams: streams.to_vec(),
            next: vec![0; streams.len()],
            behind: vec![0.0; streams.len()],
            random: Random::new(seed),
            under_way: vec![UnderWay::default(); DEPTH],
            free: (0..DEPTH).rev().collect(),
            done: Vec::new(),
        }
    }

    /// What takes the requests.
    pub(super) fn policy(&self) -> &P {
        &self.policy
    }

    /// Sets the streams' rates, in their order.
    pub(super) fn set_rates(&mut self, rates: &[f64]) {
        for (stream, &rate) in self.streams.iter_mut().zip(rates) {
            stream.rate = rate;
        }
    }

    /// Lets the streams run for so long; answers what was done in that time.
    pub(super) fn run_for(&mut self, ns: u64) -> Log {
        let from_ns = self.policy.now_ns();
        let to_ns = from_ns + ns;
        let mut log = Log::new(from_ns, to_ns, self.streams.len());
        let mut done = std::mem::take(&mut self.done);
        loop {
            while let Some(tag) = self.free.pop() {
                self.send(tag);
            }
            let at_ns = self.policy.next_event_ns().expect("requests are under way, and nothing will happen");
            self.policy.run_until(at_ns.min(to_ns), &mut done);
            for completion in done.drain(..) {
                let tag = completion.tag as usize;
                let UnderWay { stream, begun_ns } = self.under_way[tag];
                log.add(stream, begun_ns, completion.at_ns);
                self.free.push(tag);
            }
            if at_ns > to_ns {
                break;
            }
        }
        self.done = done;
        log
    }

    fn send(&mut self, tag: usize) {
        let (stream, now_ns) = (self.turn(), self.policy.now_ns());
        let Stream { operation, order, request_bytes, range_bytes, .. } = self.streams[stream];
        let places = range_bytes / request_bytes;
        let place = match order {
            Order::Random => self.random.below(places),
            Order::Sequential => {
                let next = &mut self.next[stream];
                std::mem::replace(next, (*next + 1) % places)
            }
        };
        self.under_way[tag] = UnderWay { stream, begun_ns: now_ns };
        self.policy.submit(now_ns, Request::new(tag as u64, operation, place * request_bytes, request_bytes));
    }

    /// The stream that is furthest behind its rate.
    fn turn(&mut self) -> usize {
        for (behind, stream) in self.behind.iter_mut().zip(&self.streams) {
            *behind += stream.rate;
        }
        let all: f64 = self.streams.iter().map(|stream| stream.rate).sum();
        let furthest =
            (0..self.behind.len()).rev().max_by(|&a, &b| self.behind[a].total_cmp(&self.behind[b]));
        let stream = furthest.expect("there are streams");
        self.behind[stream] -= all;
        stream
    }
}
