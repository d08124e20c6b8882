//! The crate raft-engine, as it comes.

use std::path::Path;

use protobuf::descriptor::UninterpretedOption;
use raft_engine::{Config, Engine, LogBatch, MessageExt};

use crate::measured::{Measured, Run, Written, in_threads};
use crate::{ENTRY_BYTES, KEPT};

/// Entries are any message with an index. One that comes with protobuf has a number and bytes, as a Raft entry has,
/// and saves a compiler of messages.
struct Entries;

impl MessageExt for Entries {
    type Entry = UninterpretedOption;

    fn index(entry: &Self::Entry) -> u64 {
        entry.get_positive_int_value()
    }
}

pub fn run(folder: &Path, run: &Run) -> Measured {
    let before = Written::now(folder);
    let config = Config { dir: folder.join("raft").display().to_string(), ..Config::default() };
    let engine = Engine::open(config).expect("raft-engine opens a new folder");
    let done = in_threads(run, |stream| {
        let (engine, group) = (&engine, stream as u64 + 1);
        let mut noise = crate::evenkeel::Noise::new(run.part, stream);
        let mut batch = LogBatch::with_capacity(1);
        let mut entries = [UninterpretedOption::new()];
        move |number| {
            entries[0].set_positive_int_value(number + 1);
            entries[0].set_string_value(noise.bytes(ENTRY_BYTES));
            batch.add_entries::<Entries>(group, &entries).expect("an entry fits");
            engine.write(&mut batch, true).expect("a healthy write");
            if run.discards && (number + 1) % KEPT == 0 && number >= KEPT {
                engine.compact_to(group, number + 1 - KEPT);
            }
        }
    });
    if run.discards {
        engine.purge_expired_files().expect("a healthy purge");
    }
    engine.sync().expect("a healthy sync");
    drop(engine);
    Measured::of(done, before, Written::now(folder))
}
