//! What a program that embeds the library reads: no commands or flags of the `evenkeel` program, which it does not have.

use std::fs;
use std::path::Path;

use evenkeel_host::remedy::{Remedy, Setting};
use evenkeel_host::volume::create::Request;
use evenkeel_host::volume::description::LayoutKind;
use evenkeel_host::volume::{LockedVolume, VolumeError};

/// A volume that could be made in `folder`.
fn request(folder: &Path) -> Request {
    Request {
        log_bytes: 16 << 20,
        buffer_bytes: 1 << 20,
        sparse: true,
        ..Request::new(folder.join("disk"), 16 << 20)
    }
}

/// The words of an error, which name nothing that only one program has; and what helps.
fn told(error: &VolumeError) -> (String, Option<Remedy>) {
    let words = error.to_string();
    assert!(!words.contains("--") && !words.contains("evenkeel "), "{words}");
    (words, error.remedy())
}

#[test]
fn a_volume_that_cannot_be_made_is_refused_without_flags_and_what_helps_is_data() {
    let folder = tempfile::tempdir().unwrap();
    let good = || request(folder.path());
    good().plan().expect("nothing is wrong with it");
    let refusal = |request: Request| told(&request.plan().expect_err("it is refused"));

    for (setting, request) in [
        (Setting::Size, Request { size_bytes: 1, ..good() }),
        (Setting::AtomicMax, Request { atomic_max_bytes: 1, ..good() }),
        (Setting::AtomicMax, Request { atomic_max_bytes: 1 << 40, ..good() }),
        (Setting::LogSize, Request { log_bytes: 4096, ..good() }),
        (Setting::Buffer, Request { buffer_bytes: 1, ..good() }),
        (Setting::Buffer, Request { buffer_bytes: 1 << 60, ..good() }),
    ] {
        let error = request.plan().expect_err("it is refused");
        assert!(matches!(error, VolumeError::Setting { setting: found, .. } if found == setting), "{error}");
        told(&error);
    }

    let (_, remedy) = refusal(Request { size_bytes: 1 << 62, ..good() });
    assert_eq!(remedy, Some(Remedy::ChooseSmaller(Setting::Size)));

    let precious = folder.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    let place = || precious.clone().into();
    let (words, remedy) = refusal(Request { members: vec![place()], ..good() });
    assert!(words.contains("precious"), "{words}");
    assert!(matches!(remedy, Some(Remedy::Destroy { place }) if place.contains("precious")));

    let other = || folder.path().join("other").into();
    for request in [
        Request { members: vec![place(), other()], ..good() },
        Request { members: vec![place()], logs: vec![place()], ..good() },
        Request { log_on_members: true, ..good() },
        Request { layout: LayoutKind::Mirror, members: vec![other()], ..good() },
        Request { layout: LayoutKind::Mirror, log_on_members: true, logs: vec![other()], ..good() },
        Request { layout: LayoutKind::Mirror, members: (0..99).map(|_| other()).collect(), ..good() },
    ] {
        refusal(request);
    }
}

#[test]
fn that_there_is_no_volume_is_said_without_a_command_to_make_one() {
    let folder = tempfile::tempdir().unwrap();
    let error = LockedVolume::lock(folder.path()).expect_err("there is none");
    assert_eq!(told(&error).1, Some(Remedy::MakeVolume));
    let explained = error.explained(|_| Some("make one".to_owned()));
    assert_eq!(explained, format!("{error}; make one"));
    assert_eq!(error.explained(|_| None), error.to_string());
}
