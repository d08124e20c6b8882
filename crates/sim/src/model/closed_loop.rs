//! A load that keeps a fixed number of requests under way: what benchmarks of drives do.

use super::{Completion, Model, Request};

/// What a load measured, in the model's time.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Requests completed.
    pub requests: u64,
    /// From the first request's begin to the last one's completion.
    pub took_ns: u64,
    /// What each request took, from the least to the most.
    pub latencies_ns: Vec<u64>,
}

impl Measured {
    /// Requests a second.
    pub fn per_s(&self) -> f64 {
        self.requests as f64 * 1e9 / self.took_ns.max(1) as f64
    }

    /// The mean latency.
    pub fn mean_ns(&self) -> f64 {
        self.latencies_ns.iter().sum::<u64>() as f64 / self.requests.max(1) as f64
    }

    /// The latency that a share of `quantile` (0 to 1) of the requests did not exceed; 0 without requests.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        let last = self.latencies_ns.len().saturating_sub(1);
        self.latencies_ns.get((quantile * last as f64).round() as usize).copied().unwrap_or(0)
    }
}

/// Runs `requests` requests, `depth` at a time, from `start_ns` on; `next` makes each, given its number, which
/// becomes its tag.
pub fn run(
    model: &mut impl Model,
    start_ns: u64,
    depth: u64,
    requests: u64,
    mut next: impl FnMut(u64) -> Request,
) -> Measured {
    let mut latencies_ns = vec![0; requests as usize];
    let mut done: Vec<Completion> = Vec::new();
    let mut submitted = 0;
    let mut submit = |model: &mut _, now_ns, begun: &mut [u64]| {
        if submitted == requests {
            return;
        }
        begun[submitted as usize] = now_ns;
        let request = Request { tag: submitted, ..next(submitted) };
        submitted += 1;
        Model::submit(model, now_ns, request);
    };
    for _ in 0..depth {
        submit(model, start_ns, &mut latencies_ns);
    }
    let (mut completed, mut now_ns) = (0, start_ns);
    while completed < requests {
        now_ns = model.next_event_ns().expect("requests are under way, and nothing will happen");
        model.run_until(now_ns, &mut done);
        for completion in done.drain(..) {
            completed += 1;
            let begun = &mut latencies_ns[completion.tag as usize];
            *begun = completion.at_ns - *begun;
            submit(model, now_ns, &mut latencies_ns);
        }
    }
    latencies_ns.sort_unstable();
    Measured { requests, took_ns: now_ns - start_ns, latencies_ns }
}
