//! What a server tells of events: its lines as JSON, its counts, its state.

use serde_json::Value;

use super::load::write;
use super::metrics::{address, metric, scrape};
use super::served::{Server, Volume, noise, patiently};
use super::{Scene, says};

/// With a line for each event, which a program can read, and with metrics.
pub(crate) const TELLING: &str = "--log-format json --log-level debug --metrics 127.0.0.1:0";

/// The lines of a server that has [`TELLING`]: each is one.
#[track_caller]
pub(crate) fn lines(server: &Server) -> Vec<Value> {
    let text = server.complaints();
    // The last one may be only half there.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    whole.lines().map(read).collect()
}

/// The lines of one kind of events.
#[track_caller]
pub(crate) fn lines_of(server: &Server, event: &str) -> Vec<Value> {
    lines(server).into_iter().filter(|line| line["event"] == event).collect()
}

/// How often `status` counts a kind of events.
#[track_caller]
pub(crate) fn count(server: &Server, event: &str) -> u64 {
    let events = server.status().events;
    events.iter().find(|found| found.event == event).map_or(0, |found| found.count)
}

/// Waits for an event, and sees that it is one line with these parts, is counted once in status and metrics, and that the
/// volume is in this state. Answers the line.
#[track_caller]
pub(crate) fn once(server: &Server, event: &str, level: &str, parts: &[&str]) -> Value {
    patiently(event, || (count(server, event) > 0).then_some(()));
    let mut found = lines_of(server, event);
    assert_eq!((found.len(), count(server, event)), (1, 1), "{event}: {found:?}");
    let (_, body) = scrape(&address(server), "/metrics");
    assert_eq!(metric(&body, &format!("evenkeel_events_total{{event=\"{event}\"}}")), 1.0);
    let line = found.remove(0);
    assert_eq!(line["level"], level, "{line}");
    says(line["message"].as_str().unwrap(), parts);
    line
}

/// That the volume is in this state, by status and metrics; answers what `evenkeel status` prints.
#[track_caller]
pub(crate) fn is_in_state(scene: &Scene, server: &Server, state: &str, code: i32) -> String {
    // On a busy machine commits may still wait for room in the log, which passes.
    patiently("commits that wait", || {
        (server.status().state.name != "slow" || state == "slow").then_some(())
    });
    assert_eq!(server.status().state.name, state, "{:?}", server.status().state);
    let (_, body) = scrape(&address(server), "/metrics");
    for name in ["ok", "slow", "rebuilding", "degraded", "damaged", "read-only"] {
        let value = metric(&body, &format!("evenkeel_state{{state=\"{name}\"}}"));
        assert_eq!(value, f64::from(u8::from(name == state)), "{name}");
    }
    let ran = scene.run("status disk");
    assert_eq!(ran.code, Some(code), "{ran:?}");
    says(&ran.stdout, &[&format!("state      {state}")]);
    ran.stdout
}

/// Starts `evenkeel serve disk FLAGS` so that it tells of events.
pub(crate) fn serve(volume: &Volume<'_>, flags: &str) -> Server {
    volume.serve(&format!("{TELLING} {flags}"))
}

/// A small volume that is served and tells of events, with 3 MiB written at its start.
pub(crate) fn served_with_bytes(scene: &Scene) -> (Volume<'_>, Server, Vec<u8>) {
    let volume = Volume::create(scene, "--size 32m --log-size 16m --buffer 4m");
    let (server, bytes) = (serve(&volume, ""), noise(1, 3 << 20));
    write(&volume.socket(), 0, &bytes);
    (volume, server, bytes)
}

/// SIGTERM, then the lines that it has told in all.
#[track_caller]
pub(crate) fn stop(mut server: Server) -> Vec<Value> {
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0), "{}", server.complaints());
    lines(&server)
}
