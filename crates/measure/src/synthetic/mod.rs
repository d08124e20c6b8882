//! Studies that never ran, with a truth that is known: how often a page says what is false, and how often it misses what
//! is so. `cargo xtask synthetic` prints the table.
//!
//! Pages are made by the very code that makes those of measured studies, and judged by what they claim.

pub mod audit;
pub mod studies;

pub use audit::{Rates, audit};
pub use studies::{Effect, Noise, Plan, Synthetic};

#[cfg(test)]
mod tests {
    use super::*;

    /// Few pages of fixed seeds, to see at once what breaks the rates; `cargo xtask synthetic` counts them.
    #[test]
    fn pages_of_noise_say_hardly_anything_false() {
        let mut all = 0;
        let mut wrong = Vec::new();
        for noise in Noise::ALL {
            let rates = audit(noise, Effect::None, Plan::TwoByTwo, 1_000..1_004, 2);
            all += rates.pages;
            wrong.extend((rates.with_false > 0).then_some((noise, rates)));
        }
        assert_eq!(all, 36);
        assert!(wrong.iter().map(|(_, rates)| rates.with_false).sum::<u64>() <= 2, "{wrong:?}");
        assert!(wrong.iter().all(|(_, rates)| rates.with_missed == 0), "{wrong:?}");
    }

    #[test]
    fn what_is_so_is_said_and_sentences_are_borne_out_by_claims() {
        for effect in Effect::ALL {
            let rates = audit(Noise::Normal, effect, Plan::Larger, 1_000..1_001, 1);
            assert_eq!((rates.pages, rates.with_missed), (1, 0), "{effect:?}");
        }
        let study =
            Synthetic { noise: Noise::Normal, effect: Effect::Placement, plan: Plan::Larger, seed: 1_001 };
        let report = crate::study::report::analyse(&study.study());
        let placement = report.findings.iter().find(|finding| finding.about == "placement").unwrap();
        assert!(placement.words.starts_with("Throughput depends on where the data lie"), "{placement:?}");
        for finding in &report.findings {
            assert_eq!(audit::unsupported_words(&report, &finding.words), [""; 0], "{finding:?}");
        }
    }
}
