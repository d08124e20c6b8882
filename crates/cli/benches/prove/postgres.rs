//! PostgreSQL under pgbench, with the durability that is its default.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use evenkeel_host::undo::Undo;

use crate::Outcome;
use crate::beside::Neighbour;
use crate::database::{Database, Done, Load, Running};
use crate::process::{Need, missing, run};

const CLIENTS: &str = "8";

/// PostgreSQL, of the newest version that is installed.
#[derive(Debug)]
pub(crate) struct Postgres {
    programs: PathBuf,
    scale: usize,
}

/// A cluster that is started, and stopped when this is dropped.
struct RunningCluster(Cluster, #[expect(dead_code, reason = "held for its drop")] Undo);

/// A cluster.
#[derive(Debug, Clone)]
struct Cluster {
    programs: PathBuf,
    data: PathBuf,
    scratch: PathBuf,
}

impl Postgres {
    pub(crate) fn new(scale: usize) -> Self {
        Self { programs: programs().unwrap_or_default(), scale }
    }

    /// What has to be installed first, if anything.
    pub(crate) fn missing() -> Option<String> {
        let runuser = missing(&[Need { program: "runuser", package: "util-linux" }]);
        runuser.or_else(|| match programs() {
            Some(_) => None,
            None => Some("no initdb, pg_ctl, pgbench and psql; `apt-get install postgresql`".to_owned()),
        })
    }

    fn cluster(&self, folder: &Path, scratch: &Path) -> Cluster {
        Cluster {
            programs: self.programs.clone(),
            data: folder.join("data"),
            scratch: scratch.join("postgres"),
        }
    }
}

/// Where Debian's packages and others have the programs of the newest version.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut folders: Vec<_> = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).collect();
    let names = ["initdb", "pg_ctl", "pgbench", "psql"];
    folders.retain(|folder| names.iter().all(|name| folder.join(name).exists()));
    folders.sort();
    folders.pop()
}

impl Database for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn unit(&self) -> &'static str {
        "PostgreSQL: transactions of pgbench, 8 clients"
    }

    fn neighbours(&self) -> Vec<Neighbour> {
        vec![Neighbour::None, Neighbour::Stream, Neighbour::Removal, Neighbour::Checkpoint]
    }

    fn make(&self, folder: &Path, scratch: &Path) -> Outcome {
        let cluster = self.cluster(folder, scratch);
        for own in [folder, &cluster.scratch] {
            fs::create_dir_all(own).map_err(|error| format!("{}: {error}", own.display()))?;
            run(Command::new("chown").arg("postgres").arg(own))?;
        }
        run(cluster.program("initdb").arg("--pgdata").arg(&cluster.data).args(["--auth", "trust"]))?;
        let settings =
            format!("listen_addresses = ''\nunix_socket_directories = '{}'\n", cluster.scratch.display());
        let path = cluster.data.join("postgresql.conf");
        let written = fs::OpenOptions::new().append(true).open(&path);
        let written = written.and_then(|mut file| file.write_all(settings.as_bytes()));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
        let running = cluster.start()?;
        run(running.0.program("pgbench").args([
            "--initialize",
            "--quiet",
            "--scale",
            &self.scale.to_string(),
        ]))?;
        Ok(())
    }

    fn start(&self, folder: &Path, scratch: &Path) -> Outcome<Box<dyn Running>> {
        Ok(Box::new(self.cluster(folder, scratch).start()?))
    }
}

impl Cluster {
    /// A program of PostgreSQL as its user.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(self.programs.join(name));
        command.env("PGHOST", &self.scratch).env("PGDATABASE", "postgres").env("LC_ALL", "C");
        command.current_dir(&self.scratch);
        command
    }

    fn start(self) -> Outcome<RunningCluster> {
        let messages = self.scratch.join("messages");
        let mut start = self.program("pg_ctl");
        start.args(["start", "--wait", "--timeout", "300", "-D"]).arg(&self.data).arg("-l").arg(&messages);
        // Its messages are not for the pipe of whoever starts it: that would stay open.
        start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let failed =
            || io::Error::other(format!("PostgreSQL: {}", fs::read_to_string(&messages).unwrap_or_default()));
        let start = || if start.status()?.success() { Ok(self.clone()) } else { Err(failed()) };
        let undo = |cluster: &Self| -> Box<dyn FnOnce() + Send> {
            let cluster = cluster.clone();
            Box::new(move || cluster.stop())
        };
        let (stopped, cluster) = Undo::make(start, undo).map_err(|error| error.to_string())?;
        Ok(RunningCluster(cluster, stopped))
    }

    fn stop(&self) {
        let mut stop = self.program("pg_ctl");
        stop.args(["stop", "--wait", "--timeout", "300", "--mode", "fast", "-D"]).arg(&self.data);
        if let Err(why) = run(&mut stop) {
            eprintln!("PostgreSQL does not stop: {why}");
        }
    }
}

impl Running for RunningCluster {
    fn load(&self, seconds: f64) -> Outcome<Load> {
        let prefix = self.0.scratch.join("transactions");
        let seconds = format!("{:.0}", seconds.max(1.0));
        let mut bench = self.0.program("pgbench");
        bench.args(["--client", CLIENTS, "--jobs", "2", "--time", &seconds, "--no-vacuum", "--log"]);
        run(bench.arg("--log-prefix").arg(&prefix))?;
        let mut done = Vec::new();
        let entries = fs::read_dir(&self.0.scratch).map_err(|error| format!("{error}"))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let is_log =
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("transactions."));
            if is_log {
                let text =
                    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                done.extend(text.lines().filter_map(transaction));
                fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
        Ok(Load { done, sync_p99_s: None })
    }

    fn checkpoint(&self) -> Outcome {
        run(self.0.program("psql").args(["-qAtX", "-c", "checkpoint"])).map(drop)
    }
}

/// A line of pgbench's log: client, number, microseconds, script, end in seconds and microseconds.
fn transaction(line: &str) -> Option<Done> {
    let mut words = line.split_whitespace().skip(2);
    let took_us: f64 = words.next()?.parse().ok()?;
    let mut ended = words.skip(1).map(str::parse::<f64>);
    Some(Done { at_s: ended.next()?.ok()? + ended.next()?.ok()? * 1e-6, took_s: took_us * 1e-6 })
}
