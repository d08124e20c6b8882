//! Replays in virtual time, where every latency is exact.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_sim::executor::{Executor, SimEnv};
use evenkeel_trace::Op;

use super::target::Target;
use super::*;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

/// What a target was asked: when, what, from where, how many bytes.
type Asked = (u64, Op, u64, usize);

/// A target that takes a time for each request, but takes none between two moments.
struct Virtual {
    env: SimEnv,
    granule_bytes: u32,
    service_ns: u64,
    stalls_ns: (u64, u64),
    fails_after: usize,
    asked: RefCell<Vec<Asked>>,
    content: RefCell<Vec<u8>>,
    durable_writes: Cell<usize>,
}

impl Virtual {
    fn new(env: SimEnv) -> Self {
        Self {
            env,
            granule_bytes: 1,
            service_ns: MS,
            stalls_ns: (0, 0),
            fails_after: usize::MAX,
            asked: RefCell::default(),
            content: RefCell::new(vec![0; 1 << 20]),
            durable_writes: Cell::new(0),
        }
    }

    async fn serve(&self, op: Op, offset: u64, len: usize) -> Result<(), String> {
        let now_ns = self.env.now_ns();
        let count = {
            let mut asked = self.asked.borrow_mut();
            asked.push((now_ns, op, offset, len));
            asked.len()
        };
        let (from_ns, to_ns) = self.stalls_ns;
        let stalled_ns = if (from_ns..to_ns).contains(&now_ns) { to_ns - now_ns } else { 0 };
        self.env.sleep(stalled_ns + self.service_ns).await;
        if count > self.fails_after { Err("the drive is on fire".to_owned()) } else { Ok(()) }
    }
}

impl Target for Virtual {
    fn size_bytes(&self) -> u64 {
        self.content.borrow().len() as u64
    }

    fn granule_bytes(&self) -> u32 {
        self.granule_bytes
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        self.serve(Op::Read, offset, into.len()).await
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), String> {
        let at = offset as usize;
        self.content.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        self.durable_writes.set(self.durable_writes.get() + usize::from(durability == Durability::Durable));
        self.serve(Op::Write, offset, bytes.len()).await
    }

    async fn flush(&self) -> Result<(), String> {
        self.serve(Op::Flush, 0, 0).await
    }
}

fn settings(pace: Pace) -> Settings {
    Settings {
        pace,
        writes: Writes::Durable,
        seed: 5,
        window_ns: S,
        time_max_ns: None,
        look_ns: S / 10,
        watch_ns: 0,
    }
}

const RECORDED: Pace = Pace::Recorded { speed: 1.0 };

fn request(time_ns: u64, op: Op, offset: u64, len_bytes: u32) -> Request {
    Request { time_ns, op, offset, len_bytes, is_moved: false }
}

/// Runs `requests` onto a target that `set_up` makes; what was measured, and the target.
fn replayed(
    requests: Vec<Request>,
    settings: &Settings,
    set_up: impl FnOnce(&mut Virtual),
) -> (Measured, Rc<Virtual>) {
    let mut executor = Executor::new(1);
    let mut target = Virtual::new(executor.env());
    set_up(&mut target);
    let (env, target) = (executor.env(), Rc::new(target));
    let requests = requests.into_iter().map(Ok);
    let measured = executor.block_on(run(&env, &target, requests, settings, || false, |_| ())).unwrap();
    (measured, target)
}

/// `count` reads, one every 10 ms, as a clock of its own tells.
fn steady(count: u64) -> Vec<Request> {
    (0..count).map(|at| request(77 * S + at * 10 * MS, Op::Read, at * 512, 512)).collect()
}

fn s(time: Option<f64>) -> f64 {
    time.expect("it was measured")
}

/// That a time is `wanted_s`, to what a histogram keeps.
#[track_caller]
fn is_about(time_s: f64, wanted_s: f64) {
    assert!((time_s - wanted_s).abs() <= wanted_s * 1e-3, "{time_s} is not {wanted_s}");
}

#[test]
fn requests_are_sent_when_they_are_due_however_slow_the_target_is() {
    let (measured, target) = replayed(steady(100), &settings(RECORDED), |target| target.service_ns = 30 * S);
    let sent_ns: Vec<u64> = target.asked.borrow().iter().map(|asked| asked.0).collect();
    assert_eq!(sent_ns, (0..100).map(|at| at * 10 * MS).collect::<Vec<_>>());
    assert_eq!((measured.under_way_peak, measured.held_back), (100, 0));
    assert_eq!(measured.lateness.max_s(), Some(0.0));
    assert_eq!(measured.elapsed_ns, 99 * 10 * MS + 30 * S);
    is_about(s(measured.reads.latency.mean_s()), 30.0);
}

#[test]
fn the_clock_starts_once_the_first_request_is_there() {
    let mut executor = Executor::new(1);
    let (env, target) = (executor.env(), Rc::new(Virtual::new(executor.env())));
    // Reading ahead takes time, which no request is to pay for.
    let read = Rc::new(Cell::new(0));
    let counted = Rc::clone(&read);
    let requests = steady(3).into_iter().map(move |request| {
        counted.set(counted.get() + 1);
        Ok(request)
    });
    let clock = Counting { env, read };
    let measured =
        executor.block_on(run(&clock, &target, requests, &settings(RECORDED), || false, |_| ())).unwrap();
    assert_eq!(measured.sent, 3);
}

/// A clock that must not be asked before the first request was read.
#[derive(Clone)]
struct Counting {
    env: SimEnv,
    read: Rc<Cell<u32>>,
}

impl Env for Counting {
    fn now_ns(&self) -> u64 {
        assert!(self.read.get() > 0, "the clock started first");
        self.env.now_ns()
    }

    fn sleep(&self, duration_ns: u64) -> impl Future<Output = ()> {
        self.env.sleep(duration_ns)
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.env.spawn(task);
    }

    fn random(&self) -> u64 {
        self.env.random()
    }
}

#[test]
fn a_stall_is_seen_by_every_request_that_was_due_in_it() {
    let (measured, _) =
        replayed(steady(1000), &settings(RECORDED), |target| target.stalls_ns = (2 * S, 4 * S));
    // 200 of 1000 were due in the stall; they waited 2 s, 1.99 s, and so on, and then a millisecond each.
    is_about(s(measured.reads.latency.max_s()), 2.001);
    is_about(s(measured.reads.latency.percentile_s(0.9)), 1.001);
    is_about(s(measured.reads.latency.percentile_s(0.5)), 0.001);
    let waited_s: f64 = (1..=200).map(|at| f64::from(at) * 0.01).sum();
    is_about(s(measured.reads.latency.mean_s()), 0.001 + waited_s / 1000.0);
    let list = measured.windows.list();
    assert_eq!(list[2].reads + list[3].reads, 0);
    assert_eq!(list[4].reads, 300);
}

#[test]
fn who_waits_for_room_has_a_latency_from_when_it_was_due() {
    let many = UNDER_WAY_MAX as u64 + 1000;
    let requests = (0..many).map(|_| request(0, Op::Read, 0, 1)).collect();
    let (measured, _) = replayed(requests, &settings(RECORDED), |target| target.service_ns = S);
    assert_eq!((measured.reads.requests, measured.under_way_peak), (many, UNDER_WAY_MAX));
    assert!(measured.held_back > 0);
    is_about(s(measured.reads.latency.max_s()), 2.0);
    is_about(s(measured.reads.service.max_s()), 1.0);
    is_about(s(measured.lateness.max_s()), 1.0);
}

#[test]
fn a_scaled_replay_takes_its_share_of_the_time() {
    for (speed, wanted_ns) in [(2.0, 99 * 5 * MS + MS), (0.5, 99 * 20 * MS + MS)] {
        let (measured, _) = replayed(steady(100), &settings(Pace::Recorded { speed }), |_| ());
        assert_eq!(measured.elapsed_ns, wanted_ns, "{speed}");
    }
}

#[test]
fn as_fast_as_possible_keeps_as_many_under_way_as_it_was_told() {
    for depth in [1, 7, 100] {
        let (measured, _) = replayed(steady(700), &settings(Pace::Max { depth }), |_| ());
        assert_eq!(measured.under_way_peak, depth);
        assert_eq!(measured.elapsed_ns, 700 / depth as u64 * MS);
        is_about(s(measured.reads.latency.mean_s()), 0.001);
        assert_eq!((measured.lateness.count(), measured.held_back), (0, 0));
    }
}

#[test]
fn each_kind_is_counted_with_its_bytes_and_writes_are_as_durable_as_asked() {
    let requests = vec![
        request(0, Op::Write, 0, 4096),
        request(MS, Op::Read, 512, 1024),
        request(2 * MS, Op::Flush, 0, 0),
        request(3 * MS, Op::Write, 8192, 512),
    ];
    let (measured, target) = replayed(requests.clone(), &settings(RECORDED), |_| ());
    assert_eq!((measured.sent, measured.ending.clone()), (4, Ending::Complete));
    assert_eq!((measured.reads.requests, measured.reads.bytes), (1, 1024));
    assert_eq!((measured.writes.requests, measured.writes.bytes), (2, 4608));
    assert_eq!((measured.flushes.requests, measured.flushes.bytes), (1, 0));
    assert_eq!((target.durable_writes.get(), measured.widened), (2, 0));
    let window = measured.windows.list()[0];
    assert_eq!((window.reads, window.writes, window.written_bytes), (1, 2, 4608));
    let buffered = Settings { writes: Writes::Buffered, ..settings(RECORDED) };
    let (_, target) = replayed(requests, &buffered, |_| ());
    assert_eq!(target.durable_writes.get(), 0);
}

#[test]
fn requests_become_whole_granules_and_that_is_counted() {
    let requests = vec![
        request(0, Op::Write, 1024, 512),
        request(MS, Op::Read, 4095, 2),
        request(2 * MS, Op::Read, 4096, 4096),
        request(3 * MS, Op::Flush, 0, 0),
    ];
    let (measured, target) = replayed(requests, &settings(RECORDED), |target| target.granule_bytes = 4096);
    let sent: Vec<(u64, usize)> = target.asked.borrow().iter().map(|asked| (asked.2, asked.3)).collect();
    assert_eq!(sent, [(0, 4096), (0, 8192), (4096, 4096), (0, 0)]);
    assert_eq!(measured.widened, 2);
    assert_eq!((measured.writes.bytes, measured.writes.sent_bytes), (512, 4096));
    assert_eq!((measured.reads.bytes, measured.reads.sent_bytes), (4098, 12288));
}

#[test]
fn a_seed_writes_the_same_bytes_and_another_seed_others() {
    let requests: Vec<Request> =
        (0..50).map(|at| request(at * MS, Op::Write, at * 700 % 9000, 3000)).collect();
    let content = |seed| {
        let (measured, target) = replayed(requests.clone(), &Settings { seed, ..settings(RECORDED) }, |_| ());
        assert_eq!(measured.writes.requests, 50);
        target.content.take()
    };
    assert_eq!(content(1), content(1));
    assert_ne!(content(1), content(2));
}

#[test]
fn a_replay_that_is_stopped_ends_with_what_it_has() {
    let mut executor = Executor::new(1);
    let (env, target) = (executor.env(), Rc::new(Virtual::new(executor.env())));
    // A trace that pauses for an hour in the middle.
    let requests = (0..2000u64)
        .map(|at| request(if at < 1000 { at * 10 * MS } else { 3600 * S + at * MS }, Op::Read, 0, 512))
        .map(Ok);
    let clock = env.clone();
    let stops = move || clock.now_ns() >= 15 * S;
    let measured =
        executor.block_on(run(&env, &target, requests, &settings(RECORDED), stops, |_| ())).unwrap();
    assert_eq!((measured.ending, measured.reads.requests), (Ending::Interrupted, 1000));
    assert!(measured.elapsed_ns < 16 * S, "{}", measured.elapsed_ns);
}

#[test]
fn a_replay_ends_with_its_time() {
    let settings = Settings { time_max_ns: Some(2 * S), ..settings(RECORDED) };
    let (measured, _) = replayed(steady(1000), &settings, |_| ());
    assert_eq!((measured.ending, measured.reads.requests), (Ending::TimeUp, 201));
    let settings = Settings { pace: Pace::Max { depth: 1 }, ..settings };
    let (measured, _) = replayed(steady(10_000), &settings, |_| ());
    assert_eq!(measured.ending, Ending::TimeUp);
    assert!((2000..=2002).contains(&measured.reads.requests), "{}", measured.reads.requests);
}

#[test]
fn a_target_that_fails_ends_it_and_what_failed_is_not_counted_as_done() {
    let (measured, _) = replayed(steady(1000), &settings(RECORDED), |target| target.fails_after = 300);
    assert_eq!(measured.ending, Ending::Failed("the drive is on fire".to_owned()));
    assert_eq!((measured.reads.requests, measured.failed), (300, measured.sent - 300));
    assert!(measured.sent < 310);
}

#[test]
fn a_trace_that_cannot_be_read_further_ends_it_after_what_was_read() {
    let mut executor = Executor::new(1);
    let (env, target) = (executor.env(), Rc::new(Virtual::new(executor.env())));
    let requests = steady(3).into_iter().map(Ok).chain([Err("line 4: gone".to_owned())]);
    let measured =
        executor.block_on(run(&env, &target, requests, &settings(RECORDED), || false, |_| ())).unwrap();
    assert_eq!(measured.ending, Ending::Failed("line 4: gone".to_owned()));
    assert_eq!(measured.reads.requests, 3);
}

#[test]
fn progress_says_how_late_it_is() {
    let mut executor = Executor::new(1);
    let (env, target) = (executor.env(), Rc::new(Virtual::new(executor.env())));
    let mut told = Vec::new();
    let requests = steady(100).into_iter().map(Ok);
    let progress = |progress| told.push(progress);
    executor.block_on(run(&env, &target, requests, &settings(RECORDED), || false, progress)).unwrap();
    assert_eq!(told[0], Progress { sent: 0, elapsed_ns: 0, traced_ns: 0, behind_ns: 0 });
    assert_eq!(told.len(), 10);
    assert!(told.iter().all(|progress| progress.behind_ns == 0 && progress.sent <= 100));
}
