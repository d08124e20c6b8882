//! Memory for pages follows what is free: what a client reads again comes from there, and a server that was given a size
//! keeps to it.

use evenkeel_host::conditions::memory::Memory;
use evenkeel_host::event_loop::{Backend, EventLoop};
use evenkeel_host::service::status::Status;

use crate::support::load::{connect, write};
use crate::support::served::{Volume, noise, patiently};
use crate::support::{Scene, or_skip};

const SIZE: u64 = 96 << 20;

/// What short reads ask for: they stay in memory.
const READ_BYTES: u64 = 32 << 10;

/// A volume that was written whole, with bytes of noise.
fn full(scene: &Scene) -> Volume<'_> {
    let volume = Volume::create(scene, "--size 96m --buffer 16m --log-size 32m");
    let server = volume.serve("--cache 8m");
    for at in (0..SIZE).step_by(4 << 20) {
        write(&volume.socket(), at, &noise(at, 4 << 20));
    }
    server.stop();
    volume
}

/// Reads everything in short reads, and compares it with what was written.
fn read_all(volume: &Volume<'_>) {
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    let env = event_loop.handle();
    event_loop.block_on(async {
        let client = connect(&env, &volume.socket()).await;
        for start in (0..SIZE).step_by(4 << 20) {
            let expected = noise(start, 4 << 20);
            for at in (start..start + (4 << 20)).step_by(READ_BYTES as usize) {
                let mut into = vec![0; READ_BYTES as usize];
                client.read(at, &mut into).await.unwrap();
                assert!(into == expected[(at - start) as usize..][..READ_BYTES as usize]);
            }
        }
    });
}

/// Pages that came from the drive, or from what the system keeps of it.
fn pages_read(status: &Status) -> u64 {
    status.counters.home_reads + status.counters.cached_reads
}

/// That memory is there to grow into, and nobody waits for it.
fn memory_is_free() -> Result<(), String> {
    match Memory::now() {
        Some(memory) if memory.free_bytes > 4 << 30 && memory.waited_share < 0.01 => Ok(()),
        memory => Err(format!("not much memory is free: {memory:?}")),
    }
}

#[test]
fn what_is_read_again_comes_from_memory_that_was_free() {
    or_skip!(memory_is_free());
    let scene = Scene::new();
    let volume = full(&scene);
    let server = volume.serve("");
    assert_eq!(server.status().chosen.cache_bytes, 64 << 20, "it begins as always");
    patiently("all pages in memory", || {
        read_all(&volume);
        (server.status().occupancy.pages_bytes >= SIZE).then_some(())
    });
    let before = server.status();
    assert!(before.chosen.cache_bytes >= SIZE, "{:?}", before.chosen);
    read_all(&volume);
    assert_eq!(pages_read(&server.status()), pages_read(&before), "nothing is read twice");
    write(&volume.socket(), 1 << 20, &noise(7, 1 << 20));
    let mut changed = vec![0; 1 << 20];
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    let env = event_loop.handle();
    event_loop
        .block_on(async { connect(&env, &volume.socket()).await.read(1 << 20, &mut changed).await })
        .unwrap();
    assert!(changed == noise(7, 1 << 20), "memory has what was written last");
    server.stop();
}

#[test]
fn a_size_that_was_given_is_kept() {
    let scene = Scene::new();
    let volume = full(&scene);
    let server = volume.serve("--cache 8m");
    read_all(&volume);
    let before = server.status();
    read_all(&volume);
    let after = server.status();
    assert_eq!(after.chosen.cache_bytes, 8 << 20);
    assert!(after.occupancy.pages_peak_bytes <= after.occupancy.pages_max_bytes, "{:?}", after.occupancy);
    let again = pages_read(&after) - pages_read(&before);
    assert!(again * 4096 >= SIZE - (8 << 20), "only {again} pages were read anew");
    server.stop();
}
