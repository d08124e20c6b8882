//! Simulated drives, served by the real process.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use support::root::{programs, run};
use support::{Scene, says, skip};

/// A drive that is ended whatever becomes of its test.
struct Drive(Child);

impl Drop for Drive {
    fn drop(&mut self) {
        let _it_has_ended = self.0.kill();
        let _it_has_ended = self.0.wait();
    }
}

impl Drive {
    fn signal(&self, name: &str) {
        let done = Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap();
        assert!(done.success());
    }
}

#[test]
fn every_drive_is_named_with_its_sources() {
    let scene = Scene::new();
    let listed = scene.done("drive --list").stdout;
    says(&listed, &["nvme-mlc", "open-channel", "sata-2011", "sata-2008", "tlc-2020", "steady", "sd-card"]);
    says(&listed, &["sas-15k", "sata-7200", "from: MQSim"]);
    assert_eq!(listed.lines().count(), 18, "two lines each: {listed}");
}

#[test]
fn what_cannot_be_served_is_refused_in_a_line() {
    let scene = Scene::new();
    for (line, parts) in [
        ("drive floppy --size 1g --nbd unix:s", ["floppy", "--list"]),
        ("drive sas-15k --size 1g --precondition 1 --nbd unix:s", ["sas-15k", "--precondition"]),
        ("drive nvme-mlc --size 1000 --nbd unix:s", ["--size", "512"]),
        ("drive nvme-mlc --size 1g --nbd unix:none/s", ["none/s", "No such file"]),
    ] {
        says(&scene.refused(line), &parts);
    }
    for (line, parts) in [
        ("drive nvme-mlc --size 1g", ["--nbd", "required"]),
        ("drive nvme-mlc --size 1g --precondition=-1 --nbd unix:s", ["-1", "from 0 to 100"]),
        ("drive --list --size 1g", ["--list", "cannot be used"]),
    ] {
        says(&scene.misused(line), &parts);
    }
}

#[test]
fn a_pulled_plug_takes_what_was_buffered_and_leaves_what_was_flushed() {
    const NAME: &str = "a_pulled_plug_takes_what_was_buffered_and_leaves_what_was_flushed";
    if let Err(why) = programs(&["nbdsh"]).and_then(|()| run("nbdsh", &["-c", "pass"]).map(drop)) {
        return skip(NAME, &why);
    }
    for (model, buffered) in [("open-channel", "0"), ("steady", "50")] {
        let scene = Scene::new();
        let mut command = scene.command(&format!("drive {model} --size 64m --nbd unix:drive.sock"));
        let mut drive = Drive(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let mut told = BufReader::new(drive.0.stdout.take().unwrap());
        let mut complained = BufReader::new(drive.0.stderr.take().unwrap());
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        let uri = line.trim().strip_prefix("ready: ").expect("where it is").to_owned();
        let script = "h.pwrite(b'1' * 4096, 0); h.flush(); h.pwrite(b'2' * 4096, 8192); \
                      h.pwrite(b'3' * 4096, 16384, nbd.CMD_FLAG_FUA); print(h.pread(512, 8192)[0])";
        assert_eq!(run("nbdsh", &["-u", &uri, "-c", script]).unwrap().trim(), "50");
        drive.signal("-USR1");
        line.clear();
        complained.read_line(&mut line).unwrap();
        says(&line, &["power cut", "ready again"]);
        let script = "print(h.pread(512, 0)[0], h.pread(512, 8192)[0], h.pread(512, 16384)[0])";
        let found = run("nbdsh", &["-u", &uri, "-c", script]).unwrap();
        assert_eq!(found.trim(), format!("49 {buffered} 51"), "{model}");
        drive.signal("-TERM");
        let mut rest = String::new();
        told.read_to_string(&mut rest).unwrap();
        says(&rest, &["answered: ", "late by", "within 20 us"]);
        assert!(drive.0.wait().unwrap().success());
    }
}
