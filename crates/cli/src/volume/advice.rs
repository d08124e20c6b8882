//! What can be done about an error or an event of a volume, in commands and flags of this program.

use evenkeel_host::remedy::Remedy;

/// Puts a remedy into words, as one clause behind what is wrong.
pub(crate) fn advise(remedy: &Remedy) -> Option<String> {
    Some(match remedy {
        Remedy::LetGroupIn => {
            "let a group in instead (--socket-mode 660 --socket-group GROUP), or use --tls".to_owned()
        }
        Remedy::ListenLocally => "listen on 127.0.0.1, or use --tls".to_owned(),
        Remedy::ReplaceDevice => "put another in its place with `evenkeel replace`".to_owned(),
        Remedy::SalvagePages { folder, renews_log } => {
            let renew = match renews_log {
                true => format!(", and `evenkeel renew-log {folder}` makes its log again"),
                false => String::new(),
            };
            format!("`evenkeel salvage {folder} IMAGE` copies its pages{renew}")
        }
        Remedy::NameDamagedPages => "`evenkeel check` names them".to_owned(),
        Remedy::LookAtCounts => "`evenkeel status --json` counts them".to_owned(),
        _ => return None,
    })
}
