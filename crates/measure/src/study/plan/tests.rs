//! What a plan may say, what it may not, and what follows from it.

use std::path::Path;

use super::presets::PRESETS;
use super::*;

const FACTORS: &str = r#"
[[factor]]
name = "file_system"
values = ["ext4", "xfs", "btrfs"]
"#;

fn plan_of(head: &str, factors: &str) -> Result<Plan, PlanError> {
    let usual = "name = \"p\"\nruns = 2\ntime = \"2s\"\ninterval = \"0.5s\"\n";
    let tail = "[data]\nsize = \"64m\"\n[[workload]]\nname = \"mailserver\"\n";
    Plan::parse(&format!("{usual}{head}\n{tail}{factors}"), Path::new(""))
}

fn refusal(head: &str, factors: &str) -> String {
    plan_of(head, factors).err().map(|error| error.to_string()).expect("such a plan is refused")
}

#[test]
fn every_preset_is_a_plan_with_valid_configurations() {
    for preset in PRESETS {
        let plan = Plan::parse(preset.text, Path::new(""))
            .unwrap_or_else(|error| panic!("{}: {error}", preset.name));
        assert_eq!(plan.name, preset.name);
        let sampled = plan.sampled().unwrap();
        assert!(!sampled.configurations.is_empty(), "{}", preset.name);
        assert!(plan.devices_are_loops(), "a preset overwrites nothing of anybody's");
    }
}

#[test]
fn the_paper_s_preset_has_its_nine_parameters_times_and_data() {
    let plan = Plan::parse(presets::find("paper").unwrap().text, Path::new("")).unwrap();
    let names: Vec<&str> = plan.space.factors.iter().map(|factor| factor.name.as_str()).collect();
    let nine = [
        "block_size",
        "inode_size",
        "journal_mode",
        "allocation_groups",
        "nodatacow",
        "nodatasum",
        "atime",
        "io_scheduler",
        "device",
    ];
    assert_eq!(names[0], "file_system");
    assert_eq!(names[1..], nine);
    let times: Vec<f64> = plan.workloads.iter().map(|workload| workload.time_s).collect();
    assert_eq!(times, [2000.0, 800.0, 800.0]);
    for workload in &plan.workloads {
        assert_eq!(workload.data_bytes(), Some(10 << 30));
        assert_eq!(plan.memory_bytes(workload), Some(4 << 30));
    }
    assert_eq!((plan.runs, plan.interval_s, plan.sampled().unwrap().configurations.len()), (10, 10.0, 107));
}

#[test]
fn a_factor_applies_where_its_file_system_has_it() {
    let factors = FACTORS.to_owned()
        + r#"
[[factor]]
name = "journal_mode"
values = ["ordered", "journal"]
[[factor]]
name = "nodatacow"
values = ["off", "on"]
[[factor]]
name = "commit"
values = [5, 60]
mount = { ext4 = "commit={}", btrfs = "commit={}" }
"#;
    let sampled = plan_of("", &factors).unwrap().sampled().unwrap();
    // ext4: 2 journal modes x 2 commits; XFS: none of them; btrfs: 2 x 2.
    assert_eq!((sampled.valid, sampled.configurations.len()), (Some(9), 9));
    let of = |label: &str| sampled.configurations.iter().find(|one| one.label == label).expect(label);
    assert_eq!(of("xfs").settings, [("file_system".to_owned(), "xfs".to_owned())]);
    assert_eq!(of("ext4-journal-60").options.mount, ["data=journal", "commit=60"]);
    assert_eq!(of("btrfs-nodatacow-5").options.mount, ["nodatacow", "commit=5"]);
    assert_eq!(of("btrfs-no-nodatacow-5").options.mount, ["commit=5"]);
}

#[test]
fn what_does_not_go_together_is_left_out() {
    let factors = FACTORS.to_owned()
        + r#"
[[factor]]
name = "block_size"
values = { ext4 = ["1k", "4k"], xfs = ["4k"] }
[[factor]]
name = "inode_size"
values = { ext4 = ["256", "1k", "2k"] }
[[exclude]]
file_system = "ext4"
block_size = "1k"
inode_size = ["1k", "2k"]
"#;
    let sampled = plan_of("", &factors).unwrap().sampled().unwrap();
    let mut labels: Vec<&str> = sampled.configurations.iter().map(|one| one.label.as_str()).collect();
    labels.sort_unstable();
    assert_eq!(labels, ["btrfs", "ext4-1k-256", "ext4-4k-1k", "ext4-4k-256", "ext4-4k-2k", "xfs-4k"]);
    let one = sampled.configurations.iter().find(|one| one.label == "ext4-4k-2k").unwrap();
    assert_eq!(one.options.mkfs, ["-b", "4096", "-I", "2048"]);
}

#[test]
fn a_factor_of_the_user_s_own_changes_what_it_names() {
    let factors = r#"
[[factor]]
name = "file_system"
values = ["ext4"]
[[factor]]
name = "queue"
values = [64, 256]
sysfs = "queue/nr_requests"
[[factor]]
name = "feature"
values = [{ name = "plain" }, { name = "casefold", mkfs = "-O casefold", mount = "nobarrier", sysfs = "/proc/sys/vm/dirty_ratio=5" }]
"#;
    let sampled = plan_of("", factors).unwrap().sampled().unwrap();
    let one = sampled.configurations.iter().find(|one| one.label == "ext4-64-casefold").unwrap();
    assert_eq!(one.options.mkfs, ["-O", "casefold"]);
    assert_eq!(one.options.mount, ["nobarrier"]);
    let setting = |path: &str, value: &str| (path.to_owned(), value.to_owned());
    assert_eq!(
        one.options.settings,
        [setting("queue/nr_requests", "64"), setting("/proc/sys/vm/dirty_ratio", "5")]
    );
}

#[test]
fn remedies_are_switches_or_a_factor() {
    let usual = plan_of("", FACTORS).unwrap().sampled().unwrap();
    assert_eq!(usual.configurations[0].remedies, Remedies::default());
    let factors = FACTORS.replace(", \"xfs\", \"btrfs\"", "")
        + "[[factor]]\nname = \"remedies\"\nvalues = [\"none\", \"no_lazy_init+null_hash_seed\"]\n";
    let sampled = plan_of("[remedies]\nrestore_image = true\n", &factors).unwrap().sampled().unwrap();
    let remedies: Vec<Remedies> = sampled.configurations.iter().map(|one| one.remedies).collect();
    let none = Remedies { no_lazy_init: false, unmount: false, restore_image: false, null_hash_seed: false };
    assert!(remedies.contains(&none), "a factor says all of it: {remedies:?}");
    assert!(remedies.contains(&Remedies { no_lazy_init: true, null_hash_seed: true, ..none }));
}

#[test]
fn what_cannot_be_run_is_refused_in_one_line() {
    for (head, factors, words) in [
        ("", "", "no [[factor]] is named file_system"),
        ("", "[[factor]]\nname = \"file_system\"\nvalues = [\"ext4; rm\"]\n", "`ext4; rm` is no file_system"),
        ("", "[[factor]]\nname = \"file_system\"\n", "factor file_system: it has no values"),
        ("sample = 0", FACTORS, "how many configurations"),
        ("sample = \"some\"", FACTORS, "how many configurations"),
        ("seeed = 1", FACTORS, "unknown field `seeed`"),
        ("[loop]\nsize = \"65m\"", FACTORS, "[loop] size"),
    ] {
        let said = refusal(head, factors);
        assert!(said.contains(words) && !said.contains('\n'), "{said}");
    }
    let with = |more: &str| refusal("", &(FACTORS.to_owned() + more));
    for (more, words) in [
        (
            "[[factor]]\nname = \"atime\"\n",
            "factor atime: it has no values; name at least one: each is one of relatime",
        ),
        ("[[factor]]\nname = \"colour\"\nvalues = [\"red\"]\n", "it changes nothing"),
        (
            "[[factor]]\nname = \"nodatacow\"\nvalues = [\"maybe\"]\n",
            "`maybe` is no nodatacow: it is one of on and off",
        ),
        ("[[factor]]\nname = \"block_size\"\nvalues = [\"big\"]\n", "`big` is no block_size of ext4"),
        ("[[factor]]\nname = \"q\"\nvalues = [1]\nsysfs = \"../x\"\n", "below /sys"),
        ("[[factor]]\nname = \"q\"\nvalues = [1]\nsysfs = \"/etc/passwd\"\n", "below /sys"),
        ("[[factor]]\nname = \"device\"\nvalues = [\"/dev/sdx\"]\n", "destroy = [\"/dev/sdx\"]"),
        ("[[factor]]\nname = \"machine\"\nvalues = [1]\nmount = \"commit={}\"\n", "name it otherwise"),
        ("[[factor]]\nname = \"q\"\nvalues = [\"\\u0000\"]\nmount = \"a={}\"\n", "control characters"),
        ("[[factor]]\nname = \"q\"\nvalues = [1, 2]\nmount = \"commit=5\"\n", "the value {} is nowhere"),
        ("[[factor]]\nname = \"q\"\nvalues = 5\nmount = \"commit={}\"\n", "a list"),
        ("[[factor]]\nname = \"q\"\nvalues = [1.5]\nmount = \"commit={}\"\n", "a list"),
        ("[[factor]]\nname = \"q\"\nvalues = [1]\nmount = 7\n", "a text with {}"),
        ("[[exclude]]\natime = \"noatime\"\n", "which the plan does not have"),
        ("[[exclude]]\nfile_system = \"ext3\"\n", "has no value ext3"),
        ("[[workload]]\nname = \"mailserver\"\n", "there twice"),
        ("[[workload]]\nname = \"mine\"\n", "none of mailserver"),
        ("[[workload]]\nname = \"mine\"\ncommand = []\n", "names no program"),
        ("[[workload]]\nname = \"mine\"\ncommand = [\"x\"]\nthreads = 3\n", "for Filebench's workloads only"),
        (
            "[[workload]]\nname = \"mine\"\nkind = \"webserver\"\ntime = \"0.1s\"\n",
            "shorter than the interval",
        ),
        ("[[workload]]\nname = \"fileserver\"\nfiles = 200\n", "too few for 50 threads"),
        ("[[workload]]\nname = \"f\"\nfio = \"no-such.fio\"\n", "no-such.fio"),
    ] {
        let said = with(more);
        assert!(said.contains(words) && !said.contains('\n'), "{more}: {said}");
    }
    for name in ["", " ", "a\\u0000b", "\\u001b[2J"] {
        let named =
            plan_of("", FACTORS).unwrap().text.replacen("name = \"p\"", &format!("name = \"{name}\""), 1);
        let said = Plan::parse(&named, Path::new("")).unwrap_err().to_string();
        assert!(said.contains("no control characters"), "{name}: {said}");
    }
    let little = plan_of("", FACTORS).unwrap().text.replace("64m", "32m");
    assert!(Plan::parse(&little, Path::new("")).unwrap_err().to_string().contains("less memory than"));
}

#[test]
fn values_that_make_no_sense_are_named_with_what_there_is() {
    let of = |name: &str, values: &str| format!("[[factor]]\nname = \"{name}\"\nvalues = {values}\n");
    for (factor, line) in [
        (
            of("atime", "[\"sometimes\"]"),
            "factor atime: `sometimes` is no atime: it is one of relatime, noatime, strictatime, nodiratime and lazytime",
        ),
        (
            of("atime", "[]"),
            "factor atime: it has no values; name at least one: each is one of relatime, noatime, strictatime, \
             nodiratime and lazytime",
        ),
        (
            of("block_size", "[\"13k\"]"),
            "factor block_size: `13k` is no block_size of ext4: it is a power of two from 1k to 64k",
        ),
        (
            of("block_size", "{ btrfs = [\"2k\"] }"),
            "factor block_size: `2k` is no block_size of btrfs: it is a power of two from 4k to 64k",
        ),
        (
            of("inode_size", "{ xfs = [256] }"),
            "factor inode_size: `256` is no inode_size of xfs: it is 512, 1k or 2k",
        ),
        (
            of("inode_size", "{ btrfs = [256] }"),
            "factor inode_size: btrfs does not have it; leave its values out, or say what they change there",
        ),
        (
            of("journal_mode", "[\"fast\"]"),
            "factor journal_mode: `fast` is no journal_mode: it is one of ordered, writeback, journal and none",
        ),
        (
            of("allocation_groups", "[1]"),
            "factor allocation_groups: `1` is no allocation_groups: it is a whole number of 2 at least",
        ),
        (
            of("allocation_groups", "[400]"),
            "[loop] size: 640 MiB have room for 40 allocation groups of XFS, not for 400",
        ),
        (
            of("io_scheduler", "[\"noop\"]"),
            "factor io_scheduler: `noop` is no io_scheduler (gone since Linux 5.0): it is one of none, mq-deadline, kyber \
             and bfq",
        ),
        (
            of("device", "[\"sdx\"]"),
            "factor device: `sdx` is no device: it is loop, or the path of a block device",
        ),
        (of("mine", "[]") + "mount = \"commit={}\"\n", "factor mine: it has no values; name at least one"),
    ] {
        assert_eq!(refusal("", &(FACTORS.to_owned() + &factor)), line);
    }
    let systems = |values: &str| FACTORS.replace("\"ext4\", \"xfs\", \"btrfs\"", values);
    for (head, factors, line) in [
        (
            "",
            systems("\"xsf\""),
            "factor file_system: `xsf` is no file_system: it is one of ext2, ext3, ext4, xfs, btrfs, f2fs, bcachefs, \
             nilfs2 and jfs",
        ),
        (
            "",
            systems("\"ext4\", \"xfs\"") + &of("nodatacow", "[\"on\"]"),
            "factor nodatacow: it is of btrfs alone, and the plan's file_system is ext4 and xfs; add that, or leave the factor out",
        ),
        (
            "",
            systems("\"ext4\"") + &of("mine", "[1]") + "mount = { xfs = \"a={}\" }\n",
            "factor mine: its mkfs, mount and sysfs are of other file systems than the plan's, ext4",
        ),
        (
            "[loop]\nsize = \"100m\"",
            systems("\"xfs\""),
            "[loop] size: 100 MiB, and xfs is made on 300 MiB at least",
        ),
        (
            "[loop]\nsize = \"100m\"",
            systems("\"btrfs\""),
            "[loop] size: 100 MiB, and btrfs is made on 109 MiB at least",
        ),
        (
            "[loop]\nsize = \"lots\"",
            systems("\"ext4\""),
            "[loop] size: `lots` is not a size such as 4096, 4k or 16m",
        ),
    ] {
        assert_eq!(refusal(head, &factors), line);
    }
    assert!(plan_of("[loop]\nsize = \"100m\"", &systems("\"ext4\"")).is_ok());
}

#[test]
fn a_sample_is_no_larger_than_what_is_valid() {
    let sample = |size: u32| plan_of(&format!("sample = {size}"), FACTORS).unwrap().sampled();
    assert_eq!(sample(3).unwrap().configurations.len(), 3);
    let said = sample(500).unwrap_err().to_string();
    assert_eq!(
        said,
        "sample = 500: there are 3 configurations that are valid; name as many at most, or \"all\""
    );
}

#[test]
fn the_interval_is_a_second_or_a_tenth_of_the_run_unless_it_is_named() {
    let interval_s = |time: &str, more: &str| {
        let text = format!(
            "name = \"p\"\nruns = 2\ntime = \"{time}\"\n[data]\nsize = \"64m\"\n[[workload]]\nname = \"mailserver\"\n\
             {more}{FACTORS}"
        );
        Plan::parse(&text, Path::new("")).unwrap().interval_s
    };
    assert_eq!(interval_s("60s", ""), 1.0);
    assert_eq!(interval_s("3s", ""), 0.3);
    assert_eq!(interval_s("60s", "[[workload]]\nname = \"webserver\"\ntime = \"2s\"\n"), 0.2);
    // No more windows than a run may have.
    assert_eq!(interval_s("200000s", ""), 2.0);
}

#[test]
fn a_device_is_taken_only_if_it_is_named_twice() {
    let factors = FACTORS.to_owned() + "[[factor]]\nname = \"device\"\nvalues = [\"loop\", \"/dev/sdx\"]\n";
    let plan = plan_of("destroy = [\"/dev/sdx\"]", &factors).unwrap();
    let devices: Vec<String> =
        plan.sampled().unwrap().configurations.into_iter().map(|one| one.device).collect();
    assert!(devices.contains(&"loop".to_owned()) && devices.contains(&"/dev/sdx".to_owned()));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[ -~\n]{0,300}") {
        let _refused_is_fine = Plan::parse(&text, Path::new(""));
    }
}

impl Plan {
    fn devices_are_loops(&self) -> bool {
        self.destroy.is_empty() && self.space.devices() == ["loop"]
    }
}
