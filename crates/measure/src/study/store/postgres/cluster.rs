//! A PostgreSQL server of a test's own, in a folder, which listens on a socket there; both are gone at the end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The server.
pub struct Cluster {
    programs: PathBuf,
    folder: TempDir,
}

/// Where Debian's packages and others have the programs of the newest version.
fn programs_folder() -> Result<PathBuf, String> {
    let versions = fs::read_dir("/usr/lib/postgresql").map_err(|_| "no /usr/lib/postgresql".to_owned())?;
    let mut folders: Vec<_> = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).collect();
    folders.retain(|folder| ["initdb", "pg_ctl"].iter().all(|name| folder.join(name).exists()));
    folders.sort();
    folders.pop().ok_or_else(|| "no initdb and pg_ctl".to_owned())
}

impl Cluster {
    /// Starts one, as the user postgres where this is root; or why there can be none here.
    pub fn start() -> Result<Self, String> {
        let programs = programs_folder()?;
        // That user must be able to enter it.
        let folder = tempfile::Builder::new().prefix("evenkeel-test-").tempdir_in("/tmp");
        let folder = folder.map_err(|error| error.to_string())?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))
            .map_err(|error| error.to_string())?;
        let cluster = Self { programs, folder };
        let data = cluster.data();
        cluster
            .run("initdb", &["--pgdata", &data, "--auth", "trust", "--username", "tester", "--no-sync"])?;
        cluster.begin()?;
        Ok(cluster)
    }

    /// Starts the server, which was stopped.
    pub fn begin(&self) -> Result<(), String> {
        let options = format!("-c listen_addresses= -c fsync=off -k {}", self.folder.path().display());
        let log = self.folder.path().join("log").display().to_string();
        self.run("pg_ctl", &["start", "--wait", "-D", &self.data(), "-l", &log, "-o", &options])
    }

    /// Stops the server; whoever is connected is cut off.
    pub fn stop(&self) -> Result<(), String> {
        self.run("pg_ctl", &["stop", "--wait", "--mode", "fast", "-D", &self.data()])
    }

    /// The address of its database.
    pub fn address(&self) -> String {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://tester:s3cret@{folder}/postgres")
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<(), String> {
        let program = self.programs.join(program);
        let is_root =
            fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        let mut command = if is_root {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(&program);
            command
        } else {
            Command::new(&program)
        };
        // The server keeps what it is given: a pipe would stay open.
        let said = self.folder.path().join("said");
        let file = fs::File::create(&said).map_err(|error| error.to_string())?;
        let status = command
            .args(args)
            .env("LC_ALL", "C")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .status()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        match status.success() {
            true => Ok(()),
            false => {
                let said = fs::read_to_string(&said).unwrap_or_default().replace('\n', " ");
                Err(format!("{} failed: {said}", program.display()))
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if Path::new(&self.data()).join("postmaster.pid").exists() {
            let _stopped_already_is_fine = self.stop();
        }
    }
}
