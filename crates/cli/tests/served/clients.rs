//! Clients that others wrote, on a volume that is served by the real process.

use std::path::Path;

use serde_json::Value;

use crate::support::root::{programs, ran, run};
use crate::support::served::{Volume, noise_file};
use crate::support::{Scene, or_skip, says};

const SIZE: usize = 64 << 20;
const FLAGS: &str = "--size 64m --log-size 16m --buffer 8m";

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn nbdinfo_is_told_what_the_export_is_and_can() {
    or_skip!(programs(&["nbdinfo"]));
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    let uri = server.told("ready: ");
    assert_eq!(uri, volume.uri());
    let told: Value = serde_json::from_str(&ran("nbdinfo", &["--json", &uri])).unwrap();
    assert_eq!(told["protocol"], "newstyle-fixed");
    let export = &told["exports"][0];
    assert_eq!(export["export-size"], SIZE);
    for (name, value) in [
        ("is_read_only", false),
        ("can_flush", true),
        ("can_fua", true),
        ("can_multi_conn", true),
        ("can_trim", true),
        ("can_zero", true),
    ] {
        assert_eq!(export[name], value, "{name}: {export}");
    }
    assert_eq!((&export["block_size_minimum"], &export["block_size_preferred"]), (&1.into(), &4096.into()));
    assert_eq!(ran("nbdinfo", &["--size", &uri]).trim(), SIZE.to_string());
    says(&ran("nbdinfo", &["--list", &uri]), &["export=\"\""]);
    // Nothing is written yet: one hole.
    let map = ran("nbdinfo", &["--map", "--totals", &uri]);
    assert!(map.contains(&SIZE.to_string()) && map.contains("hole") && !map.contains("data"), "{map}");
    server.stop();

    let server = volume.serve("--read-only");
    let told: Value = serde_json::from_str(&ran("nbdinfo", &["--json", &uri])).unwrap();
    assert_eq!(told["exports"][0]["is_read_only"], true);
    server.stop();
}

#[test]
fn nbdcopy_brings_a_disk_in_and_out_unchanged_also_through_a_kill() {
    or_skip!(programs(&["nbdcopy"]));
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let (image, back) = (scene.path("image"), scene.path("back"));
    noise_file(&image, 1, SIZE - 3 * 4096 - 77);
    // A hole in the middle and zeros at the end.
    let mut bytes = scene.bytes("image");
    bytes[10_000_001..17_000_000].fill(0);
    bytes.resize(SIZE, 0);
    std::fs::write(&image, &bytes).unwrap();

    let mut server = volume.serve("");
    ran("nbdcopy", &[&text(&image), &volume.uri()]);
    ran("nbdcopy", &[&volume.uri(), &text(&back)]);
    assert!(scene.bytes("back") == bytes, "it came back changed");
    // Nothing asked for a flush.
    server.kill();
    let server = volume.serve("");
    std::fs::remove_file(&back).unwrap();
    ran("nbdcopy", &["--connections=1", &volume.uri(), &text(&back)]);
    assert!(scene.bytes("back") == bytes, "the kill changed it");
    server.stop();
    assert!(scene.done("check disk").stdout.contains(" 0 damaged"));
}

#[test]
fn nbdsh_may_use_every_command_at_any_offset_and_of_any_size() {
    or_skip!(programs(&["nbdsh"]).and_then(|()| run("nbdsh", &["-c", "pass"]).map(drop)));
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = volume.serve("");
    let (first, second) = (scene.path("first.py"), scene.path("second.py"));
    std::fs::write(&first, EVERY_COMMAND).unwrap();
    std::fs::write(&second, STILL_THERE).unwrap();
    let script = |path: &Path| format!("exec(open({:?}).read())", text(path));
    let said = ran("nbdsh", &["--base-allocation", "-u", &volume.uri(), "-c", &script(&first)]);
    assert_eq!(said.trim(), "done");
    server.kill();
    let server = volume.serve("");
    let said = ran("nbdsh", &["-u", &volume.uri(), "-c", &script(&second)]);
    assert_eq!(said.trim(), "done");
    server.stop();
}

/// Python for nbdsh: `h` is the connection.
const EVERY_COMMAND: &str = r#"
import errno, random
size = h.get_size()
h.set_strict_mode(0)  # what is wrong reaches the server
random.seed(7)
model = bytearray(4 << 20)

def refused(number, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == number, (error.errnum, number)
    else:
        assert False, "it was not refused"

# Odd sizes at odd offsets, beside an array.
for turn in range(400):
    length = random.choice([1, 2, 511, 512, 513, 4095, 4096, 4097, 16384, 65537])
    offset = random.randrange(len(model) - length)
    what = random.randrange(5)
    flags = random.choice([0, nbd.CMD_FLAG_FUA])
    if what < 2:
        data = random.randbytes(length)
        h.pwrite(data, offset, flags)
        model[offset:offset + length] = data
    elif what == 2:
        h.zero(length, offset, flags | random.choice([0, nbd.CMD_FLAG_NO_HOLE]))
        model[offset:offset + length] = bytes(length)
    elif what == 3:
        h.flush()
    assert h.pread(length, offset) == model[offset:offset + length], (turn, offset, length)
assert h.pread(len(model), 0) == model

# Several at once, answered in any order.
cookies = [h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray([n] * 1001)), 5_000_001 + n * 1001) for n in range(64)]
cookies.append(h.aio_flush())
for cookie in cookies:
    while not h.aio_command_completed(cookie):
        h.poll(-1)
for n in range(64):
    assert h.pread(1001, 5_000_001 + n * 1001) == bytes([n] * 1001)

# The last byte, and beyond it.
h.pwrite(b"!", size - 1)
assert h.pread(1, size - 1) == b"!"
refused(errno.ENOSPC, lambda: h.pwrite(b"??", size - 1))
refused(errno.ENOSPC, lambda: h.zero(2, size - 1))
refused(errno.EINVAL, lambda: h.pread(2, size - 1))
refused(errno.EINVAL, lambda: h.trim(4096, size))
refused(errno.EINVAL, lambda: h.pread(1, 1 << 63))
assert h.pread(1, size - 1) == b"!"

# What is told of allocation, and what a trim does to it.
def holes(offset, length):
    found = []
    h.block_status(length, offset, lambda context, at, entries, error: found.extend(entries) or 0)
    return found[1::2]
h.pwrite(b"x" * 65536, 8 << 20)
assert holes(8 << 20, 65536) == [0]
h.trim(65536, 8 << 20)
assert h.pread(65536, 8 << 20) == bytes(65536)
h.flush()
assert holes(8 << 20, 65536) == [nbd.STATE_HOLE | nbd.STATE_ZERO]
assert h.pread(65536, 8 << 20) == bytes(65536)
h.pwrite(b"y" * 100, (8 << 20) + 5000)
h.trim(10, (8 << 20) + 5010)
assert h.pread(10, (8 << 20) + 5000) == b"y" * 10 and h.pread(80, (8 << 20) + 5020) == b"y" * 80
h.zero(1 << 20, 9 << 20, nbd.CMD_FLAG_NO_HOLE)
assert h.pread(1 << 20, 9 << 20) == bytes(1 << 20)
h.pwrite(random.randbytes(1 << 20) + b"last", 12 << 20)
print("done")
"#;

const STILL_THERE: &str = r#"
import random
size = h.get_size()
for n in range(64):
    assert h.pread(1001, 5_000_001 + n * 1001) == bytes([n] * 1001)
assert h.pread(1, size - 1) == b"!"
assert h.pread(4, 13 << 20) == b"last"
assert h.pread(65536, 8 << 20)[:5000] == bytes(5000)
h.shutdown()
print("done")
"#;

#[test]
fn qemu_converts_compares_and_plays() {
    or_skip!(programs(&["qemu-img", "qemu-io"]));
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = volume.serve("");
    let (raw, qcow2) = (text(&scene.path("raw")), text(&scene.path("qcow2")));
    noise_file(&scene.path("raw"), 3, SIZE / 2);
    ran("qemu-img", &["resize", "-q", "-f", "raw", &raw, &SIZE.to_string()]);
    let uri = volume.uri();
    ran("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &raw, &uri]);
    says(&ran("qemu-img", &["compare", "-f", "raw", "-F", "raw", &raw, &uri]), &["identical"]);
    ran("qemu-img", &["convert", "-W", "-f", "raw", "-O", "qcow2", &uri, &qcow2]);
    says(&ran("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", &raw, &qcow2]), &["identical"]);
    // A cheaper way that a wrong answer about allocation would spoil.
    says(&ran("qemu-img", &["map", "-f", "raw", &uri]), &["Length"]);

    let play = [
        "write -P 0x11 0 1m",
        "write -P 0x22 513 70001",
        "write -f -P 0x33 200000 5",
        "write -z 300000 12345",
        "write -z -u 400000 54321",
        "discard 600000 4096",
        "aio_write -P 0x44 2m 64k",
        "aio_write -P 0x55 3m 64k",
        "aio_flush",
        "flush",
    ];
    let look = [
        "read -P 0x11 0 513",
        "read -P 0x22 513 70001",
        "read -P 0x11 70514 1000",
        "read -P 0x33 200000 5",
        "read -P 0 300000 12345",
        "read -P 0x11 312345 1000",
        "read -P 0 400000 54321",
        "read -P 0x44 2m 64k",
        "read -P 0x55 3m 64k",
    ];
    let qemu_io = |commands: &[&str]| {
        let mut args = vec!["-f", "raw", &uri];
        commands.iter().for_each(|command| args.extend(["-c", command]));
        let said = ran("qemu-io", &args);
        assert!(!said.contains("failed") && !said.contains("error"), "{said}");
        said
    };
    qemu_io(&play);
    qemu_io(&look);
    server.kill();
    let server = volume.serve("--backend threads");
    qemu_io(&look);
    server.stop();
}

#[test]
fn fio_verifies_what_several_jobs_wrote_at_random_before_a_kill() {
    or_skip!(programs(&["fio"]).and_then(|()| run("fio", &["--enghelp=nbd"]).map(drop)));
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = volume.serve("");
    // Each job in a part of its own. None of them asks for a flush but the third.
    let jobs = format!(
        "[global]\nioengine=nbd\nuri={}\nrw=randwrite\niodepth=8\nverify=crc32c\nverify_fatal=1\nverify_state_save=0\nrandseed=42\n\
         size=12m\n\
         [small]\nbs=4k\noffset=0\n[odd]\nbs=12k\noffset=16m\n[flushed]\nbs=8k\nfsync=16\noffset=32m\n\
         [large]\nbs=64k\noffset=48m\n",
        volume.uri()
    );
    std::fs::write(scene.path("jobs"), jobs).unwrap();
    let (jobs, output) = (text(&scene.path("jobs")), text(&scene.path("said")));
    let fio = |flags: &[&str]| {
        let mut args = vec!["--output-format=json", "--output", &output];
        args.extend(flags);
        args.push(&jobs);
        ran("fio", &args);
        let said = scene.json("said");
        for job in crate::support::list(&said, "jobs") {
            assert_eq!(job["error"], 0, "{job}");
        }
        said
    };
    // Written over itself, so that it is deltas as well as new pages; read back while it is served.
    fio(&["--do_verify=1"]);
    fio(&["--do_verify=0", "--loops=2"]);
    server.kill();
    let server = volume.serve("");
    let said = fio(&["--verify_only=1"]);
    let read = |job: &Value| {
        job["read"]["total_ios"].as_u64().unwrap() + job["write"]["total_ios"].as_u64().unwrap()
    };
    assert!(crate::support::list(&said, "jobs").iter().all(|job| read(job) > 0), "nothing was verified");
    assert!(server.status().counters.replayed_units > 0);
    server.stop();
}
