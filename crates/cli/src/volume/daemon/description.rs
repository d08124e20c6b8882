//! Descriptions of what a daemon serves: TOML files, whose keys are options of `evenkeel serve` or `evenkeel mount`.
//!
//! 1. What an option takes, and what it is unless it is named, is said once: by the command that has it.
//! 2. A description that is wrong is told with its file and line, and harms no other.
//! 3. A folder's files are bounded in number and size before they are read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};
use toml::{Spanned, Value};

use crate::args::{MountArgs, ServeArgs};
use crate::failure::Failure;
use crate::stdout::shown;

/// Bytes of a description at most.
const BYTES_MAX: u64 = 64 << 10;

/// Descriptions of a folder at most.
const FILES_MAX: usize = 4096;

const EXTENSION: &str = "toml";

/// The key that names the volume.
const VOLUME: &str = "volume";

/// The key that says where it is mounted.
const MOUNT: &str = "mount";

/// Options that a description cannot have, and why.
const REFUSED: [(&str, &str); 4] = [
    ("salvage", "serve what is left of a damaged volume by hand: evenkeel serve --salvage"),
    ("create", "make the volume first: evenkeel create"),
    ("log-format", "events are told in one way: name it to `evenkeel daemon`"),
    ("log-level", "events are told in one way: name it to `evenkeel daemon`"),
];

/// What is to be done with a volume.
#[derive(Debug)]
pub(super) enum Wanted {
    Served(Box<ServeArgs>),
    Mounted(Box<MountArgs>),
}

/// A description that can be used.
#[derive(Debug)]
pub(super) struct Description {
    /// Its text: one that is the same says the same.
    pub(super) text: String,
    pub(super) wanted: Wanted,
}

impl Description {
    /// The volume's folder.
    pub(super) fn volume(&self) -> &Path {
        match &self.wanted {
            Wanted::Served(args) => &args.volume,
            Wanted::Mounted(args) => &args.volume,
        }
    }

    /// The same once more: who serves it takes one.
    pub(super) fn again(&self) -> Self {
        Self { text: self.text.clone(), wanted: parse(&self.text).expect("it was parsed before") }
    }

    /// The same, by whatever name.
    pub(super) fn canonical_volume(&self) -> PathBuf {
        self.volume().canonicalize().unwrap_or_else(|_| self.volume().to_owned())
    }
}

/// The descriptions of a folder by file, in their order: those that can be used, and why others cannot.
pub(super) type Descriptions = BTreeMap<PathBuf, Result<Description, String>>;

/// Reads a folder.
///
/// # Errors
///
/// The folder cannot be read, or has too many descriptions.
pub(super) fn read_folder(folder: &Path) -> Result<Descriptions, Failure> {
    let unreadable = |error| Failure::about(folder, format_args!("cannot be read: {error}"));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.extension().is_some_and(|extension| extension == EXTENSION) && !is_hidden {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            let why = format_args!("has more than {FILES_MAX} descriptions; have several daemons serve them");
            return Err(Failure::about(folder, why));
        }
    }
    let mut descriptions: Descriptions =
        files.into_iter().map(|file| (file.clone(), read_file(&file))).collect();
    refuse_doubles(&mut descriptions);
    Ok(descriptions)
}

/// Of several descriptions of one volume only the first counts.
fn refuse_doubles(descriptions: &mut Descriptions) {
    let mut first: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for (file, description) in descriptions.iter_mut() {
        let Ok(found) = description else { continue };
        let volume = found.canonical_volume();
        if let Some(other) = first.get(&volume) {
            *description = Err(format!(
                "{} is described by {}, too; remove one",
                shown(volume.display()),
                shown(other.display())
            ));
        } else {
            first.insert(volume, file.clone());
        }
    }
}

fn read_file(file: &Path) -> Result<Description, String> {
    let text = bounded(file).map_err(|why| format!("cannot be read: {why}"))?;
    let wanted = parse(&text)?;
    Ok(Description { text, wanted })
}

fn bounded(file: &Path) -> Result<String, String> {
    let said = |error: std::io::Error| error.to_string();
    // A pipe would never end, and might never begin.
    if !fs::metadata(file).map_err(said)?.is_file() {
        return Err("it is no file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(file).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(said)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("it has more than {BYTES_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "it is no text".to_owned())
}

/// The commands, as their own parsers.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Serve {
    #[command(flatten)]
    args: ServeArgs,
}

#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Mount {
    #[command(flatten)]
    args: MountArgs,
}

fn parse(text: &str) -> Result<Wanted, String> {
    let keys: BTreeMap<Spanned<String>, Spanned<Value>> = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or_else(String::new, |span| line_of(text, span.start));
        format!("{at}{}", error.message().lines().next().unwrap_or("no TOML"))
    })?;
    let path = |name: &str| {
        let found = keys.iter().find(|(key, _)| key.get_ref() == name);
        found.map(|(_, value)| absolute(text, name, value)).transpose()
    };
    let volume = path(VOLUME)?.ok_or_else(|| format!("lacks `{VOLUME} = \"/the/volume's/folder\"`"))?;
    let mount_point = path(MOUNT)?;
    let (command, about) = match mount_point {
        None => (Serve::command(), "serve"),
        Some(_) => (Mount::command(), "mount"),
    };
    let mut line: Vec<OsString> = Vec::new();
    for (key, value) in &keys {
        let name = key.get_ref().as_str();
        if [VOLUME, MOUNT].contains(&name) {
            continue;
        }
        let at = line_of(text, key.span().start);
        if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Err(format!("{at}`{name}` cannot be said here: {why}"));
        }
        let is_option = |argument: &clap::Arg| argument.get_long() == Some(name);
        if !command.get_arguments().any(is_option) {
            return Err(format!(
                "{at}there is no `{}`; `evenkeel {about} --help` lists what there is",
                shown(name)
            ));
        }
        line.extend(options(name, value.get_ref()).map_err(|why| format!("{at}`{name}`: {why}"))?);
    }
    line.push("--".into());
    line.push(volume.into());
    line.extend(mount_point.map(OsString::from));
    let parsed = match about {
        "serve" => Serve::try_parse_from(line).map(|serve| Wanted::Served(Box::new(serve.args))),
        _ => Mount::try_parse_from(line).map(|mount| Wanted::Mounted(Box::new(mount.args))),
    };
    parsed.map_err(|error| {
        let said = error.to_string();
        let first = said.lines().next().unwrap_or_default();
        first.trim_start_matches("error: ").to_owned()
    })
}

/// A path that does not depend on where the daemon was started.
fn absolute(text: &str, name: &str, value: &Spanned<Value>) -> Result<PathBuf, String> {
    let at = line_of(text, value.span().start);
    match value.get_ref() {
        Value::String(path) if Path::new(path).is_absolute() => Ok(PathBuf::from(path)),
        _ => Err(format!("{at}`{name}`: name a folder from the root, such as \"/srv/db\"")),
    }
}

/// An option as it is typed: `--name=value` for each value, or `--name`.
fn options(name: &str, value: &Value) -> Result<Vec<OsString>, &'static str> {
    let typed = |value: &Value| match value {
        Value::String(text) => Some(format!("--{name}={text}")),
        Value::Integer(number) => Some(format!("--{name}={number}")),
        Value::Float(number) => Some(format!("--{name}={number}")),
        _ => None,
    };
    let all = match value {
        Value::Boolean(is_set) => Some(is_set.then(|| format!("--{name}")).into_iter().collect()),
        Value::Array(values) => values.iter().map(typed).collect::<Option<Vec<String>>>(),
        single => typed(single).map(|option| vec![option]),
    };
    let all = all.ok_or("give a text, a number, true or false, or a list of texts or numbers")?;
    Ok(all.into_iter().map(OsString::from).collect())
}

/// Which line of a text that is, to begin a sentence with.
fn line_of(text: &str, offset: usize) -> String {
    let before = text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count();
    format!("line {}: ", before + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        parse(text).expect_err("it is wrong")
    }

    #[test]
    fn a_description_says_what_the_command_line_would() {
        let text = "volume = '/srv/db'\nnbd = ['tcp:127.0.0.1:10809', 'unix:/run/db.sock']\nread-only = true\n\
                    lock-memory = false\nconnections = 7\ncache = '2g'\n";
        let Ok(Wanted::Served(args)) = parse(text) else { panic!("it is served") };
        assert_eq!(args.volume, Path::new("/srv/db"));
        assert_eq!(args.nbd.len(), 2);
        assert!(args.read_only && !args.lock_memory);
        assert_eq!((args.connections, args.cache.bytes()), (7, Some(2 << 30)));
        let Ok(Wanted::Mounted(args)) =
            parse("volume = '/srv/files'\nmount = '/mnt/files'\noptions = ['noatime', 'nodev']\n")
        else {
            panic!("it is mounted")
        };
        assert_eq!((args.mount_point.as_path(), args.options.len()), (Path::new("/mnt/files"), 2));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, said) in [
            (
                "volume = '/srv/db'\n\nchache = '1g'\n",
                "line 3: there is no `chache`; `evenkeel serve --help`",
            ),
            ("volume = 'db'\n", "line 1: `volume`: name a folder from the root"),
            ("nbd = []\n", "lacks `volume ="),
            ("volume = '/srv/db'\nsalvage = true\n", "line 2: `salvage` cannot be said here"),
            ("volume = '/srv/db'\nmount = '/mnt'\ncreate = '1g'\n", "line 3: `create` cannot be said here"),
            ("volume = '/srv/db'\ncache = { size = 1 }\n", "line 2: `cache`: give a text"),
            ("volume = '/srv/db'\ncache = 'much'\n", "invalid value 'much' for '--cache"),
            ("volume = '/srv/db'\nvolume = '/srv/db'\n", "line 2: duplicate key"),
            ("volume = \n", "line 1: "),
        ] {
            let why = why(text);
            assert!(why.starts_with(said) && !why.contains('\n'), "{text:?}: {why}");
        }
    }
}
