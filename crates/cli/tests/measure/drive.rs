//! Simulated drives, served by the real process.

use crate::support::root::{programs, run};
use crate::support::served::{Server, patiently};
use crate::support::{Scene, or_skip, says};
use serde_json::Value;

/// Serves `evenkeel drive FLAGS` on the socket `drive` of the scene.
fn serve(scene: &Scene, flags: &str) -> Server {
    let command = scene.command(&format!("drive {flags} --nbd unix:drive"));
    Server::start(scene.folder().to_owned(), scene.path("stderr"), command).ready()
}

/// Why nothing can be asked of a drive here.
fn possible() -> Result<(), String> {
    programs(&["nbdsh"]).and_then(|()| run("nbdsh", &["-c", "pass"]).map(drop))
}

/// What a client prints that does `script`.
#[track_caller]
fn client(uri: &str, script: &str) -> String {
    let printed = run("nbdsh", &["-u", uri, "-c", script]).unwrap_or_else(|why| panic!("{script}: {why}"));
    printed.trim().to_owned()
}

#[test]
fn every_drive_is_named_with_its_size_and_its_sources() {
    let scene = Scene::new();
    let listed = scene.done("drive --list").stdout;
    says(&listed, &["nvme-mlc", "open-channel", "sata-2011", "sata-2008", "tlc-2020", "steady", "sd-card"]);
    says(&listed, &["sas-15k", "sata-7200", "from: MQSim", "32 GiB"]);
    assert_eq!(listed.lines().count(), 18, "two lines each: {listed}");
}

#[test]
fn what_cannot_be_served_is_refused_in_a_line() {
    let scene = Scene::new();
    std::fs::write(scene.path("words"), "not a drive's past").unwrap();
    for (line, parts) in [
        ("drive sas-15k --size 1g --precondition --nbd unix:s", ["sas-15k", "--precondition"]),
        ("drive nvme-mlc --size 1000 --nbd unix:s", ["--size", "512"]),
        ("drive nvme-mlc --size 1g --nbd unix:none/s", ["none/s", "No such file"]),
        ("drive nvme-mlc --size 64m --load none --nbd unix:s", ["none: ", "No such file"]),
        ("drive nvme-mlc --size 64m --load words --nbd unix:s", ["words: ", "state"]),
        ("drive nvme-mlc --size 64m --precondition --save words --nbd unix:s", ["words: ", "exists already"]),
        ("drive nvme-mlc --size 64m --file words --nbd unix:s", ["words: ", "exists already"]),
        ("drive --cut tcp:localhost:1", ["--cut", "SIGUSR1"]),
    ] {
        says(&scene.refused(line), &parts);
    }
    for (line, parts) in [
        ("drive floppy", ["floppy", "--list"]),
        ("drive nvme-mlc --size 1g", ["--nbd", "required"]),
        ("drive nvme-mlc --size 1g --precondition=-1 --nbd unix:s", ["-1", "from 0 to 100"]),
        ("drive nvme-mlc --size 1g --save f --nbd unix:s", ["--precondition", "required"]),
        ("drive --list --size 1g", ["--list", "cannot be used"]),
        ("drive --cut unix:s --size 1g", ["--cut", "cannot be used"]),
    ] {
        says(&scene.misused(line), &parts);
    }
    for line in ["drive --cut unix:gone", "drive --status unix:gone"] {
        let ran = scene.run(line);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        says(&ran.complaint(), &["gone: no drive is served there"]);
    }
}

#[test]
fn a_model_of_ones_own_is_served_and_one_that_is_none_is_told_in_a_line() {
    let scene = Scene::new();
    let model = |name: &str, text: &str| std::fs::write(scene.path(name), text).unwrap();
    model("nothing.toml", "channels = 4\n");
    model("none.toml", "based_on = \"steady\"\n\nchannels = 0\n");
    model("unknown.toml", "based_on = \"steady\"\n\nchanels = 4\n");
    model("arm.toml", "based_on = \"sas-15k\"\nseek_mean_ms = 100\n");
    for (name, parts) in [
        ("missing.toml", ["missing.toml", "No such file"]),
        ("nothing.toml", ["nothing.toml: it names no preset", "based_on"]),
        ("none.toml", ["none.toml: channels is 0", "1 to 256"]),
        ("unknown.toml", ["unknown.toml: line 3", "chanels"]),
        ("arm.toml", ["arm.toml: the mean seek", "it takes"]),
    ] {
        says(&scene.refused(&format!("drive {name} --size 64m --nbd unix:s")), &parts);
        says(&scene.refused(&format!("reproduce writes-ssd --drive {name} --out results")), &parts);
    }
    model("words.json", "no probe\n");
    says(&scene.refused("drive --fit words.json"), &["words.json: ", "`evenkeel probe`"]);
    assert!(!scene.path("results").exists());
    model("mine.toml", "based_on = \"sata-2011\"\nchannels = 4\nprogram_us = 450\n");
    drop(serve(&scene, "mine.toml --size 64m"));
    let ran = scene.run("reproduce writes-ssd --quick --drive mine.toml --out results");
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let document = scene.json("results/reproduce.json");
    assert_eq!(document["replaced_drives"][0], "mine.toml in the place of sata-2011");
}

#[test]
fn clients_are_told_which_drives_have_an_arm() {
    or_skip!(possible());
    for (model, has_arm) in [("sas-15k", "True"), ("nvme-mlc", "False")] {
        let scene = Scene::new();
        let drive = serve(&scene, &format!("{model} --size 64m"));
        assert_eq!(client(&drive.told("ready: "), "print(h.is_rotational())"), has_arm, "{model}");
    }
}

#[test]
fn a_pulled_plug_takes_what_was_buffered_and_leaves_what_was_flushed() {
    or_skip!(possible());
    // One waits for a flush and loses what none asked for; the other has capacitors.
    for (model, flags, by_signal, buffered) in [
        ("open-channel", "", true, "0"),
        ("steady", "", false, "50"),
        ("open-channel", "--file bytes", false, "0"),
    ] {
        let scene = Scene::new();
        let drive = serve(&scene, &format!("{model} --size 64m {flags}"));
        let uri = drive.told("ready: ");
        let script = "h.pwrite(b'1' * 4096, 0); h.flush(); h.pwrite(b'2' * 4096, 8192); \
                      h.pwrite(b'3' * 4096, 16384, nbd.CMD_FLAG_FUA); print(h.pread(512, 8192)[0])";
        assert_eq!(client(&uri, script), "50");
        if by_signal {
            drive.signal("USR1");
            patiently("the cut", || drive.complaints().contains("power cut: ready again in").then_some(()));
        } else {
            says(&scene.done("drive --cut unix:drive").stdout, &["power cut: ready again in"]);
        }
        let script = "print(h.pread(512, 0)[0], h.pread(512, 8192)[0], h.pread(512, 16384)[0])";
        assert_eq!(client(&uri, script), format!("49 {buffered} 51"), "{model}");

        let status: Value = serde_json::from_str(&scene.done("drive --status unix:drive").stdout).unwrap();
        assert_eq!(
            (&status["schema"], &status["model"], &status["cuts"]),
            (&"evenkeel.drive/1".into(), &model.into(), &1.into())
        );
        assert_eq!(status["lateness_s"]["requests"], 8, "{status}");
        drive.signal("TERM");
        says(&drive.last_words(), &["answered: 8 requests", "late by", "within 20 us"]);
        let left = ["drive", "drive.control", "bytes"].map(|name| scene.path(name).exists());
        assert_eq!(left, [false; 3]);
    }
}

#[test]
fn who_was_connected_when_the_power_failed_gets_nothing_any_more() {
    or_skip!(possible());
    let scene = Scene::new();
    let drive = serve(&scene, "sata-2011 --size 64m");
    let uri = drive.told("ready: ");
    let cut =
        format!("{} drive --cut unix:{}", env!("CARGO_BIN_EXE_evenkeel"), scene.path("drive").display());
    let script = format!(
        "import os\nh.pwrite(b'1' * 4096, 0)\nassert os.system('{cut}') == 0\ntry:\n    h.pwrite(b'2' * 4096, 0)\n    \
         h.flush()\n    print('went on')\nexcept nbd.Error:\n    print('lost')"
    );
    let printed = client(&uri, &script);
    assert_eq!(printed.lines().last(), Some("lost"), "{printed}");
    assert_eq!(client(&uri, "print(h.pread(512, 0)[0] != 50)"), "True");
    drive.signal("INT");
    drive.last_words();
}

#[test]
fn a_power_cut_ends_the_drive_where_that_is_asked() {
    let scene = Scene::new();
    let drive = serve(&scene, "sata-7200 --size 64m --after-cut exit");
    says(&scene.done("drive --cut unix:drive").stdout, &["power cut: it ends"]);
    says(&drive.last_words(), &["answered: 0 requests"]);
    let drive = serve(&scene, "sata-2008 --size 64m --after-cut exit");
    drive.signal("USR1");
    drive.last_words();
}

#[test]
fn a_client_finds_all_that_it_may_ask_for() {
    or_skip!(possible());
    let scene = Scene::new();
    let drive = serve(&scene, "nvme-mlc --size 64m");
    let uri = drive.told("ready: ");
    let script = "print(h.get_size(), h.get_block_size(nbd.SIZE_MINIMUM), h.can_flush(), h.can_fua(), h.can_trim(), \
                  h.can_zero(), h.can_multi_conn())";
    assert_eq!(client(&uri, script), "67108864 512 True True True True True");
    let script = "h.pwrite(b'1' * 65536, 0); h.zero(4096, 4096); h.trim(8192, 16384, nbd.CMD_FLAG_FUA); h.flush(); \
                  print(h.pread(512, 0)[0], h.pread(512, 4096)[0], h.pread(512, 8192)[0], h.pread(512, 16384)[0])";
    assert_eq!(client(&uri, script), "49 0 49 0");
    // What one client wrote the other finds.
    assert_eq!(client(&uri, "print(h.pread(512, 8192)[0])"), "49");
    drive.signal("TERM");
    drive.last_words();
}

#[test]
fn a_past_is_saved_and_loaded_by_the_drive_that_it_fits() {
    let scene = Scene::new();
    let drive = serve(&scene, "sata-2008 --size 64m --precondition --save past");
    drive.signal("TERM");
    drive.last_words();
    let drive = serve(&scene, "sata-2008 --size 64m --load past");
    drive.signal("TERM");
    drive.last_words();
    let line = scene.refused("drive sata-2008 --size 128m --load past --nbd unix:drive");
    says(&line, &["past: ", "no state of this drive", "model and size"]);
}
