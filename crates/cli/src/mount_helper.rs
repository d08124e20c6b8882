//! `mount.evenkeel`: this program as mount(8) calls it for the file system type `evenkeel`, under that name.
//!
//! 1. It ends when programs can use the file system, and leaves a server in the background: `evenkeel mount` in a process group
//!    of its own. Where that cannot mount, its words are the helper's.
//! 2. Exit codes are those of mount(8): 0 mounted, 1 wrong usage, 2 no process can be started, 32 it could not be mounted.
//! 3. mount(8) names what is not let, and nothing of what is: called by root, devices and set-user-ID bits count where it does
//!    not name their opposites.
//! 4. The server keeps nothing of its caller but a standard error that is the system's journal: a pipe that a caller reads to
//!    its end has one.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf, absolute};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;

use clap::Parser;
use evenkeel_host::program::is_root;

use crate::args::MountOptionArg;
use crate::{logging, stdout};

/// The name under which mount(8) looks for it.
const NAME: &str = "mount.evenkeel";

/// What `evenkeel mount` says first when it is mounted.
const READY: &str = "ready: ";

const WRONG_USAGE: u8 = 1;
const SYSTEM_ERROR: u8 = 2;
const NOT_MOUNTED: u8 = 32;

/// Mount a volume's file system for mount(8), and leave its server in the background.
#[derive(Debug, Parser)]
#[command(name = NAME, version, max_term_width = 100)]
struct HelperArgs {
    /// The volume's folder
    #[arg(value_name = "VOL")]
    volume: PathBuf,

    /// An empty folder, on which it is mounted
    #[arg(value_name = "DIR")]
    mount_point: PathBuf,

    /// As those of `evenkeel mount`
    #[arg(short = 'o', value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,

    /// Pass over options that are not known
    #[arg(short = 's')]
    is_sloppy: bool,

    /// Do all but mount
    #[arg(short = 'f')]
    is_fake: bool,

    /// Nothing: no table of mounts is written
    #[arg(short = 'n')]
    without_table: bool,

    /// Say what is done
    #[arg(short = 'v')]
    is_verbose: bool,

    /// The type of the file system, which is known
    #[arg(short = 't', value_name = "TYPE")]
    file_system: Option<String>,
}

/// Whether this program was called as that.
pub(crate) fn is_meant() -> bool {
    let called = std::env::args_os().next();
    called.as_deref().map(Path::new).and_then(Path::file_name) == Some(OsStr::new(NAME))
}

/// Mounts, and says how that ended.
pub(crate) fn run() -> ExitCode {
    let args = match HelperArgs::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let _nobody_reads_it = error.print();
            return ExitCode::from(if error.use_stderr() { WRONG_USAGE } else { 0 });
        }
    };
    let mut options = args.options.clone();
    if args.is_sloppy {
        options.retain(|option| option.parse::<MountOptionArg>().is_ok());
    }
    for option in &options {
        if let Err(why) = option.parse::<MountOptionArg>() {
            stdout::complain(&format!("{NAME}: -o {option}: {why}"));
            return ExitCode::from(WRONG_USAGE);
        }
    }
    if args.is_fake {
        return ExitCode::SUCCESS;
    }
    match server(&args, &options).and_then(Server::wait) {
        Ok(true) => {
            if args.is_verbose {
                let at = args.mount_point.display();
                stdout::complain(&format!("{NAME}: {} is mounted on {at}", args.volume.display()));
            }
            ExitCode::SUCCESS
        }
        Ok(false) => ExitCode::from(NOT_MOUNTED),
        Err(error) => {
            stdout::complain(&format!("{NAME}: no server can be started: {error}"));
            ExitCode::from(SYSTEM_ERROR)
        }
    }
}

/// Starts one.
fn server(args: &HelperArgs, options: &[String]) -> io::Result<Server> {
    use std::os::unix::process::CommandExt;

    let mut command = Command::new(std::env::current_exe()?);
    command.arg("mount");
    let allowed = [("dev", "nodev"), ("suid", "nosuid")].into_iter();
    let allowed =
        allowed.filter(|(_, opposite)| is_root() && !options.iter().any(|option| option == opposite));
    for option in allowed.map(|(option, _)| option).chain(options.iter().map(String::as_str)) {
        command.args(["-o", option]);
    }
    let child = command
        .arg("--")
        .args([absolute(&args.volume)?, absolute(&args.mount_point)?])
        // A terminal's signals are for the helper, and a server holds no folder that somebody may want to unmount.
        .process_group(0)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(if logging::is_journal() { Stdio::inherit() } else { Stdio::piped() })
        .spawn()?;
    Ok(Server(child))
}

/// One that was started.
struct Server(Child);

impl Server {
    /// Waits until it is ready; false where it ends before, having said why.
    fn wait(mut self) -> io::Result<bool> {
        let errors = self.0.stderr.take().map(|mut errors| {
            thread::spawn(move || {
                let mut said = Vec::new();
                let _what_came_is_told = errors.read_to_end(&mut said);
                said
            })
        });
        let said = self.0.stdout.take().map(BufReader::new);
        for line in said.into_iter().flat_map(BufRead::lines) {
            if line?.starts_with(READY) {
                return Ok(true);
            }
        }
        let ended = self.0.wait()?;
        let said = errors.and_then(|errors| errors.join().ok()).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        // Its last line says why; those before are its events.
        match said.lines().last() {
            Some(why) => stdout::complain(why),
            None => stdout::complain(&format!("{NAME}: its server ended at once: {ended}")),
        }
        Ok(false)
    }
}
