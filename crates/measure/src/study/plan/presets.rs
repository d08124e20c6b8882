//! Plans that ship with evenkeel.

/// A plan by name.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is for, in one line.
    pub words: &'static str,
    /// The plan.
    pub text: &'static str,
}

/// All of them.
pub const PRESETS: [Preset; 4] = [
    Preset {
        name: "paper",
        words: "the nine parameters of the paper over ext4, XFS and btrfs, with its times: months",
        text: include_str!("../presets/paper.toml"),
    },
    Preset {
        name: "scaled",
        words: "the same parameters with short runs over little data: some hours",
        text: include_str!("../presets/scaled.toml"),
    },
    Preset {
        name: "case-study",
        words: "what each remedy does to ext4's variation",
        text: include_str!("../presets/case-study.toml"),
    },
    Preset {
        name: "five-minutes",
        words: "too small to conclude anything from: to see a study work",
        text: include_str!("../presets/five-minutes.toml"),
    },
];

/// The preset of this name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}
