//! What can be done about an error or an event of a volume, in commands and flags of this program.

use evenkeel_host::remedy::{Remedy, Setting};

/// Puts a remedy into words, as one clause behind what is wrong.
pub(crate) fn advise(remedy: &Remedy) -> Option<String> {
    Some(match remedy {
        Remedy::LetGroupIn => {
            "let a group in instead (--socket-mode 660 --socket-group GROUP), or ask for certificates (--tls)"
                .to_owned()
        }
        Remedy::ListenLocally => "listen on 127.0.0.1, or use --tls".to_owned(),
        Remedy::AskForCertificates => {
            "put the authority that signs clients' certificates into the folder of --tls, as ca-cert.pem"
                .to_owned()
        }
        Remedy::ShowToOthers => "or --http-public, where they are to see it".to_owned(),
        Remedy::NamePage => "or serve it with --http-name NAME".to_owned(),
        Remedy::ReplaceDevice => "put another in its place with `evenkeel replace`".to_owned(),
        Remedy::SalvagePages { folder, renews_log } => {
            let renew = match renews_log {
                true => format!(", and `evenkeel renew-log {folder}` makes its log again"),
                false => String::new(),
            };
            format!("`evenkeel salvage {folder} IMAGE` copies its pages{renew}")
        }
        Remedy::NameDamagedPages => "`evenkeel check` names them".to_owned(),
        Remedy::LookAfterLogDrive => {
            "look whether its drive is failing, is full of garbage, or has other work; if it stays so, \
             `evenkeel tune --dry-run` tries which settings suit it, once the volume is not served"
                .to_owned()
        }
        Remedy::TuneAnew => {
            "once it is not served, `evenkeel tune --dry-run` tries which settings suit it now".to_owned()
        }
        Remedy::LookAtCounts => "`evenkeel status --json` counts them".to_owned(),
        Remedy::MakeVolume => "make one with `evenkeel create`".to_owned(),
        Remedy::LookAtStatus => {
            "look at `evenkeel status` whether it did what was asked, and ask again if not".to_owned()
        }
        Remedy::Destroy { place } => format!("to overwrite it: --destroy {place}"),
        Remedy::ChooseSmaller(setting) => format!("choose a smaller {}", flag(*setting)),
        Remedy::UseSparse => "or --sparse, which takes room only for what is written".to_owned(),
        Remedy::GiveUpWrites => "or give up what it holds: --give-up-writes".to_owned(),
        Remedy::CopyToLarger => {
            "make a larger one with `evenkeel create`, serve both, and copy this one there with \
                                 nbdcopy"
                .to_owned()
        }
        Remedy::AwaitRebuild { folder } => format!(
            "it is rebuilt while the volume is served: grow it once `evenkeel status {folder}` shows it in sync"
        ),
        Remedy::ReplaceMember { folder, member } => {
            format!("bring it back, or put another in its place: evenkeel replace {folder} {member} NEW")
        }
        Remedy::SayAtomicSectors => "where it does: --atomic-sectors yes".to_owned(),
        Remedy::SayUnfenced => "or --unfenced".to_owned(),
        _ => return None,
    })
}

/// The flag by which a size is set.
pub(super) fn flag(setting: Setting) -> &'static str {
    match setting {
        Setting::Size => "--size",
        Setting::LogSize => "--log-size",
        Setting::AtomicMax => "--atomic-max",
        Setting::Buffer => "--buffer",
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_host::volume::VolumeError;

    use super::*;

    #[test]
    fn what_is_wrong_comes_without_flags_and_gets_them_here() {
        let problem =
            VolumeError::Unanswered { folder: "disk".into(), source: std::io::ErrorKind::TimedOut.into() };
        assert!(!problem.to_string().contains("evenkeel "), "{problem}");
        let explained = problem.explained(advise);
        assert!(explained.starts_with(&format!("{problem}; ")) && explained.contains("`evenkeel status`"));
    }
}
