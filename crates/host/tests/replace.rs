//! Replacing members of a mirror that is open.

mod support;

use std::cell::RefCell;

use evenkeel_engine::join;
use evenkeel_engine::options::OpenOptions;
use evenkeel_host::volume::OpenVolume;
use evenkeel_host::volume::create::{Request, create};
use evenkeel_host::volume::description::LayoutKind;
use evenkeel_host::volume::member::Place;
use evenkeel_host::volume::replace::Wish;
use support::loops;

#[test]
fn of_two_that_replace_one_member_at_once_one_does_and_the_other_is_told() {
    for event_loop in loops() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let (disk, env) = (folder.path().join("disk"), event_loop.handle());
        event_loop.block_on(async {
            let request = Request {
                layout: LayoutKind::Mirror,
                log_bytes: 16 << 20,
                buffer_bytes: 1 << 20,
                sparse: true,
                ..Request::new(&disk, 16 << 20)
            };
            create(&env, &request, |_, _, _| ()).await.unwrap();
            let open = OpenVolume::open(&env, &disk, OpenOptions::default()).await.unwrap();
            let (old, description) = (Place::from("member-0"), open.description());
            let mut all = Vec::new();
            for name in ["one", "two"] {
                let new = Place::from(folder.path().join(name));
                let wish = Wish {
                    old: old.clone(),
                    new,
                    destroy: Vec::new(),
                    sparse: true,
                    atomic_sectors: None,
                    unfenced: false,
                };
                let mut prepared = wish.prepare(&env, &disk, &description).await.unwrap().unwrap();
                open.replacer().unwrap().consider(&prepared.question()).await.unwrap();
                let replacement = prepared.make(&env, |_, _| ()).await.unwrap();
                prepared.keep();
                all.push(replacement);
            }
            let (replacer, ends) = (open.replacer().unwrap(), RefCell::new(Vec::new()));
            join::all(all.iter().map(async |replacement| {
                let end = replacer.replace(replacement).await;
                ends.borrow_mut().push((replacement.new.clone(), end));
            }))
            .await;
            let (done, told): (Vec<_>, Vec<_>) =
                ends.into_inner().into_iter().partition(|(_, end)| end.is_ok());
            let [(winner, _)] = &done[..] else { panic!("not one: {done:?}, {told:?}") };
            let [(_, Err(why))] = &told[..] else { panic!("not one: {done:?}, {told:?}") };
            assert!(why.to_string().contains("member-0 was replaced meanwhile"), "{why}");
            assert_eq!(open.description().members[0], *winner);
            assert_eq!(open.mirror().unwrap().members()[0].place, winner.place);
            open.close().await.unwrap();
        });
    }
}
