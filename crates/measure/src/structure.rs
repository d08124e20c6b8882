//! The order of the modules of this crate, held by a test: a module uses those below it, and none above.
//!
//! ```text
//! schemas
//! synthetic   tune
//! compare   study   reproduce   replay
//! probe
//! fit   report   drive
//! stats   quantity
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// From the lowest. Modules of one layer do not use one another.
const LAYERS: [&[&str]; 6] = [
    &["stats", "quantity"],
    &["fit", "report", "drive"],
    &["probe"],
    &["compare", "study", "reproduce", "replay"],
    &["synthetic", "tune"],
    &["schemas"],
];

fn layers() -> BTreeMap<&'static str, usize> {
    let of_layer =
        |(layer, names): (usize, &&'static [&'static str])| names.iter().map(move |&name| (name, layer));
    LAYERS.iter().enumerate().flat_map(of_layer).collect()
}

/// The sources under a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let each = entries.flat_map(|path| match path.is_dir() {
        true => sources(&path),
        false => vec![path],
    });
    each.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// The modules at the top of the crate that a source names, tests included.
fn named(text: &str) -> Vec<&str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let paths = code.flat_map(|line| line.split("crate::").skip(1));
    let is_in_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    paths.filter_map(|path| path.split(|letter: char| !is_in_name(letter)).next()).collect()
}

/// What a source of `module` uses that it must not.
fn wrong<'a>(module: &str, text: &'a str) -> Vec<&'a str> {
    let layers = layers();
    let own = layers[module];
    let above = |name: &&str| *name != module && layers.get(name).is_none_or(|&layer| layer >= own);
    named(text).into_iter().filter(above).collect()
}

#[test]
fn modules_use_those_below_them_and_none_above() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut seen = 0;
    for path in sources(&root) {
        let inside = path.strip_prefix(&root).unwrap();
        let module =
            inside.components().next().unwrap().as_os_str().to_str().unwrap().trim_end_matches(".rs");
        if ["lib", "structure"].contains(&module) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        found
            .extend(wrong(module, &text).into_iter().map(|name| format!("{} uses {name}", inside.display())));
        seen += 1;
    }
    assert!(seen > 100, "{seen} sources");
    assert!(found.is_empty(), "upwards, or unknown:\n{}", found.join("\n"));
}

#[test]
fn what_is_used_upwards_is_seen() {
    assert_eq!(wrong("report", "use crate::probe::report;\nuse crate::stats;\n// crate::study\n"), ["probe"]);
    assert_eq!(wrong("study", "let x = crate::compare::y(crate::study::z);"), ["compare"]);
}
