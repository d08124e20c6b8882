//! What may be typed of arenas.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

/// List what killed servers left in memory, and free what no volume comes back for
///
/// A served volume keeps writes that are acknowledged and not yet durable in an arena, a file in /dev/shm. A stop in order
/// removes it; after a kill the next start of the volume takes it over. Of a volume that was deleted since, nobody does,
/// and its memory is taken until the machine starts anew: such an arena is listed as orphaned. Nothing is freed unless it
/// is named.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct ArenasArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ArenasCommand>,

    /// Look in this folder, too: of a volume without room in /dev/shm the arena is in its own; may be repeated
    #[arg(long = "in", value_name = "FOLDER")]
    pub(crate) folders: Vec<PathBuf>,

    /// What was found, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArenasCommand {
    Free(ArenasFreeArgs),
}

/// Remove arenas, and give their memory back
///
/// Either all that are named go, or none. One that is in use is refused, and one that a volume may come back for, too:
/// unless what is in it is given up.
#[derive(Debug, ClapArgs)]
#[command(after_help = FREE_EXAMPLES)]
pub(crate) struct ArenasFreeArgs {
    /// The arenas' files, as `evenkeel arenas` names them
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Give up acknowledged writes that are in these arenas and nowhere else, as a power cut would
    #[arg(long)]
    pub(crate) give_up_writes: bool,

    /// Say what would be freed, and free nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

const EXAMPLES: &str = "\
Examples:
  evenkeel arenas                                   all of /dev/shm: whose, and what waits in them
  evenkeel arenas --in /srv/disk                    and the one that a volume has in its folder
  evenkeel arenas --json | jq '.arenas[] | select(.state == \"orphaned\") | .path'
  evenkeel arenas free /dev/shm/evenkeel-0123456789abcdef-0123456789abcdef.arena --dry-run

Exit status: 0 done, 2 wrong usage or a folder that cannot be read.";

const FREE_EXAMPLES: &str = "\
Examples:
  evenkeel arenas free /dev/shm/evenkeel-0123456789abcdef-0123456789abcdef.arena --dry-run
  evenkeel arenas free /dev/shm/evenkeel-0123456789abcdef-0123456789abcdef.arena
  evenkeel arenas free /dev/shm/evenkeel-0123456789abcdef-0123456789abcdef.arena --give-up-writes
                                                    also one whose volume was deleted after a kill

Exit status: 0 they are freed, 2 wrong usage or an arena that is needed: then all of them stay.";
