//! What `evenkeel salvage` says of a volume.

use std::fmt::Write as _;
use std::path::PathBuf;

use evenkeel_engine::salvage::{Condition, DamageList, DamagedRange};
use evenkeel_host::volume::Recovered;
use evenkeel_host::volume::salvage::OpenSalvage;
use evenkeel_measure::report::format;
use serde_json::json;

use crate::failure::Failure;
use crate::stdout::shown;

/// The document's schema.
const SCHEMA: &str = "evenkeel.salvage/1";

const CONDITIONS: [Condition; 3] = [Condition::Lost, Condition::Stale, Condition::Uncertain];

/// What was found.
pub(crate) struct Report {
    volume: PathBuf,
    out: Option<PathBuf>,
    size_bytes: u64,
    named: DamageList,
    missing: Vec<(String, String)>,
    records: u64,
    writes: u64,
    passed_records: Vec<u64>,
    is_closed: bool,
    memory_is_gone: bool,
}

impl Report {
    /// Of a volume that was read, or is about to be, with what is lost of it.
    pub(crate) fn of(volume: PathBuf, out: Option<PathBuf>, open: &OpenSalvage, lost: DamageList) -> Self {
        let salvaged = &open.salvaged;
        let mut named = salvaged.named.clone();
        named.append(&lost);
        Self {
            volume,
            out,
            size_bytes: salvaged.size_bytes(),
            named,
            missing: open.missing.iter().map(|(place, why)| (place.to_string(), why.clone())).collect(),
            records: salvaged.records,
            writes: salvaged.writes,
            passed_records: salvaged.passed_records.clone(),
            is_closed: salvaged.is_closed,
            memory_is_gone: open.memory_is_gone,
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}: {}", shown(self.volume.display()), format::bytes(self.size_bytes));
        match &self.out {
            Some(out) => writeln!(text, ", copied to {}", shown(out.display())),
            None => writeln!(text, ", opened to be read"),
        }
        .expect("a string takes all");
        if self.records + self.writes > 0 {
            let records = format::counted(self.records, "record");
            let writes = format::counted(self.writes, "write");
            writeln!(text, "  taken: {records} of the log, {writes} kept in memory").expect("as above");
        }
        for record in &self.passed_records {
            writeln!(text, "  record {record} of the log is damaged, and was not needed").expect("as above");
        }
        for (place, why) in &self.missing {
            writeln!(text, "  without {}: {}", shown(place), shown(why)).expect("as above");
        }
        for DamagedRange { extent, condition, cause } in self.named.ranges() {
            let (name, bytes) = (condition.name(), format::count(extent.len));
            let at = extent.offset;
            writeln!(text, "  {name:<9} {bytes} bytes from {at}: {cause}").expect("as above");
        }
        if self.named.is_coarse() {
            text.push_str("  so many ranges are named that some are longer than they have to be\n");
        }
        if self.named.is_empty() {
            text.push_str("  nothing is lost, stale or uncertain\n");
        }
        if self.memory_is_gone {
            writeln!(text, "  {}", Recovered::MEMORY_IS_GONE).expect("as above");
        }
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> String {
        let range = |named: &DamagedRange| {
            json!({
                "condition": named.condition.name(),
                "offset_bytes": named.extent.offset,
                "length_bytes": named.extent.len,
                "cause": named.cause.to_string(),
            })
        };
        let missing = |(place, why): &(String, String)| json!({ "path": place, "why": why });
        let bytes = CONDITIONS.map(|condition| self.named.bytes(condition));
        let document = json!({
            "schema": SCHEMA,
            "volume": self.volume,
            "out": self.out,
            "size_bytes": self.size_bytes,
            "is_whole": self.named.is_empty(),
            "was_stopped_in_order": self.is_closed,
            "memory_is_gone": self.memory_is_gone,
            "lost_bytes": bytes[0],
            "stale_bytes": bytes[1],
            "uncertain_bytes": bytes[2],
            "log_records_taken": self.records,
            "log_records_damaged_and_not_needed": self.passed_records,
            "writes_taken_from_memory": self.writes,
            "missing": self.missing.iter().map(missing).collect::<Vec<_>>(),
            "ranges_are_coarse": self.named.is_coarse(),
            "ranges": self.named.ranges().iter().map(range).collect::<Vec<_>>(),
        });
        format!("{document:#}\n")
    }

    /// Whether all of it is whole.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        if self.named.is_empty() {
            return Ok(());
        }
        let said = CONDITIONS.into_iter().filter_map(|condition| match self.named.bytes(condition) {
            0 => None,
            bytes => Some(format!("{} bytes are {}", format::count(bytes), condition.name())),
        });
        let said: Vec<String> = said.collect();
        let shown = self.volume.display();
        let next = "write the ranges that standard output names anew from a backup";
        Err(Failure::No(format!("{shown}: {}; {next}", said.join(", "))))
    }
}
