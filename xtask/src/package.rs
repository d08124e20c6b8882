//! `cargo xtask package`: what a release consists of.
//!
//! ```text
//!  cargo build --profile dist ─► the program ─► man pages, completions ─► .deb, archive with the static program, SBOM
//!                                                                                   └─► SHA256SUMS
//! ```
//!
//! 1. The same commit, compiler and machine give the same bytes: no time but that of the commit, no path of this machine.
//! 2. What cannot be made here, as a program is missing, is named with what gets it, and is an error unless `--partial` says
//!    otherwise.
//! 3. With `--try` the package is installed in a new Debian root, and its program run there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{self, Failure, Outcome, cargo, context, workspace_root};

/// Where what the package consists of is made, beside what is written by hand.
const GENERATED: &str = "packaging/generated";

const STATIC_TARGET: &str = "x86_64-unknown-linux-musl";

const SHELLS: [(&str, &str); 3] = [("bash", "evenkeel"), ("zsh", "_evenkeel"), ("fish", "evenkeel.fish")];

/// Names under which the program does something of its own.
const NAMES: [&str; 2] = ["sbin/mount.evenkeel", "bin/evenkeeld"];

/// What is in the archive beside the program: files and folders, and where from.
const TEXTS: [&str; 7] = [
    "README.md",
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "packaging/systemd",
    "packaging/sysusers.d",
    "packaging/tmpfiles.d",
];

/// What is asked of `package`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask package                           all of it, in target/package/out
  cargo xtask package --partial --try           what can be made here, tried in a new Debian root")]
pub(crate) struct Args {
    /// Where the results go
    #[arg(long, value_name = "DIR", default_value = "target/package/out")]
    out: PathBuf,

    /// Make what can be made here, and name the rest
    #[arg(long)]
    partial: bool,

    /// Install the package in a new Debian root, and run its program there; needs root and debootstrap
    #[arg(long = "try")]
    tries: bool,
}

/// Makes everything.
pub(crate) fn main(args: &Args) -> Outcome {
    let work = workspace_root().join(GENERATED);
    let out = workspace_root().join(&args.out);
    for folder in [&out, &work] {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(context(folder.display().to_string()))?;
        }
    }
    for folder in [&out, &work.join("man"), &work.join("completions")] {
        fs::create_dir_all(folder).map_err(context(folder.display().to_string()))?;
    }
    let program = build(None)?;
    texts_of(&program, &work)?;
    let mut missing = Vec::new();
    let package = debian_package(&out, &mut missing)?;
    static_archive(&work, &out, &mut missing)?;
    bill_of_materials(&out, &mut missing)?;
    let sums = run::system("sh", &["-c", "sha256sum -- * > SHA256SUMS && cat SHA256SUMS"]);
    shown(in_folder(sums, &out))?;
    match &package {
        Some(package) if args.tries && can_try() => {
            try_in_new_root(package, &workspace_root().join("target/package/root"))?;
            println!("installed, used and removed in a new Debian root: {}", package.display());
        }
        Some(_) if args.tries => {
            missing.push("the trial in a new root: run it as root, with debootstrap installed".to_owned());
        }
        _ => {}
    }
    for what in &missing {
        println!("skipped: {what}");
    }
    match missing.is_empty() || args.partial {
        true => Ok(()),
        false => Err(Failure::Failed("not everything was done; --partial takes what there is".to_owned())),
    }
}

/// Runs a command, which must go well, and shows it before.
fn shown(mut command: Command) -> Outcome {
    println!("$ {}", run::shown(&command));
    let status = command.status().map_err(context(run::shown(&command)))?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::Failed(format!("{}: {status}", run::shown(&command)))),
    }
}

fn in_folder(mut command: Command, folder: &Path) -> Command {
    command.current_dir(folder);
    command
}

/// What makes results depend on nothing but the commit: its time, and no path of this machine.
fn reproducible(mut command: Command) -> Outcome<Command> {
    let root = workspace_root();
    let log = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(&root).output();
    let time = log.map_err(context("git log"))?.stdout;
    let time = String::from_utf8_lossy(&time).trim().to_owned();
    let home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
        .unwrap_or_default();
    let flags = format!("--remap-path-prefix={}=/evenkeel --remap-path-prefix={home}=/cargo", root.display());
    command.env("SOURCE_DATE_EPOCH", if time.is_empty() { "0" } else { &time }).env("RUSTFLAGS", flags);
    Ok(command)
}

/// Builds the program, for this system or another; answers where it is.
fn build(target: Option<&str>) -> Outcome<PathBuf> {
    let mut build = reproducible(cargo(&["build", "--profile", "dist", "--locked", "-p", "evenkeel"]))?;
    let folder =
        std::env::var("CARGO_TARGET_DIR").map_or_else(|_| workspace_root().join("target"), PathBuf::from);
    let folder = match target {
        Some(target) => {
            build.args(["--target", target]);
            folder.join(target)
        }
        None => folder,
    };
    shown(build)?;
    Ok(folder.join("dist/evenkeel"))
}

/// Writes manual pages and completions, as the program prints them.
fn texts_of(program: &Path, work: &Path) -> Outcome {
    let mut pages = Command::new(program);
    pages.args(["man", "--out"]).arg(work.join("man"));
    shown(pages)?;
    let page = |from: &str, to: &str| {
        let to = work.join("man").join(to);
        fs::write(&to, format!(".so man1/{from}\n")).map_err(context(to.display().to_string()))
    };
    page("evenkeel-daemon.1", "evenkeeld.1")?;
    page("evenkeel-mount.1", "mount.evenkeel.1")?;
    for (shell, file) in SHELLS {
        let printed = Command::new(program).args(["completions", shell]).output();
        let printed = printed.map_err(context("evenkeel completions"))?;
        if !printed.status.success() {
            return Err(Failure::Failed(format!("evenkeel completions {shell}: {}", printed.status)));
        }
        let to = work.join("completions").join(file);
        fs::write(&to, printed.stdout).map_err(context(to.display().to_string()))?;
    }
    for name in NAMES {
        let link = work.join(name);
        let folder = link.parent().expect("it is in a folder");
        fs::create_dir_all(folder).map_err(context(folder.display().to_string()))?;
        let _there_already = fs::remove_file(&link);
        symlink("/usr/bin/evenkeel", &link).map_err(context(link.display().to_string()))?;
    }
    Ok(())
}

fn debian_package(out: &Path, missing: &mut Vec<String>) -> Outcome<Option<PathBuf>> {
    if !run::has_program("cargo-deb") {
        missing.push("the Debian package: cargo install --locked cargo-deb".to_owned());
        return Ok(None);
    }
    let arguments = ["deb", "-p", "evenkeel", "--profile", "dist", "--no-build", "--no-strip", "--output"];
    let mut package = reproducible(cargo(&arguments))?;
    package.arg(out.join(""));
    shown(package)?;
    let mut made = fs::read_dir(out).map_err(context(out.display().to_string()))?.filter_map(Result::ok);
    let made = made.find(|entry| entry.path().extension().is_some_and(|extension| extension == "deb"));
    made.map(|entry| Some(entry.path()))
        .ok_or_else(|| Failure::Failed("cargo deb made no package".to_owned()))
}

fn static_archive(work: &Path, out: &Path, missing: &mut Vec<String>) -> Outcome {
    let has_target = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", STATIC_TARGET])
        .output()
        .is_ok_and(|said| Path::new(String::from_utf8_lossy(&said.stdout).trim()).exists());
    if !has_target || !run::has_program("musl-gcc") {
        missing.push(format!(
            "the static program: rustup target add {STATIC_TARGET}, and apt-get install musl-tools"
        ));
        return Ok(());
    }
    let program = build(Some(STATIC_TARGET))?;
    let copied =
        |from: &Path, to: &Path| fs::copy(from, to).map(|_| ()).map_err(context(to.display().to_string()));
    copied(&program, &out.join("evenkeel-static"))?;
    let tree = work.join("evenkeel-static");
    fs::create_dir_all(&tree).map_err(context(tree.display().to_string()))?;
    copied(&program, &tree.join("evenkeel"))?;
    let root = workspace_root();
    for text in TEXTS {
        shown(in_folder(run::system("cp", &["-r", text, &tree.display().to_string()]), &root))?;
    }
    for folder in ["man", "completions"] {
        shown(in_folder(run::system("cp", &["-r", folder, &tree.display().to_string()]), work))?;
    }
    let archive = reproducible(run::system(
        "sh",
        &[
            "-c",
            "tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@\"$SOURCE_DATE_EPOCH\" -c \"$0\" | gzip -n9 > \"$1\"",
            "evenkeel-static",
            &out.join("evenkeel-static.tar.gz").display().to_string(),
        ],
    ))?;
    shown(in_folder(archive, work))
}

fn bill_of_materials(out: &Path, missing: &mut Vec<String>) -> Outcome {
    if !run::has_program("cargo-cyclonedx") {
        missing.push("the bill of materials: cargo install --locked cargo-cyclonedx".to_owned());
        return Ok(());
    }
    let arguments = ["cyclonedx", "--format", "json", "--override-filename", "evenkeel.cdx"];
    shown(reproducible(cargo(&arguments))?)?;
    // It writes one beside the manifest of each package.
    let root = workspace_root();
    let crates = fs::read_dir(root.join("crates")).map_err(context("crates"))?;
    let mut folders = vec![root.join("xtask")];
    for folder in crates {
        folders.push(folder.map_err(context("crates"))?.path());
    }
    folders.iter().try_for_each(|folder| keep_or_remove(&folder.join("evenkeel.cdx.json"), folder, out))
}

fn keep_or_remove(made: &Path, folder: &Path, out: &Path) -> Outcome {
    if !made.exists() {
        return Ok(());
    }
    if folder.ends_with("cli") {
        fs::copy(made, out.join("evenkeel.cdx.json")).map_err(context(made.display().to_string()))?;
    }
    fs::remove_file(made).map_err(context(made.display().to_string()))
}

fn can_try() -> bool {
    evenkeel_host::program::is_root() && run::has_program("debootstrap")
}

/// What runs a line in a root of its own, which is a mount with its own processes, as any machine's is.
const INSIDE: &str =
    "mount --bind \"$0\" \"$0\"; mount -t proc proc \"$0/proc\"; exec chroot \"$0\" sh -ec \"$1\"";

/// Installs the package where nothing is but Debian, and uses it.
fn try_in_new_root(package: &Path, root: &Path) -> Outcome {
    let _none_of_before = fs::remove_dir_all(root);
    let at = root.display().to_string();
    shown(run::system("debootstrap", &["--variant=minbase", "bookworm", &at]))?;
    let inside = root.join("evenkeel.deb");
    fs::copy(package, &inside).map_err(context(inside.display().to_string()))?;
    for line in [
        "apt-get install --yes --no-install-recommends /evenkeel.deb",
        "evenkeel --version && evenkeeld --help > /dev/null && test -x /usr/sbin/mount.evenkeel",
        "evenkeel create /var/lib/evenkeel/try --size 8m --log-size 4m --buffer 1m --dry-run",
        "evenkeel probe /var/lib/evenkeel --quick --sizes 4k --runs 3 --out /tmp",
        "test -s /usr/share/man/man1/evenkeel-study-run.1.gz && test -d /etc/evenkeel/volumes && getent passwd evenkeel",
        "apt-get purge --yes evenkeel && ! command -v evenkeel",
    ] {
        shown(run::system("unshare", &["--mount", "--pid", "--fork", "sh", "-ec", INSIDE, &at, line]))?;
    }
    fs::remove_dir_all(root).map_err(context(at))
}
