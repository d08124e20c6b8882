//! A PostgreSQL cluster on a volume whose server is killed under load: no committed row is lost.

#![allow(clippy::print_stderr, reason = "what was tried is for whoever runs it")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use tempfile::TempDir;

use crate::support::attached::{Disk, Running, possible};
use crate::support::root::{Mounted, programs, run, system};
use crate::support::served::{Volume, patiently};
use crate::support::{Scene, or_skip};

/// Kills, each under a load of its own.
const KILLS: u64 = 2;

/// Sessions that insert one row after the other and remember which were committed.
const WITNESSES: u64 = 4;

/// Rows that each of them commits before a kill.
const ROWS: u64 = 40;

/// Where Debian's packages and others have the programs of the newest version.
fn programs_folder() -> Result<PathBuf, String> {
    let versions = fs::read_dir("/usr/lib/postgresql").map_err(|_| "no /usr/lib/postgresql".to_owned())?;
    let mut folders: Vec<_> = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).collect();
    folders.retain(|folder| {
        ["initdb", "pg_ctl", "pgbench", "psql"].iter().all(|name| folder.join(name).exists())
    });
    folders.sort();
    folders.pop().ok_or_else(|| "no initdb, pg_ctl, pgbench and psql".to_owned())
}

/// A cluster whose files are on the mounted volume, and whose socket and messages are not.
struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
}

/// One that the user postgres may enter, which a scene need not be.
fn open_folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("evenkeel-test-").tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

impl Cluster {
    fn new(programs: PathBuf, folder: &Path) -> Self {
        let sockets = folder.join("sockets");
        fs::create_dir(&sockets).unwrap();
        run("chown", &["postgres", &sockets.display().to_string()]).unwrap();
        Self { programs, folder: folder.to_owned() }
    }

    fn mount_point(&self) -> PathBuf {
        self.folder.join("mounted")
    }

    fn data(&self) -> String {
        self.mount_point().join("data").display().to_string()
    }

    fn sockets(&self) -> PathBuf {
        self.folder.join("sockets")
    }

    /// A program of PostgreSQL as its user.
    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = system("runuser");
        command
            .args(["-u", "postgres", "--"])
            .arg(self.programs.join(program))
            .args(args)
            .env("PGHOST", self.sockets())
            .env("PGDATABASE", "postgres")
            .env("LC_ALL", "C")
            .current_dir("/");
        command
    }

    /// Runs it, which must go well; answers what it printed.
    #[track_caller]
    fn ran(&self, program: &str, args: &[&str]) -> String {
        let output = self.command(program, args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program} {args:?}: {said}\n{}", self.messages());
        String::from_utf8(output.stdout).unwrap()
    }

    fn messages(&self) -> String {
        fs::read_to_string(self.sockets().join("messages")).unwrap_or_default()
    }

    fn init(&self) {
        run("chown", &["postgres", &self.mount_point().display().to_string()]).unwrap();
        let data = self.data();
        self.ran("initdb", &["--pgdata", &data, "--auth", "trust", "--data-checksums"]);
        let settings = format!(
            "listen_addresses = ''\nunix_socket_directories = '{}'\nshared_buffers = 16MB\n\
             min_wal_size = 32MB\nmax_wal_size = 48MB\ncheckpoint_timeout = 30s\nautovacuum_naptime = 5s\n",
            self.sockets().display()
        );
        let path = Path::new(&data).join("postgresql.conf");
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(settings.as_bytes()).unwrap();
        // To this machine's kernel the death of the server is that of a disk: what it still has in memory is lost.
        file.sync_all().unwrap();
    }

    fn start(&self) {
        // Its messages are not for the pipe of whoever starts it: that would stay open.
        let messages = self.sockets().join("messages").display().to_string();
        let mut start = self
            .command("pg_ctl", &["start", "--wait", "--timeout", "300", "-D", &self.data(), "-l", &messages]);
        let status = start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(status.success(), "{}", self.messages());
    }

    fn stop(&self) {
        self.ran("pg_ctl", &["stop", "--wait", "--mode", "fast", "-D", &self.data()]);
    }

    /// Ends what runs, whatever it holds on to: its disk is gone.
    fn end(&self) {
        let pid_file = Path::new(&self.data()).join("postmaster.pid");
        // The file may be unreadable now; the lock of the socket tells too.
        let lock = self.sockets().join(".s.PGSQL.5432.lock");
        let text = fs::read_to_string(&lock).or_else(|_| fs::read_to_string(pid_file)).unwrap_or_default();
        let Some(Ok(pid)) = text.lines().next().map(str::parse::<u32>) else { return };
        let pid = pid.to_string();
        if fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "postgres") {
            // SIGQUIT makes the postmaster end its children first.
            let _ended_already_is_fine = run("kill", &["-s", "QUIT", &pid]);
            patiently("the end of PostgreSQL", || {
                (!Path::new(&format!("/proc/{pid}")).exists()).then_some(())
            });
        }
        let _gone_already_is_fine = fs::remove_file(lock);
        let _gone_already_is_fine = fs::remove_file(self.sockets().join(".s.PGSQL.5432"));
    }

    /// What a query answers, one row a line.
    #[track_caller]
    fn ask(&self, query: &str) -> String {
        self.ran("psql", &["-qAtX", "-c", query]).trim().to_owned()
    }

    /// What a query answers: a number.
    #[track_caller]
    fn count(&self, query: &str) -> u64 {
        self.ask(query).parse().unwrap()
    }

    /// A session that inserts rows from `first` on until the cluster is gone; the thread answers the last that was
    /// committed.
    fn witness(self: &Arc<Self>, number: u64, first: u64, committed: Arc<AtomicU64>) -> JoinHandle<u64> {
        let cluster = Arc::clone(self);
        thread::spawn(move || {
            let mut psql = cluster.command("psql", &["-qAtX"]);
            let psql = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut psql = Running(psql.spawn().unwrap());
            let mut stdin = psql.0.stdin.take().unwrap();
            let mut answers = BufReader::new(psql.0.stdout.take().unwrap()).lines();
            let mut last = first - 1;
            for row in first.. {
                let line = format!(
                    "insert into witness values ({number}, {row}, repeat(md5('{row}'), 20)) returning n;\n"
                );
                let answered = stdin.write_all(line.as_bytes()).is_ok();
                // Without a transaction of its own, what is answered is committed.
                match answered.then(|| answers.next()).flatten() {
                    Some(Ok(answer)) if answer == row.to_string() => last = row,
                    _ => break,
                }
                committed.fetch_add(1, Ordering::Relaxed);
            }
            last
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn a_kill_under_postgresql_takes_no_committed_row() {
    let found = possible()
        .and_then(|()| programs(&["mkfs.ext4", "runuser"]))
        .and_then(|()| run("id", &["postgres"]).map(drop))
        .and_then(|()| programs_folder());
    let folder = or_skip!(found);
    let scene = Scene::new();
    let open_folder = open_folder();
    let volume = Volume::create(&scene, "--size 400m --log-size 32m --buffer 16m");
    let mut server = volume.serve("");
    let mut disk = Disk::attach(&volume.socket(), &scene.path("fuse"));
    run("mkfs.ext4", &["-q", "-F", &disk.node]).unwrap();
    let mount = |disk: &Disk| Mounted::of(&disk.node, &open_folder.path().join("mounted")).unwrap();
    let mut mounted = mount(&disk);
    // Declared after its disk: where the test fails, it ends before that goes.
    let cluster = Arc::new(Cluster::new(folder, open_folder.path()));
    cluster.init();
    cluster.start();
    cluster.ran("pgbench", &["--initialize", "--quiet", "--scale", "2"]);
    cluster.ask("create table witness (client int, n int, words text, primary key (client, n))");

    let mut newest = vec![0; WITNESSES as usize];
    let mut processed = 0;
    for kill in 0..KILLS {
        let committed = Arc::new(AtomicU64::new(0));
        let witnesses: Vec<_> = (0..WITNESSES)
            .map(|number| cluster.witness(number, newest[number as usize] + 1, Arc::clone(&committed)))
            .collect();
        let said = scene.path("pgbench");
        let mut bench = cluster.command("pgbench", &["--client", "2", "--time", "3600", "--no-vacuum"]);
        bench.stdout(fs::File::create(&said).unwrap()).stderr(Stdio::null());
        let mut bench = Running::spawn(&mut bench);
        patiently("rows", || (committed.load(Ordering::Relaxed) >= WITNESSES * ROWS).then_some(()));
        server.kill();
        for (number, witness) in witnesses.into_iter().enumerate() {
            newest[number] = witness.join().unwrap();
        }
        patiently("the end of pgbench", || bench.0.try_wait().unwrap());
        processed += transactions(&fs::read_to_string(&said).unwrap());
        cluster.end();
        drop(mounted);
        drop(disk);

        server = volume.serve("");
        disk = Disk::attach(&volume.socket(), &scene.path("fuse"));
        mounted = mount(&disk);
        cluster.start();
        for (number, last) in newest.iter_mut().enumerate() {
            let of = format!("from witness where client = {number} and words = repeat(md5(n::text), 20)");
            let there = cluster.count(&format!("select count(*) {of} and n <= {last}"));
            assert_eq!(there, *last, "kill {kill}: a row that was committed is lost");
            // One more was under way, and may have been committed without a word of it.
            let all = cluster.count(&format!("select count(*) {of}"));
            assert!(all <= *last + 1, "{all} rows, and {last} were committed");
            *last = all;
        }
        let history = cluster.count("select count(*) from pgbench_history");
        assert!(history >= processed, "{history} of {processed} transactions of pgbench are there");
        // Every transaction changes all four tables by the same.
        let sums = cluster.ask(
            "select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers), \
             (select sum(bbalance) from pgbench_branches), (select coalesce(sum(delta), 0) from pgbench_history)",
        );
        let sums: Vec<&str> = sums.split('|').collect();
        assert!(sums.iter().all(|sum| *sum == sums[0]), "a transaction is there in part: {sums:?}");
        eprintln!("kill {kill}: rows {newest:?}, {history} transactions of pgbench, {processed} told");
        processed = history;
    }
    cluster.stop();
    cluster.ran("pg_checksums", &["--check", "-D", &cluster.data()]);
    drop(mounted);
    run("e2fsck", &["-f", "-n", &disk.node]).unwrap();
    drop(disk);
    server.stop();
    assert!(scene.done("check disk").stdout.contains(" 0 damaged"));
}

/// What pgbench says of itself at the end, also where it was cut short.
fn transactions(said: &str) -> u64 {
    let line = said.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: "));
    line.map_or(0, |count| count.split('/').next().unwrap().trim().parse().unwrap())
}
