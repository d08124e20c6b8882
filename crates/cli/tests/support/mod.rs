//! A scene for each story: a folder of its own with a folder `data` to probe, the command to run in it, and
//! what the command said.

// Each test program uses a part of this.
#![allow(dead_code, unused_imports, unused_macros)]
// What a test prints is for whoever runs it.
#![allow(clippy::print_stdout)]

pub(crate) mod attached;
pub(crate) mod events;
pub(crate) mod far;
pub(crate) mod load;
pub(crate) mod metrics;
pub(crate) mod model;
pub(crate) mod mounted;
pub(crate) mod root;
pub(crate) mod served;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};

use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use tempfile::TempDir;

/// A folder where the command runs, gone again at the end.
pub(crate) struct Scene {
    folder: TempDir,
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) line: String,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Scene {
    /// On the disk that holds the build, since a temporary folder may be in memory.
    pub(crate) fn new() -> Self {
        Self::below(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// In a folder of your choice.
    pub(crate) fn below(parent: &Path) -> Self {
        let folder = tempfile::Builder::new().prefix("evenkeel-test-").tempdir_in(parent).unwrap();
        fs::create_dir(folder.path().join("data")).unwrap();
        Self { folder }
    }

    /// In the machine's memory, where thousands of writes take no time; `None` where there is no such folder.
    pub(crate) fn in_memory() -> Option<Self> {
        let memory = Path::new("/dev/shm");
        memory.is_dir().then(|| Self::below(memory))
    }

    /// What is in the folder `disk` under this name is somewhere else until it is brought back.
    pub(crate) fn take_away(&self, name: &str) {
        fs::rename(self.path("disk").join(name), self.path(name)).unwrap();
    }

    pub(crate) fn bring_back(&self, name: &str) {
        fs::rename(self.path(name), self.path("disk").join(name)).unwrap();
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Changes a bit of the byte at `offset`.
    pub(crate) fn flip(&self, name: &str, offset: usize) {
        let mut bytes = self.bytes(name);
        bytes[offset] ^= 1;
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.bytes(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// What is in a folder of the scene, hidden files too.
    pub(crate) fn names(&self, folder: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// `evenkeel LINE`, to be run in the scene; LINE is split at blanks.
    pub(crate) fn command(&self, line: &str) -> Command {
        hear_signals();
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command
            .args(line.split_whitespace())
            .current_dir(self.folder())
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null());
        command
    }

    /// Runs `evenkeel LINE` to its end.
    pub(crate) fn run(&self, line: &str) -> Ran {
        Ran::of(line, self.command(line).output().unwrap())
    }

    /// Runs `evenkeel LINE`, which must go well and have nothing to complain about.
    pub(crate) fn done(&self, line: &str) -> Ran {
        let ran = self.run(line);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        ran
    }

    /// Runs `evenkeel LINE`, which must be refused in one line; answers that line.
    pub(crate) fn refused(&self, line: &str) -> String {
        let ran = self.run(line);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        ran.complaint()
    }

    /// Runs `evenkeel LINE`, whose words are wrong; answers what the parser says of them.
    pub(crate) fn misused(&self, line: &str) -> String {
        let ran = self.run(line);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.starts_with("error: "), "{ran:?}");
        assert_eq!(ran.stdout, "", "{ran:?}");
        ran.stderr
    }
}

impl Ran {
    pub(crate) fn of(line: &str, output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self {
            line: format!("evenkeel {line}"),
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// The one line on standard error, which is all that there is.
    pub(crate) fn complaint(&self) -> String {
        let lines: Vec<&str> = self.stderr.lines().collect();
        match lines.as_slice() {
            [line] if line.starts_with("evenkeel: ") => (*line).to_owned(),
            _ => panic!("not one line that starts with `evenkeel: `: {self:?}"),
        }
    }
}

/// Lets the signals of the terminal reach whatever this process starts from here on. A shell without job control starts
/// a command in the background with SIGINT and SIGQUIT ignored, `nohup` with SIGHUP, and children inherit that; a signal
/// with a handler they get with its default action.
pub(crate) fn hear_signals() {
    static HEARD: Once = Once::new();
    HEARD.call_once(|| {
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            let ends = Arc::new(AtomicBool::new(true));
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, ends).unwrap();
        }
    });
}

/// That `line` has all of `parts`.
#[track_caller]
pub(crate) fn says(line: &str, parts: &[&str]) {
    for part in parts {
        assert!(line.contains(part), "no `{part}` in: {line}");
    }
}

/// The entries of a list in a document.
pub(crate) fn list<'a>(document: &'a Value, name: &str) -> &'a [Value] {
    let found = document[name].as_array();
    found.unwrap_or_else(|| panic!("{name} is no list: {}", document[name]))
}

/// The warnings of a report, by their stable names.
pub(crate) fn warning_codes(report: &Value) -> Vec<&str> {
    let codes = list(report, "warnings").iter();
    codes.map(|warning| warning["code"].as_str().unwrap()).collect()
}

/// What the warning of that name says.
pub(crate) fn warning<'a>(report: &'a Value, code: &str) -> &'a str {
    let found = list(report, "warnings")
        .iter()
        .find(|warning| warning["code"] == code)
        .unwrap_or_else(|| panic!("no {code} among {:?}", warning_codes(report)));
    found["message"].as_str().unwrap()
}

/// The value of a result. Where it is an error, the test that calls this ends here, and tells that it was skipped, and why.
macro_rules! or_skip {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(why) => {
                fn here() {}
                return $crate::support::skip($crate::support::function_around(&here), &why);
            }
        }
    };
}
pub(crate) use or_skip;

/// The name of the function that `inner` stands in.
pub(crate) fn function_around<F>(inner: &F) -> &'static str {
    let mut path = std::any::type_name_of_val(inner).rsplit("::");
    path.nth(1).expect("a function stands in another")
}

/// Tells that a test could not run here: to who runs it alone, and to the file that the variable names, which
/// reaches who runs all.
pub(crate) fn skip(test: &str, reason: &str) {
    println!("skipped: {reason}");
    if let Some(file) = std::env::var_os("EVENKEEL_SKIPPED") {
        let mut file = OpenOptions::new().append(true).create(true).open(file).unwrap();
        file.write_all(format!("{test}: {reason}\n").as_bytes()).unwrap();
    }
}
