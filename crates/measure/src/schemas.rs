//! JSON Schemas (2020-12) of the documents that evenkeel writes for people's programs, as `evenkeel schema` prints them.
//!
//! 1. Those in the folder `schemas` of the repository are what [`generated`] makes of the types that are written, but for
//!    those that are written by hand.
//! 2. A document that grows by a field keeps its number; one that loses a field, or changes one's meaning, gets the next.
//!    Either is noted in `schemas/versions.tsv`.

use evenkeel_host::service::http::history::History;
use evenkeel_host::service::status::Status;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::compare::{Comparisons, Pairs};
use crate::drive::DriveStatus;
use crate::probe::report::ProbeReport;
use crate::probe::soak::SoakReport;
use crate::replay::report::ReplayReport;
use crate::reproduce::Gallery;
use crate::study::report::StudyReport;
use crate::tune::report::TuneReport;

/// Each document's name and its schema, in the order of names.
pub const ALL: [(&str, &str); 13] = [
    ("check", include_str!("../../../schemas/check.json")),
    ("compare", include_str!("../../../schemas/compare.json")),
    ("drive", include_str!("../../../schemas/drive.json")),
    ("history", include_str!("../../../schemas/history.json")),
    ("pairs", include_str!("../../../schemas/pairs.json")),
    ("probe", include_str!("../../../schemas/probe.json")),
    ("replay", include_str!("../../../schemas/replay.json")),
    ("reproduce", include_str!("../../../schemas/reproduce.json")),
    ("salvage", include_str!("../../../schemas/salvage.json")),
    ("soak", include_str!("../../../schemas/soak.json")),
    ("status", include_str!("../../../schemas/status.json")),
    ("study", include_str!("../../../schemas/study.json")),
    ("tune", include_str!("../../../schemas/tune.json")),
];

/// What a list of schemas says of one: the document's name with its version, and what it is.
///
/// # Errors
///
/// Where the text is no JSON.
pub fn summary(schema: &str) -> Result<(String, String), serde_json::Error> {
    let schema: serde_json::Value = serde_json::from_str(schema)?;
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    Ok((word(&schema["properties"]["schema"]["const"]), word(&schema["description"])))
}

/// The schema of each document that is written from a type, by the document's name.
pub fn generated() -> Vec<(&'static str, Schema)> {
    vec![
        ("compare", of::<Comparisons>()),
        ("drive", of::<DriveStatus>()),
        ("history", of::<History>()),
        ("pairs", of::<Pairs>()),
        ("probe", of::<ProbeReport>()),
        ("replay", of::<ReplayReport>()),
        ("reproduce", of::<Gallery>()),
        ("soak", of::<SoakReport>()),
        ("status", of::<Status>()),
        ("study", of::<StudyReport>()),
        ("tune", of::<TuneReport>()),
    ]
}

fn of<T: JsonSchema>() -> Schema {
    // As they are written: what is always there is required.
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas")
    }

    /// The schemas of the repository by the names of their documents.
    fn kept() -> BTreeMap<String, Value> {
        let files = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
        files
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .map(|path| {
                let value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
                (path.file_stem().unwrap().to_str().unwrap().to_owned(), value)
            })
            .collect()
    }

    /// What programs rely on: all but the words.
    fn without_words(schema: &Value) -> Value {
        match schema {
            Value::Object(map) => {
                let is_word = |name: &str, value: &Value| {
                    ["description", "title", "$comment"].contains(&name) && value.is_string()
                };
                let kept = map.iter().filter(|(name, value)| !is_word(name, value));
                Value::Object(kept.map(|(name, value)| (name.clone(), without_words(value))).collect())
            }
            Value::Array(values) => Value::Array(values.iter().map(without_words).collect()),
            other => other.clone(),
        }
    }

    #[test]
    fn the_schemas_of_the_repository_are_those_of_the_types() {
        // EVENKEEL_WRITE_SCHEMAS=1 writes them.
        let writes = std::env::var_os("EVENKEEL_WRITE_SCHEMAS").is_some();
        for (name, schema) in generated() {
            let path = folder().join(format!("{name}.json"));
            let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
            if writes {
                fs::write(&path, &text).unwrap();
            }
            let found = fs::read_to_string(&path).unwrap_or_default();
            assert!(
                found == text,
                "schemas/{name}.json is not of the type that is written; EVENKEEL_WRITE_SCHEMAS=1 cargo test -p \
                 evenkeel-measure schemas writes it anew"
            );
        }
    }

    #[test]
    fn each_change_of_a_schema_has_a_note() {
        let versions = fs::read_to_string(folder().join("versions.tsv")).unwrap();
        let rows: Vec<Vec<&str>> = versions.lines().skip(1).map(|line| line.split('\t').collect()).collect();
        assert!(rows.iter().all(|row| row.len() == 3 && row.iter().all(|cell| !cell.is_empty())), "{rows:?}");
        let mut lacking = String::new();
        for (name, schema) in kept() {
            let id = schema["properties"]["schema"]["const"]
                .as_str()
                .unwrap_or_else(|| panic!("{name}: no const"));
            assert!(id.starts_with(&format!("evenkeel.{name}/")), "{name}: {id}");
            assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
            let digest = format!(
                "{:016x}",
                twox_hash::XxHash3_64::oneshot(without_words(&schema).to_string().as_bytes())
            );
            let noted = rows.iter().rfind(|row| row[0] == id).map_or("none", |row| row[1]);
            if noted != digest {
                lacking += &format!("{id}\t{digest}\tWHAT CHANGED\n");
            }
        }
        assert!(
            lacking.is_empty(),
            "schemas changed; say how at the end of schemas/versions.tsv:\n{lacking}"
        );
    }

    #[test]
    fn all_that_are_kept_can_be_printed_and_say_what_they_are() {
        let kept = kept();
        assert_eq!(ALL.map(|(name, _)| name.to_owned()).to_vec(), kept.keys().cloned().collect::<Vec<_>>());
        for (name, text) in ALL {
            let (id, what) = summary(text).unwrap();
            assert!(
                id.starts_with(&format!("evenkeel.{name}/")) && what.ends_with('.'),
                "{name}: {id} {what}"
            );
        }
    }

    #[test]
    fn words_alone_are_no_change() {
        let of = |text: &str| without_words(&serde_json::from_str(text).unwrap());
        let (one, other) =
            (r#"{"a": {"type": "number", "description": "x"}}"#, r#"{"a": {"type": "number"}}"#);
        assert_eq!(of(one), of(other));
        // A field may be called like that.
        let field = r#"{"properties": {"description": {"type": "string"}}}"#;
        assert_eq!(of(field)["properties"]["description"]["type"], "string");
    }
}
