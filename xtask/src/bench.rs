//! `cargo xtask bench`: the benchmarks, by name.

use crate::run::{self, Failure, Outcome};

/// A benchmark.
#[derive(Debug)]
struct Bench {
    /// What it is called here.
    name: &'static str,
    /// The package that holds it.
    package: &'static str,
    /// Its target in that package.
    target: &'static str,
    /// What it measures.
    about: &'static str,
}

/// All benchmarks.
const BENCHES: &[Bench] = &[
    Bench {
        name: "probe-overhead",
        package: "evenkeel-measure",
        target: "probe_overhead",
        about: "what the probe itself costs for each write",
    },
    Bench {
        name: "nbd",
        package: "evenkeel",
        target: "nbd",
        about: "the served volume beside nbdkit and qemu-nbd; `-- --help` tells what can be chosen",
    },
];

/// Runs the benchmark that was named, or all of them.
pub(crate) fn main(args: &[String]) -> Outcome {
    let (own, passed_on) = run::split_at_dashes(args);
    let chosen: Vec<&Bench> = match own {
        [] => BENCHES.iter().collect(),
        [flag] if flag == "--list" => {
            for bench in BENCHES {
                println!("{:<16} {}", bench.name, bench.about);
            }
            return Ok(());
        }
        [name] => vec![find(name)?],
        [_, extra, ..] => {
            return Err(Failure::Usage(format!("bench takes one name; `{extra}` is too much")));
        }
    };
    for bench in chosen {
        let mut cargo =
            run::cargo(&["bench", "--locked", "--package", bench.package, "--bench", bench.target, "--"]);
        run::hand_over(cargo.args(passed_on))?;
    }
    Ok(())
}

/// The benchmark of that name.
fn find(name: &str) -> Outcome<&'static Bench> {
    BENCHES.iter().find(|bench| bench.name == name).ok_or_else(|| {
        let names: Vec<_> = BENCHES.iter().map(|bench| bench.name).collect();
        Failure::Usage(format!("no benchmark `{name}`; there is: {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_are_found_by_name() {
        assert_eq!(find("probe-overhead").unwrap().target, "probe_overhead");
        let Err(Failure::Usage(text)) = find("probe") else { panic!("found") };
        assert!(text.contains("probe-overhead"), "{text}");
    }

    #[test]
    fn one_name_at_most() {
        let args = ["probe-overhead", "other"].map(str::to_owned);
        assert!(matches!(main(&args), Err(Failure::Usage(_))));
    }
}
