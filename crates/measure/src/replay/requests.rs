//! A trace's accesses as requests to a target: in the order of their time, and in their places.

use std::io::Read;

use super::Request;
use evenkeel_trace::order::{InOrder, WINDOW};
use evenkeel_trace::placement::Placement;
use evenkeel_trace::{TraceError, TraceReader};

/// The requests of those devices that are replayed. Errors are one line each.
#[derive(Debug)]
pub struct Requests<'a, R: Read> {
    accesses: InOrder<TraceReader<R>>,
    placement: &'a Placement,
}

impl<'a, R: Read> Requests<'a, R> {
    /// Those of `trace`, which `placement` knows from its survey.
    pub fn new(trace: TraceReader<R>, placement: &'a Placement) -> Self {
        Self { accesses: InOrder::new(trace, WINDOW), placement }
    }

    /// How many were so far out of order that they took another's time.
    pub fn retimed(&self) -> u64 {
        self.accesses.retimed()
    }
}

impl<R: Read> Iterator for Requests<'_, R> {
    type Item = Result<Request, String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let access = match self.accesses.next()? {
                Ok(access) => access,
                Err(error) => return Some(Err(told(&error))),
            };
            match self.placement.place(&access) {
                Ok(None) => {}
                Ok(Some(place)) => {
                    return Some(Ok(Request {
                        time_ns: access.time_ns,
                        op: access.op,
                        offset: place.offset,
                        len_bytes: access.len_bytes,
                        is_moved: place.is_moved,
                    }));
                }
                Err(changed) => return Some(Err(changed.to_string())),
            }
        }
    }
}

fn told(error: &TraceError) -> String {
    format!("the trace cannot be read further: {error}")
}
