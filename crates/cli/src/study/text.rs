//! A plan in words: what will be done, how long it takes, and every command.

use std::path::Path;

use evenkeel_measure::report::format;
use evenkeel_measure::study::plan::{Kind, Memory, Plan, Sampled, Workload};
use evenkeel_measure::study::steps::{self, Place, Shown};

/// Where a study keeps what its runs need, in its folder.
pub(super) const SCRATCH_FOLDER: &str = "scratch";

/// How much will be done.
pub(super) fn summary(plan: &Plan, sampled: &Sampled) -> String {
    let taken = sampled.configurations.len();
    let valid = sampled.valid.map_or_else(|| "too many to count".to_owned(), format::count);
    let runs = taken as u64 * plan.workloads.len() as u64 * u64::from(plan.runs);
    let mut text = format!(
        "Study {}: {}, {valid} valid configurations, of which {} are taken (Latin Hypercube Sampling, seed {}).\n\
         {} x {} x {} = {}, about {}.\n",
        plan.name,
        format::counted(plan.space.factors.len() as u64, "factor"),
        format::count(taken as u64),
        plan.seed,
        format::counted(taken as u64, "configuration"),
        format::counted(plan.workloads.len() as u64, "workload"),
        format::counted(plan.runs.into(), "run"),
        format::counted(runs, "run"),
        format::duration(plan.duration_s(taken)),
    );
    for workload in &plan.workloads {
        text += &format!("  {}\n", of_workload(plan, workload));
    }
    text
}

fn of_workload(plan: &Plan, workload: &Workload) -> String {
    let time = format::duration(workload.time_s);
    let memory = match (plan.memory_bytes(workload), plan.memory) {
        (Some(bytes), _) => format!("{} of memory", format::bytes(bytes)),
        (None, Memory::OfData) => "memory not bounded: its data is its own".to_owned(),
        (None, _) => "memory not bounded".to_owned(),
    };
    match &workload.kind {
        Kind::Files(files) => format!(
            "{}: {time}, {} threads, {} files of {} on average ({}), {memory}",
            workload.name,
            files.threads,
            format::count(u64::from(files.files)),
            format::bytes(files.mean_size_bytes),
            format::bytes(files.data_bytes()),
        ),
        Kind::Fio(_) => format!("{}: {time} of fio, {memory}", workload.name),
        Kind::Command(words) => format!("{}: `{}`, {memory}", workload.name, words.join(" ")),
    }
}

/// All of it, with every command.
pub(super) fn plan(plan: &Plan, sampled: &Sampled, out: &Path) -> String {
    let mut text = summary(plan, sampled);
    let (scratch, node) = (out.join(SCRATCH_FOLDER), Path::new("/dev/loopN"));
    let point = scratch.join("mnt");
    if sampled.configurations.iter().any(|one| one.device == "loop") {
        let image = plan.loop_image(&scratch);
        let image = image.display();
        text += &format!(
            "\nOnce, before the first run, and undone after the last:\n  \
             dd if=/dev/zero of={image} bs=4M iflag=count_bytes count={} conv=fsync\n  \
             losetup --find --show --direct-io=on {image}\n",
            plan.loop_bytes
        );
    }
    text += "\nRuns come in blocks, each with every configuration and workload once, in random order. A run does:\n";
    for (at, configuration) in sampled.configurations.iter().enumerate() {
        text += &format!("\n{} {}\n", at + 1, configuration.label);
        let node = if configuration.device == "loop" { node } else { Path::new(&configuration.device) };
        for workload in &plan.workloads {
            let image = scratch.join(format!("{at}-{}.image", workload.name));
            let image = configuration.remedies.restore_image.then_some(image);
            for is_there in [false, true] {
                let image = image.as_ref().map(|image| (image.as_path(), is_there));
                if is_there && image.is_none() {
                    continue;
                }
                let place = Place { node, point: &point, image };
                let when = if is_there { ", once there is an image" } else { "" };
                text += &format!("  # {}{when}\n", workload.name);
                for step in steps::of_run(configuration, workload, &place) {
                    text += &format!("    {}\n", Shown(&step, &place, workload));
                }
            }
        }
    }
    text
}
