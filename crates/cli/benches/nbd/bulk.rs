//! Small durable writes while another client makes 1 GiB durable.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::thread;

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop};

use crate::comparison::Spread;
use crate::load::{self, Bytes, Load, Operation, Place, Random};
use crate::servers::{Fleet, Kind, Server};
use crate::{Args, Outcome};

const BULK_BYTES: u64 = 1 << 30;

/// Written before each flush of its range.
const FLUSHED_BYTES: u64 = 16 << 20;

/// How the other client makes its bytes durable.
#[derive(Debug, Clone, Copy)]
enum Way {
    Fua,
    /// A flush of the range that was written; of everything where the server knows no other.
    RangeFlush,
}

/// Prints a table of 99th percentiles, at rest and meanwhile.
pub(crate) fn measure(fleet: &mut Fleet, args: &Args) -> Outcome {
    println!("\n### bulk: p99 of 4 KiB durable writes while another client makes 1 GiB durable\n");
    println!(
        "| server | the other by | idle p99 us | meanwhile p99 us | ratio | least to most | the other MiB/s |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|");
    let mut random = Random::new(args.seed);
    for (name, way) in [("FUA", Way::Fua), ("range flush", Way::RangeFlush)] {
        let mut runs: Vec<(Kind, Vec<[f64; 3]>)> =
            fleet.servers.iter().map(|server| (server.kind, Vec::new())).collect();
        for _ in 0..args.rounds {
            for server in fleet.shuffled(&mut random) {
                let run = run(server, way, args, fleet.size_bytes, random.next())?;
                runs.iter_mut().find(|(kind, _)| *kind == server.kind).expect("it has a place").1.push(run);
                server.rest();
            }
        }
        for (kind, runs) in &runs {
            let column = |of: fn(&[f64; 3]) -> f64| Spread::of(runs.iter().map(of));
            let ratio = column(|run| run[1] / run[0]);
            println!(
                "| {} | {name} | {:.0} | {:.0} | {:.2} | {:.2} to {:.2} | {:.0} |",
                kind.name(),
                column(|run| run[0]).median,
                column(|run| run[1]).median,
                ratio.median,
                ratio.least,
                ratio.most,
                column(|run| run[2]).median,
            );
        }
    }
    println!("\nAt most 3 times the idle p99.");
    Ok(())
}

/// Idle and busy p99 in microseconds, and the other client's rate.
fn run(server: &Server, way: Way, args: &Args, size_bytes: u64, seed: u64) -> Outcome<[f64; 3]> {
    let load = Load {
        operation: Operation::Fua,
        place: Place::Random,
        connections: 1,
        depth: 1,
        request_bytes: 4096,
        // Small writes and large ones do not meet.
        size_bytes: size_bytes - BULK_BYTES,
        seconds: args.seconds,
        seed,
    };
    let idle = load::run(&server.socket, load, || ())?;
    server.rest();
    let socket = server.socket.clone();
    let first = size_bytes - BULK_BYTES;
    let other = thread::spawn(move || make_durable(&socket, first, way, seed));
    let mut busy = load::run(&server.socket, Load { seconds: 1.0, ..load }, || ())?;
    while !other.is_finished() {
        let more = load::run(&server.socket, Load { seconds: 1.0, ..load }, || ())?;
        if !other.is_finished() {
            busy.latency_ns.add(&more.latency_ns).expect("the bounds are the same");
        }
    }
    let rate_mib_per_s = other.join().map_err(|_| "the other client panicked".to_owned())??;
    Ok([idle.quantile_s(0.99) * 1e6, busy.quantile_s(0.99) * 1e6, rate_mib_per_s])
}

/// Makes all of the other range durable; in MiB a second.
fn make_durable(socket: &Path, first: u64, way: Way, seed: u64) -> Outcome<f64> {
    let event_loop = EventLoop::new(Backend::Auto).map_err(|error| format!("no event loop: {error}"))?;
    let env = event_loop.handle();
    let (bytes, mut random) = (Bytes::new(seed), Random::new(seed));
    let began_ns = Rc::new(Cell::new(0));
    let began = Rc::clone(&began_ns);
    event_loop.block_on(async {
        let client = load::connect(&env, socket).await?;
        began.set(env.now_ns());
        let mut at = first;
        while at < first + BULK_BYTES {
            let extent = Extent::new(at, FLUSHED_BYTES);
            let durability = match way {
                Way::Fua => Durability::Durable,
                Way::RangeFlush => Durability::Buffered,
            };
            load::write_all(&client, extent, &bytes, &mut random, durability).await?;
            if matches!(way, Way::RangeFlush) {
                let flushed = client.flush(FlushScope::Ranges(&[extent])).await;
                flushed.map_err(|error| error.to_string())?;
            }
            at += FLUSHED_BYTES;
        }
        Outcome::Ok(())
    })?;
    Ok((BULK_BYTES >> 20) as f64 / ((env.now_ns() - began_ns.get()) as f64 * 1e-9))
}
