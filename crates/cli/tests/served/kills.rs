//! The server's process is killed under load, many times: no acknowledged write is lost, flushed or not.
//!
//! `EVENKEEL_KILLS` says how many times; 20 unless it is set. `EVENKEEL_SOAK_S` says for how many seconds instead.

#![allow(clippy::print_stderr, reason = "what was tried is for whoever runs it")]

use std::env;
use std::rc::Rc;
use std::time::{Duration, Instant};

use evenkeel_engine::device::Extent;
use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop, Loop};

use crate::support::load::{Load, read_all};
use crate::support::model::{Death, Model};
use crate::support::served::{Server, Volume};
use crate::support::{Scene, skip};

const SIZE: usize = 32 << 20;

/// A log so small that checkpoints never end.
const FLAGS: &str = "--size 32m --log-size 16m --buffer 8m --atomic-sectors yes";

/// When the kill comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// At some moment of the load.
    Load,
    /// While pages are taken home.
    Checkpoint,
    /// Between SIGTERM and the end.
    Stop,
    /// In the middle of the load, and again while the next process recovers.
    Recovery,
    /// No kill: two signals, after which the server leaves at once.
    SecondSignal,
}

const MOMENTS: [Moment; 7] = [
    Moment::Load,
    Moment::Checkpoint,
    Moment::Recovery,
    Moment::Stop,
    Moment::Load,
    Moment::SecondSignal,
    Moment::Recovery,
];

/// A number that a variable of the environment names, if it is set.
fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

/// How often the server lives: as `EVENKEEL_KILLS` has it, or until `EVENKEEL_SOAK_S` are over.
fn lives() -> impl Iterator<Item = usize> {
    let until = number("EVENKEEL_SOAK_S").map(|soak_s| Instant::now() + Duration::from_secs(soak_s));
    let kills = number("EVENKEEL_KILLS").unwrap_or(20) as usize;
    (0..).take_while(move |&life| until.map_or(life < kills, |until| Instant::now() < until))
}

/// Ends the server at that moment of the load.
async fn end(env: &Loop, load: &Load, server: &mut Server, moment: Moment) {
    let mut chance = load.draw();
    load.goes_on(env, 200 + chance.below(1500)).await;
    match moment {
        Moment::Load | Moment::Recovery => server.kill(),
        Moment::Checkpoint => {
            let began = server.status().counters.home_bytes;
            while server.status().counters.home_bytes == began {
                load.goes_on(env, 20).await;
            }
            server.kill();
        }
        Moment::Stop => {
            server.signal("TERM");
            env.sleep(chance.below(20_000_000)).await;
            server.kill();
        }
        Moment::SecondSignal => {
            // Both wait for the process when it goes on.
            ["STOP", "TERM", "INT", "CONT"].iter().for_each(|name| server.signal(name));
            assert_eq!(server.exit_code(), Some(130), "{}", server.complaints());
        }
    }
}

#[test]
fn a_kill_at_any_moment_takes_no_acknowledged_write() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let load = Load::new(SIZE, std::process::id().into());
    let (mut unflushed, mut units, mut records, mut ends) = (0, 0, 0, 0);
    for life in lives() {
        let moment = MOMENTS[life % MOMENTS.len()];
        let flags = if life % 3 == 2 { "--backend threads" } else { "" };
        let mut server = volume.serve(flags);
        let event_loop = EventLoop::new(Backend::Auto).unwrap();
        load.run(&event_loop, &volume.socket(), |env| {
            let (load, server) = (Rc::clone(&load), &mut server);
            async move { end(&env, &load, server, moment).await }
        });
        // A server that is stopping refuses; no other may.
        let is_stopping = matches!(moment, Moment::Stop | Moment::SecondSignal);
        let refusals = load.refusals.take();
        assert!(refusals.is_empty() || is_stopping, "{refusals:?}");
        unflushed += load.model.borrow().unflushed();
        ends += 1;
        if moment == Moment::Recovery {
            let mut chance = load.draw();
            for _ in 0..1 + chance.below(3) {
                let mut server = volume.starting("");
                std::thread::sleep(Duration::from_micros(chance.below(60_000)));
                server.kill();
                ends += 1;
            }
        }
        let server = volume.serve("");
        let found = read_all(&event_loop, &volume.socket());
        let counters = server.status().counters;
        units += counters.replayed_units;
        records += counters.replayed_records;
        eprintln!("life {life}, {moment:?}: {} requests answered so far", load.answered.get());
        load.model.borrow_mut().judge(found, Death::Kill);
        if life % 10 == 9 {
            server.stop();
            assert!(scene.done("check disk").stdout.contains(" 0 damaged"));
        }
    }
    eprintln!(
        "{ends} ends of the process, {} requests answered, {unflushed} acknowledged writes not flushed when it \
         ended, {units} writes and {records} records taken over",
        load.answered.get()
    );
    assert!(unflushed > 0 && units > 0 && records > 0, "the load left nothing to lose");
}

/// Everything that only memory holds goes: the arena, and the page cache.
fn forget_memory(volume: &Volume<'_>) -> Result<(), String> {
    std::fs::remove_file(volume.arena().unwrap_or_default())
        .map_err(|error| format!("the arena: {error}"))?;
    std::fs::write("/proc/sys/vm/drop_caches", "3").map_err(|error| format!("drop_caches: {error}"))
}

#[test]
fn what_was_flushed_survives_without_the_memory_too() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let load = Load::new(SIZE, u64::from(std::process::id()) << 32);
    let mut unflushed = 0;
    for life in 0..(number("EVENKEEL_KILLS").unwrap_or(20) as usize / 4).max(1) {
        let mut server = volume.serve("");
        let event_loop = EventLoop::new(Backend::Auto).unwrap();
        load.run(&event_loop, &volume.socket(), |env| {
            let (load, server) = (Rc::clone(&load), &mut server);
            async move { end(&env, &load, server, Moment::Load).await }
        });
        unflushed += load.model.borrow().unflushed();
        if let Err(why) = forget_memory(&volume) {
            return skip("what_was_flushed_survives_without_the_memory_too", &why);
        }
        let _server = volume.serve("");
        let found = read_all(&event_loop, &volume.socket());
        eprintln!("life {life}: {} requests answered so far", load.answered.get());
        load.model.borrow_mut().judge(found, Death::Power);
    }
    assert!(unflushed > 0, "the load left nothing that may be lost");
}

/// A model of one page that was written twice, first durably.
fn written_twice() -> (Model, Vec<u8>, Vec<u8>) {
    let mut model = Model::new(8192);
    let mut write = |is_durable| {
        let (number, change) = model.begin(Extent::new(0, 4096), false).unwrap();
        model.acknowledge(number, is_durable);
        [change.bytes(), vec![0; 4096]].concat()
    };
    let (first, second) = (write(true), write(false));
    (model, first, second)
}

#[test]
#[should_panic(expected = "a write is lost")]
fn the_judge_sees_an_acknowledged_write_that_a_kill_took() {
    let (mut model, first, _) = written_twice();
    model.judge(first, Death::Kill);
}

#[test]
#[should_panic(expected = "a write is lost")]
fn the_judge_sees_a_durable_write_that_went() {
    let (mut model, ..) = written_twice();
    model.judge(vec![0; 8192], Death::Power);
}

#[test]
#[should_panic(expected = "a write is lost")]
fn the_judge_sees_what_was_taken_back() {
    let (mut model, first, second) = written_twice();
    model.judge(second, Death::Power);
    model.judge(first, Death::Power);
}

#[test]
#[should_panic(expected = "is torn")]
fn the_judge_sees_a_torn_write() {
    let mut model = Model::new(8192);
    let (_, change) = model.begin(Extent::new(10, 8000), false).unwrap();
    let half = [vec![0; 10], change.bytes()[..5000].to_vec(), vec![0; 8192 - 5010]].concat();
    model.judge(half, Death::Kill);
}

#[test]
fn the_judge_lets_pass_what_may_be() {
    let (mut model, first, second) = written_twice();
    model.judge(first, Death::Power);
    let (mut model, ..) = written_twice();
    model.judge(second.clone(), Death::Power);
    model.judge(second.clone(), Death::Power);
    let (mut model, ..) = written_twice();
    model.judge(second, Death::Kill);
}

/// What is there when a write of `len` bytes at 0 was lost, the middle of which had been flushed.
fn lost_though_its_middle_was_flushed(len: u64) {
    let mut model = Model::new(64 << 10);
    let (number, _) = model.begin(Extent::new(0, len), false).unwrap();
    model.acknowledge(number, false);
    model.flushed(model.mark(), Some(Extent::new(5000, 1)));
    model.judge(vec![0; 64 << 10], Death::Power);
}

#[test]
#[should_panic(expected = "a write is lost")]
fn the_judge_takes_a_write_of_the_atomic_size_for_flushed_with_any_part() {
    lost_though_its_middle_was_flushed(16 << 10);
}

#[test]
fn the_judge_does_not_take_a_larger_write_for_flushed_with_a_part() {
    lost_though_its_middle_was_flushed((16 << 10) + 1);
}
