//! The counters of the engine as part of the status document.

use evenkeel_engine::counters::Snapshot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($(#[doc = $doc:literal] $name:ident,)*) => {
        /// What the engine did, by the names of [`Snapshot`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct Counters { $(#[doc = $doc] pub $name: u64,)* }

        impl From<Snapshot> for Counters {
            fn from(snapshot: Snapshot) -> Self {
                Self { $($name: snapshot.$name,)* }
            }
        }

        impl Counters {
            /// Each with its name, and what it counts.
            pub fn each(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), $doc.trim_ascii(), self.$name),)*]
            }
        }
    };
}

evenkeel_engine::with_counters!(counters);
