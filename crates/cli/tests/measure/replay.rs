//! `evenkeel replay`: each kind of target is asked for exactly what the trace holds, and nothing that exists is
//! overwritten without its name.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::root::LoopDevice;
use crate::support::served::Volume;
use crate::support::{Ran, Scene, list, or_skip, says, skip};
use serde_json::Value;

/// Forty requests in four tenths of a second, of which every fourth reads: 30 writes of 1.5 KiB and 10 reads of 4 KiB,
/// within the first 256 KiB of device `d`; and one write of device `e`.
fn spc() -> String {
    let line = |at: u64| match at % 4 {
        0 => format!("d,{},4096,R,{}.{:02}\n", at * 8, at / 100, at % 100),
        _ => format!("d,{},1536,W,{}.{:02}\n", at * 12, at / 100, at % 100),
    };
    (0..40).map(line).collect::<String>() + "e,0,512,W,0.40\n"
}

const READS: u64 = 10;
const WRITES: u64 = 30;

/// What a replay of [`spc`]'s device `d` must have counted.
#[track_caller]
fn counts(report: &Value) {
    assert_eq!(report["schema"], "evenkeel.replay/1");
    assert_eq!((&report["ending"], &report["failed"]), (&"complete".into(), &0.into()));
    assert_eq!(
        (&report["reads"]["requests"], &report["reads"]["bytes"]),
        (&READS.into(), &(READS * 4096).into())
    );
    let writes = &report["writes"];
    assert_eq!((&writes["requests"], &writes["bytes"]), (&WRITES.into(), &(WRITES * 1536).into()));
    let windows = list(&report["windows"], "list");
    let sum = |name: &str| windows.iter().map(|window| window[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("reads"), sum("writes")), (READS, WRITES));
}

fn scene() -> Scene {
    let scene = Scene::new();
    std::fs::write(scene.path("trace"), spc()).unwrap();
    scene
}

const FILL: u8 = 0xa5;

#[test]
fn a_replay_onto_a_file_asks_for_what_the_trace_holds_and_a_seed_repeats_its_bytes() {
    let scene = scene();
    let mut left = Vec::new();
    for (seed, speed) in [(7, "1x"), (7, "max"), (8, "4x")] {
        std::fs::write(scene.path("image"), vec![FILL; 1 << 20]).unwrap();
        // One at a time as fast as possible: writes to the same place take effect in the order of the trace.
        let depth = if speed == "max" { "--depth 1" } else { "" };
        let ran = scene.done(&format!(
            "replay trace image --destroy image --device d --seed {seed} --speed {speed} {depth} --json out --force"
        ));
        says(
            &ran.stdout,
            &["spc, 40 requests", "1 other left out", "onto image: file, 1 MiB", "reads", "writes"],
        );
        let report = scene.json("out");
        counts(&report);
        assert_eq!(report["trace"]["devices"], serde_json::json!(["d"]));
        assert_eq!((&report["moved"], &report["settings"]["seed"]), (&0.into(), &seed.into()));
        let found = scene.bytes("image");
        assert_eq!(found.len(), 1 << 20);
        // The last write: 39 * 12 sectors from the start.
        let (first, end) = (39 * 12 * 512, 39 * 12 * 512 + 1536);
        assert!(found[first..end].iter().filter(|&&byte| byte == FILL).count() < 40);
        assert!(
            found[end.next_multiple_of(4096)..].iter().all(|&byte| byte == FILL),
            "bytes beyond the trace"
        );
        left.push(found);
    }
    assert!(left[0] == left[1], "one seed, two contents");
    assert!(left[0] != left[2]);
}

#[test]
fn a_file_that_is_made_for_a_replay_is_as_large_as_the_trace_reaches_and_goes_again() {
    let scene = scene();
    scene.done("replay trace data/new --device d --speed max --json out");
    let report = scene.json("out");
    counts(&report);
    assert_eq!(report["target"]["kind"], "new file");
    // Its last byte is that of the last write.
    assert_eq!(report["trace"]["reach_bytes"], 39 * 12 * 512 + 1536);
    assert_eq!(report["target"]["size_bytes"], (39u64 * 12 * 512 + 1536).next_multiple_of(4096));
    assert!(scene.names("data").is_empty());
}

#[test]
fn a_volume_gets_each_request_as_it_is_and_is_whole_afterwards() {
    let scene = scene();
    let volume = Volume::create(&scene, "--size 16m");
    let line = scene.refused("replay trace disk");
    says(&line, &["disk: ", "add --destroy disk"]);
    scene.done("replay trace disk --destroy disk --device d --json out");
    let report = scene.json("out");
    counts(&report);
    assert_eq!((&report["target"]["kind"], &report["widened"]), (&"volume".into(), &0.into()));
    scene.done("check disk");
    drop(volume);
}

#[test]
fn a_served_volume_counts_the_same_requests_and_bytes() {
    let scene = scene();
    let volume = Volume::create(&scene, "--size 16m");
    let server = volume.serve("");
    let uri = volume.uri();
    says(&scene.refused(&format!("replay trace {uri}")), &["add --destroy nbd+unix:"]);
    scene.done(&format!("replay trace {uri} --destroy {uri} --device d --json out"));
    counts(&scene.json("out"));
    let status = server.status();
    let answered = |name: &str| {
        let kind = status.requests.iter().find(|requests| requests.kind == name).unwrap();
        (kind.requests, kind.errors, kind.bytes)
    };
    assert_eq!(answered("read"), (READS, 0, READS * 4096));
    assert_eq!(answered("write"), (WRITES, 0, WRITES * 1536));
    let in_use = scene.refused("replay trace disk --destroy disk");
    says(&in_use, &["disk: ", "open in another process", "nbd+unix:///?socket="]);
    server.stop();
}

#[test]
fn a_block_device_is_overwritten_only_by_its_name() {
    let scene = scene();
    let device = or_skip!(LoopDevice::over(&scene.path("image"), 1 << 20, FILL));
    let node = device.node.clone();
    says(&scene.refused(&format!("replay trace {node}")), &[&format!("add --destroy {node}")]);
    scene.done(&format!("replay trace {node} --destroy {node} --device d --speed max --json out"));
    let report = scene.json("out");
    counts(&report);
    assert_eq!(report["target"]["kind"], "block device");
}

#[test]
fn reads_alone_destroy_nothing_and_need_no_leave() {
    let scene = Scene::new();
    std::fs::write(scene.path("trace"), "1 0 0 8 1\n2 0 8 8 1\n").unwrap();
    std::fs::write(scene.path("image"), vec![FILL; 1 << 20]).unwrap();
    scene.done("replay trace image --speed max --json out");
    assert_eq!(scene.json("out")["reads"]["requests"], 2);
    assert!(scene.bytes("image").iter().all(|&byte| byte == FILL));
}

#[test]
fn what_exists_is_kept_unless_it_is_named() {
    let scene = scene();
    std::fs::write(scene.path("image"), vec![FILL; 1 << 20]).unwrap();
    std::fs::write(scene.path("bad"), spc() + "e,0,512,W\n").unwrap();
    std::fs::hard_link(scene.path("trace"), scene.path("twin")).unwrap();
    for (line, parts) in [
        ("replay trace image", &["image: the trace has writes", "--destroy image"][..]),
        ("replay trace image --destroy other", &["--destroy names other instead"]),
        ("replay trace image --destroy ./image", &["repeat the same name"]),
        ("replay bad image --destroy image", &["bad: line 42: ", "4 fields"]),
        ("replay trace image --destroy image --device x", &["no device `x`", "d, e"]),
        ("replay trace image --destroy image --size 1m", &["--size is for a file"]),
        ("replay trace image --destroy image --depth 4", &["--depth is for --speed max"]),
        (
            "replay trace image --destroy image --fit refuse --device d --json trace",
            &["trace: older results"],
        ),
        (
            "replay trace image --destroy image --json trace --force",
            &["trace: it is the trace itself", "--json"],
        ),
        (
            "replay trace image --destroy image --json ./image --force",
            &["./image: it is the target", "--json"],
        ),
        ("replay trace trace --destroy trace", &["trace: it is the trace itself", "another target"]),
        ("replay trace twin --destroy twin", &["twin: it is the trace itself", "another target"]),
    ] {
        says(&scene.refused(line), parts);
        assert!(scene.bytes("image").iter().all(|&byte| byte == FILL), "{line}");
        assert_eq!(scene.text("trace"), spc(), "{line}");
    }
    for leave in ["--destroy image ", ""] {
        let dry = scene.done(&format!("replay trace image {leave}--dry-run"));
        says(&dry.stdout, &["41 requests", "Would overwrite image", "Nothing was sent."]);
    }
    assert!(scene.bytes("image").iter().all(|&byte| byte == FILL));
}

#[test]
fn what_is_no_target_or_no_trace_is_refused_in_one_line() {
    let scene = scene();
    std::fs::write(scene.path("words"), "not a trace\n").unwrap();
    std::fs::write(scene.path("packed"), b"\x1f\x8b\x08\x00").unwrap();
    for (line, parts) in [
        ("replay trace sim:floppy", &["sim:floppy: ", "no drive `floppy`", "--list"][..]),
        ("replay trace sim:steady,quick", &["what is `quick`?", "size=SIZE"]),
        ("replay trace sim:steady,size=1000", &["size: ", "512"]),
        ("replay trace sim:steady,load=words", &["words: ", "no state of this drive"]),
        ("replay trace sim:steady --size 1g", &["write sim:MODEL,size=SIZE"]),
        ("replay trace sim:steady --destroy sim:steady", &["nothing to destroy"]),
        ("replay trace data", &["data: no volume is here", "evenkeel create"]),
        ("replay trace none/new", &["no such folder"]),
        ("replay trace new --destroy new", &["nothing to destroy"]),
        ("replay trace nbd://", &["nbd://"]),
        ("replay trace nbd+unix:///?socket=gone --destroy nbd+unix:///?socket=gone", &["cannot connect"]),
        ("replay gone new", &["gone: No such file"]),
        ("replay data new", &["data: "]),
        ("replay /dev/null new", &["/dev/null: a trace is read twice"]),
        ("replay words new", &["words: ", "not a trace", "spc"]),
        ("replay packed new", &["packed: ", "gunzip"]),
        ("replay trace new --format msr", &["line 1: ", "fields"]),
    ] {
        let ran = scene.run(line);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        says(&ran.complaint(), parts);
    }
    assert!(!scene.path("new").exists());
}

/// The report of a replay of `trace` onto `target`, without what the clock says.
fn simulated(scene: &Scene, target: &str) -> Value {
    let ran = scene.done(&format!("replay trace {target} --seed 5 --json out --force"));
    says(&ran.stdout, &[&format!("onto {target}: model"), "in virtual time"]);
    let mut report = scene.json("out");
    report["started_unix_s"] = 0.into();
    report
}

#[test]
fn a_replay_onto_a_simulated_drive_is_exact_and_the_same_each_time() {
    let scene = scene();
    let once = simulated(&scene, "sim:sata-7200");
    assert_eq!(once, simulated(&scene, "sim:sata-7200"));
    assert_eq!((&once["target"]["kind"], &once["ending"]), (&"model".into(), &"complete".into()));
    assert_eq!(
        (&once["reads"]["requests"], &once["writes"]["requests"]),
        (&READS.into(), &(WRITES + 1).into())
    );
    assert_eq!((&once["lateness_s"]["max"], &once["held_back"]), (&0.0.into(), &0.into()));
    // The last write is due at 0.4 s, and durable once the platters have turned to its place.
    let elapsed_s = once["elapsed_s"].as_f64().unwrap();
    assert!((0.4..0.5).contains(&elapsed_s), "{elapsed_s}");
    says(&scene.done("replay trace sim:steady --dry-run").stdout, &["Would simulate sim:steady, 1 GiB"]);
}

#[test]
fn a_simulated_drive_takes_the_time_of_its_kind_however_long_the_trace_is() {
    let scene = Scene::new();
    // A read a minute for almost two hours, each somewhere else.
    let minute_ns = 60_000_000_000_u64;
    let lines = (0..100).map(|at| format!("{} 0 {} 8 1\n", at * minute_ns, at * 20_008 % 2_000_000));
    std::fs::write(scene.path("trace"), lines.collect::<String>()).unwrap();
    let mean_s = |target: &str| simulated(&scene, target)["reads"]["latency_s"]["mean"].as_f64().unwrap();
    let (flash_s, fresh_s, disk_s) =
        (mean_s("sim:nvme-mlc"), mean_s("sim:nvme-mlc,fresh"), mean_s("sim:sata-7200"));
    // A read of the cells, what never was in any, and an arm's way and half a turn of 8.3 ms.
    assert!((80e-6..100e-6).contains(&flash_s), "{flash_s}");
    assert!(fresh_s < 75e-6, "{fresh_s}");
    assert!((4e-3..25e-3).contains(&disk_s), "{disk_s}");
}

#[test]
fn a_burst_waits_longer_on_a_drive_that_has_garbage_to_collect() {
    let scene = Scene::new();
    // Fewer writes than the drive has spare room, all over it.
    let lines = (0..1000_u64).map(|at| format!("{} 0 {} 8 0\n", at * 200_000, at * 7919 % 16_000 * 8));
    std::fs::write(scene.path("trace"), lines.collect::<String>()).unwrap();
    let p99_s = |target: &str| simulated(&scene, target)["writes"]["latency_s"]["p99"].as_f64().unwrap();
    let (filled_s, used_s) =
        (p99_s("sim:sata-2011,size=64m"), p99_s("sim:sata-2011,size=64m,precondition=2"));
    assert!(used_s > filled_s, "{used_s} after {filled_s}");
}

#[test]
fn what_does_not_fit_is_refused_wrapped_or_scaled_as_asked() {
    let scene = scene();
    std::fs::write(scene.path("image"), vec![FILL; 64 << 10]).unwrap();
    let line = scene.run("replay trace image --destroy image --device d --fit refuse");
    assert_eq!(line.code, Some(2), "{line:?}");
    says(&line.complaint(), &["image: the trace reaches", "--fit wrap or scale"]);
    assert!(scene.bytes("image").iter().all(|&byte| byte == FILL));
    for fit in ["wrap", "scale"] {
        scene.done(&format!(
            "replay trace image --destroy image --device d --fit {fit} --speed max --json {fit}"
        ));
        let report = scene.json(fit);
        counts(&report);
        assert!(report["moved"].as_u64().unwrap() > 0);
        assert_eq!(scene.bytes("image").len(), 64 << 10);
    }
}

#[test]
fn a_replay_that_is_interrupted_tells_what_it_measured_and_removes_its_file() {
    let scene = Scene::new();
    // Ten requests, and one in an hour.
    let lines: String = (0..10).map(|at| format!("{at} 0 {at} 1 0\n")).collect();
    std::fs::write(scene.path("trace"), lines + "3600000000000 0 0 1 0\n").unwrap();
    let line = "replay trace data/new --json out";
    let mut child = scene.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    // Its file is there and filled before the first request; what follows takes an hour.
    while scene.names("data").is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "it did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_secs(1));
    assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    let sent =
        Command::new("sh").args(["-c", "kill -s INT \"$0\"", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let ran = Ran::of(line, child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(scene.names("data").is_empty());
    // How far it came in a second is the machine's affair; on a busy one it had not begun, and there is nothing to tell.
    if scene.path("out").exists() {
        let report = scene.json("out");
        let sent = report["sent"].as_u64().unwrap();
        says(&ran.complaint(), &[&format!("interrupted after {sent} of 11 requests")]);
        assert!(sent <= 10, "the last one is due in an hour");
        assert_eq!((&report["ending"], &report["writes"]["requests"]), (&"interrupted".into(), &sent.into()));
    }
}

#[test]
fn recorded_traces_of_others_are_replayed_whole() {
    const NAME: &str = "recorded_traces_of_others_are_replayed_whole";
    let Some(folder) = std::env::var_os("EVENKEEL_TRACES").map(std::path::PathBuf::from) else {
        return skip(NAME, "EVENKEEL_TRACES names no folder with traces");
    };
    let scene = Scene::new();
    for (name, requests) in [("financial1-head.ascii", 10_000), ("msr-rw4060.trace", 10_000)] {
        let trace = folder.join(name);
        if !trace.is_file() {
            skip(NAME, &format!("there is no {name}"));
            continue;
        }
        let trace = trace.display();
        scene.done(&format!("replay {trace} data/new --size 64m --speed max --json out --force"));
        let report = scene.json("out");
        let count = |kind: &str| report[kind]["requests"].as_u64().unwrap();
        assert_eq!(count("reads") + count("writes"), requests);
        for (kind, bytes) in [("reads", "read_bytes"), ("writes", "written_bytes")] {
            assert_eq!(report[kind]["bytes"], report["trace"][bytes], "{kind}");
        }
    }
}
