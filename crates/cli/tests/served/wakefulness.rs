//! Processors that are to wake quickly while clients ask.

use std::fs;

use crate::support::load::{contents, write};
use crate::support::served::{Server, Volume, patiently};
use crate::support::{Scene, or_skip};

const DEVICE: &str = "/dev/cpu_dma_latency";

/// Whether the server has a wish at the kernel.
fn wants(server: &Server) -> bool {
    let entries = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    let mut targets = entries.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    targets.any(|target| target.as_os_str() == DEVICE)
}

fn can_want() -> Result<(), String> {
    let opened = fs::OpenOptions::new().write(true).open(DEVICE);
    opened.map(drop).map_err(|error| format!("{DEVICE}: {error}"))
}

#[test]
fn processors_are_kept_awake_while_clients_ask_and_not_before_or_after() {
    or_skip!(can_want());
    let scene = Scene::new();
    let volume = Volume::create(&scene, "--size 8m --log-size 4m --buffer 1m");
    let server = volume.serve("--cpu-latency 0us");
    assert!(!wants(&server), "nobody has asked");
    patiently("the wish", || {
        write(&volume.socket(), 0, &[7; 4096]);
        wants(&server).then_some(())
    });
    patiently("its end", || (!wants(&server)).then_some(()));
    assert!(contents(&volume.socket())[..4096] == [7; 4096]);
    server.stop();
    let server = volume.serve("");
    write(&volume.socket(), 0, &[8; 4096]);
    assert!(!wants(&server), "it was not told to");
    server.stop();
}
