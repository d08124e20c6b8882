//! What holds for every figure.

use std::collections::BTreeSet;

use super::*;

#[test]
fn figures_have_names_of_their_own_that_begin_with_their_papers() {
    let mut names = BTreeSet::new();
    for module in modules() {
        let paper = papers().iter().find(|paper| paper.number == module.paper).expect("a known paper");
        assert!(module.name.starts_with(&format!("{}-", paper.name)), "{}", module.name);
        assert!(names.insert(module.name), "{} twice", module.name);
        assert!(!module.setup.is_empty(), "{} says nothing of its set-up", module.name);
        assert_eq!(find(module.name).map(|found| found.name), Some(module.name));
    }
}

#[test]
fn what_is_left_out_has_a_reason() {
    assert!(
        not_reproduced(Measuring::NotAsked)
            .iter()
            .all(|left| !left.what.is_empty() && !left.reason.is_empty())
    );
}
