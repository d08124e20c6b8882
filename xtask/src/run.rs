//! Running other programs: shown before they run, and named when they fail.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};

/// How a chore ends.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a chore did not do what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was asked wrongly, or by someone who may not: exit code 2.
    Usage(String),
    /// Something went wrong on the way: exit code 1.
    Failed(String),
    /// A program that it ran for the reader, and that already told why, ended with this exit code.
    Child(u8),
}

impl Failure {
    /// Tells the reader, and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Usage(text) => {
                eprintln!("xtask: {text}");
                ExitCode::from(2)
            }
            Self::Failed(text) => {
                eprintln!("xtask: {text}");
                ExitCode::FAILURE
            }
            Self::Child(code) => ExitCode::from(code),
        }
    }
}

/// Turns an I/O error into a failure that says what was being done.
pub(crate) fn context(what: impl AsRef<str>) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| Failure::Failed(format!("{}: {error}", what.as_ref()))
}

/// Folders of system programs, which the PATH of an ordinary user (and of `su`) leaves out on Debian.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// PATH, with the folders of system programs after it.
fn search_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from)).collect()
}

/// Whether a program of this name can be run.
pub(crate) fn has_program(name: &str) -> bool {
    search_path().iter().any(|folder| {
        fs::metadata(folder.join(name)).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    })
}

/// A system program, looked for in the folders of system programs too.
pub(crate) fn system(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    let path = env::join_paths(search_path()).unwrap_or_else(|_| OsString::from("/usr/sbin:/usr/bin"));
    command.args(args).env("PATH", path);
    command
}

/// The cargo that started this, at the workspace's root.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(workspace_root());
    command
}

/// The workspace's root.
pub(crate) fn workspace_root() -> PathBuf {
    // What cargo says now comes first: a target folder may outlive a move of the tree it was built from.
    let manifest =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    manifest.parent().map_or_else(|| manifest.clone(), PathBuf::from)
}

/// The command as a shell would take it.
pub(crate) fn shown(command: &Command) -> String {
    // A toolchain's cargo is shown by its name alone: its folder tells a reader nothing.
    let program = PathBuf::from(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    std::iter::once(program).chain(args).map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

/// The word, in quotes if a shell would not take it as it is.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Prints the command.
pub(crate) fn show(command: &Command) {
    eprintln!("+ {}", shown(command));
}

/// Prints the command, runs it, and gives how it ended.
pub(crate) fn status(command: &mut Command) -> Outcome<ExitStatus> {
    show(command);
    command.status().map_err(context(format!("cannot run `{}`", shown(command))))
}

/// Prints the command and runs it; any end but success is a failure.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let status = status(command)?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Failed(format!("`{}` failed: {status}", shown(command))))
    }
}

/// Prints the command, runs it, and hands on its exit code: for programs that tell the reader what is wrong.
pub(crate) fn hand_over(command: &mut Command) -> Outcome {
    let status = status(command)?;
    if status.success() { Ok(()) } else { Err(Failure::Child(exit_code(status))) }
}

/// The exit code, as a shell would give it: 128 and the signal's number if a signal ended it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_a_shell_takes_them() {
        let mut command = Command::new("/usr/bin/mount");
        command.args(["-o", "nodiscard", "/dev/loop0", "/tmp/it's here", ""]);
        assert_eq!(shown(&command), r"mount -o nodiscard /dev/loop0 '/tmp/it'\''s here' ''");
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!(exit_code(ExitStatus::from_raw(101 << 8)), 101);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
    }

    #[test]
    fn a_failing_program_is_named() {
        let Err(Failure::Failed(text)) = run(&mut system("false", &["x"])) else { panic!("no failure") };
        assert!(text.contains("`false x`"), "{text}");
        let Err(Failure::Failed(text)) = run(&mut system("no-such-program", &[])) else {
            panic!("no failure")
        };
        assert!(text.contains("`no-such-program`"), "{text}");
    }

    #[test]
    fn programs_are_found() {
        assert!(has_program("sh"));
        assert!(!has_program("no-such-program"));
    }
}
