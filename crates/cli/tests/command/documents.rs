//! The documents: relative links lead somewhere, the index has every document, and each test that a guarantee names exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Tests have longer names than any other word between backticks.
const TEST_NAME_BYTES_MIN: usize = 20;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path, extension));
        } else if path.extension().is_some_and(|end| end == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn documents() -> Vec<PathBuf> {
    let mut all = files_below(&root().join("docs"), "md");
    all.extend(["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(|name| root().join(name)));
    all
}

/// The lines of a document outside code blocks.
fn prose(document: &str) -> String {
    document.split("```").step_by(2).collect()
}

/// Targets of links, without those that lead to other sites.
fn links(document: &str) -> Vec<String> {
    let text = prose(document);
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://")).map(str::to_owned).collect()
}

/// The anchors of a document's headings, as they are shown on the web.
fn anchors(document: &str) -> BTreeSet<String> {
    let text = prose(document);
    let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
    let titles = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    titles.map(|title| title.chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn every_relative_link_leads_to_a_file_and_to_a_heading_in_it() {
    let mut tried = 0;
    for document in documents() {
        let text = read(&document);
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => document.clone(),
                _ => document.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{}: {link} leads nowhere", document.display());
            let is_heading = anchor.is_empty() || anchors(&read(&target)).contains(anchor);
            assert!(is_heading, "{}: {link} names no heading", document.display());
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried} links");
}

#[test]
fn the_index_has_every_document() {
    let folder = root().join("docs");
    let indexed = links(&read(&folder.join("README.md")));
    for document in files_below(&folder, "md") {
        let name = document.strip_prefix(&folder).unwrap().to_str().unwrap();
        assert!(name == "README.md" || indexed.iter().any(|link| link == name), "{name} is in no shelf");
    }
}

#[test]
fn each_test_that_a_guarantee_names_exists() {
    let tests: String = ["sim", "cli", "ext2"]
        .map(|name| files_below(&root().join("crates").join(name).join("tests"), "rs"))
        .concat()
        .iter()
        .map(|file| read(file))
        .collect();
    let guarantees = prose(&read(&root().join("docs/guarantees.md")));
    let is_test = |word: &&str| {
        word.len() >= TEST_NAME_BYTES_MIN
            && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    };
    let named: BTreeSet<&str> = guarantees.split('`').skip(1).step_by(2).filter(is_test).collect();
    assert!(named.len() > 40, "{named:?}");
    for name in named {
        assert!(tests.contains(&format!("fn {name}(")), "guarantees.md names {name}, which is no test");
    }
}
