//! `evenkeel schema`.

use evenkeel_measure::schemas;

use crate::args::SchemaArgs;
use crate::failure::Failure;
use crate::stdout::say;

/// Prints the schema of one kind of document, or the names of all.
pub(crate) fn run(args: &SchemaArgs) -> Result<(), Failure> {
    let Some(name) = &args.name else {
        return say(&list()?);
    };
    // A document names its schema as `evenkeel.probe/1`.
    let kind = name.strip_prefix("evenkeel.").and_then(|id| id.split('/').next()).unwrap_or(name);
    let found = schemas::ALL.into_iter().find(|(known, _)| *known == kind);
    let (_, text) = found.ok_or_else(|| {
        Failure::Unusable(format!("no document is called `{name}`; `evenkeel schema` lists them"))
    })?;
    let (id, _) = summary(text)?;
    if name != kind && *name != id {
        return Err(Failure::Unusable(format!("this version writes {id}, and has no schema of {name}")));
    }
    say(text)
}

fn list() -> Result<String, Failure> {
    let row = |(name, text)| -> Result<[String; 3], Failure> {
        let (id, what) = summary(text)?;
        Ok([String::from(name), id, what])
    };
    let rows = schemas::ALL.into_iter().map(row).collect::<Result<Vec<_>, _>>()?;
    let mut text = String::new();
    for [name, id, what] in rows {
        text += &format!("{name:<10} {id:<22} {what}\n");
    }
    Ok(text)
}

fn summary(text: &str) -> Result<(String, String), Failure> {
    schemas::summary(text).map_err(|error| Failure::Unusable(format!("a schema cannot be read: {error}")))
}
