//! Counts with names.

/// Makes a tally, its sum and its list of names.
macro_rules! tally {
    ($what:literal, $($(#[$about:meta])* $field:ident = $name:literal,)*) => {
        #[doc = $what]
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Tally {
            $($(#[$about])* pub $field: u64,)*
        }

        impl Tally {
            /// Adds what was counted elsewhere.
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }

            /// Each count with its name.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$(($name, self.$field)),*]
            }
        }
    };
}

pub(crate) use tally;
