//! A volume in a program of one's own, through its handle.

mod support;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;

use evenkeel_host::embedded::{Backend, Creation, Durability, Error, Options, Pending, Remedy, Volume};
use tempfile::TempDir;

const SIZE: u64 = 16 << 20;

fn new_volume() -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir_in(".").unwrap();
    let folder = parent.path().join("volume");
    let creation =
        Creation { log_bytes: 8 << 20, buffer_bytes: 4 << 20, sparse: true, ..Creation::new(&folder, SIZE) };
    Volume::create(creation).wait().unwrap();
    (parent, folder)
}

fn open(folder: &Path) -> Volume {
    Volume::open(folder, Options::default()).wait().unwrap()
}

/// Polls once, for nobody.
fn poll_once<T>(pending: &mut Pending<T>) -> Poll<Result<T, Error>> {
    pin!(pending).as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// The only thing that a runtime needs to do.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        thread::park();
    }
}

#[test]
fn a_handle_can_be_shared_sent_and_cloned_and_so_can_its_answers_and_errors() {
    fn is_shared<T: Send + Sync + Clone + 'static>() {}
    fn is_sent<T: Send + 'static>() {}
    is_shared::<Volume>();
    is_sent::<Pending<Vec<u8>>>();
    is_sent::<Error>();
}

#[test]
fn threads_write_beside_each_other_and_each_reads_what_it_wrote() {
    for backend in [Backend::Auto, Backend::Threads] {
        let (_parent, folder) = new_volume();
        let options = Options { backend, ..Options::default() };
        let volume = Volume::open(&folder, options).wait().unwrap();
        thread::scope(|scope| {
            for number in 0..12_u64 {
                let volume = volume.clone();
                scope.spawn(move || {
                    let start = number * (1 << 20);
                    for entry in 0..100_u64 {
                        let bytes = [(number * 20 + entry) as u8; 1024];
                        let durability =
                            if entry % 2 == 0 { Durability::Durable } else { Durability::Buffered };
                        volume.write(start + entry * 1024, bytes, durability).wait().unwrap();
                        assert_eq!(volume.read(start + entry * 1024, 1024).wait().unwrap(), bytes);
                    }
                });
            }
        });
        let status = volume.status().wait().unwrap();
        assert_eq!(status.counters.writes, 1200);
        assert!(status.counters.commits >= 1, "{status:?}");
        volume.close().wait().unwrap();
    }
}

#[test]
fn async_code_has_many_requests_under_way_before_it_awaits_the_first() {
    let (_parent, folder) = new_volume();
    block_on(async {
        let volume = Volume::open(&folder, Options::default()).await.unwrap();
        let writes: Vec<_> = (0..200_u64)
            .map(|page| volume.write(page * 4096, [page as u8; 100], Durability::Buffered))
            .collect();
        for write in writes {
            write.await.unwrap();
        }
        volume.flush(..).await.unwrap();
        volume.commit(&[(50, &b"both"[..]), (1 << 20, b"or none")]).await.unwrap();
        assert_eq!(volume.read(48, 8).await.unwrap(), b"\0\0both\0\0");
        assert_eq!(volume.read(199 * 4096, 100).await.unwrap(), [199; 100]);
        volume.write_zeroes(0..8192, Durability::Durable).await.unwrap();
        assert_eq!(volume.read(48, 8).await.unwrap(), [0; 8]);
        volume.close().await.unwrap();
    });
}

#[test]
fn what_was_closed_is_home_and_what_was_dropped_is_found_in_the_arena() {
    let (_parent, folder) = new_volume();
    let volume = open(&folder);
    volume.write(0, *b"closed", Durability::Buffered).wait().unwrap();
    volume.close().wait().unwrap();

    let volume = open(&folder);
    assert_eq!(volume.status().wait().unwrap().counters.replayed_units, 0, "nothing was left to do");
    assert_eq!(volume.read(0, 6).wait().unwrap(), b"closed");
    volume.write(0, *b"acknow", Durability::Buffered).wait().unwrap();
    drop(volume);

    let volume = open(&folder);
    assert_eq!(volume.status().wait().unwrap().counters.replayed_units, 1, "it was not made durable");
    assert_eq!(volume.read(0, 6).wait().unwrap(), b"acknow");
    volume.close().wait().unwrap();
}

#[test]
fn requests_under_way_are_carried_out_though_the_last_handle_and_their_answers_are_dropped() {
    let (_parent, folder) = new_volume();
    let volume = open(&folder);
    for page in 0..500_u64 {
        drop(volume.write(page * 4096, [7; 4096], Durability::Buffered));
    }
    let last = volume.write(500 * 4096, [8; 4096], Durability::Durable);
    drop(volume);
    last.wait().unwrap();
    let volume = open(&folder);
    for page in 0..500_u64 {
        assert_eq!(volume.read(page * 4096, 4096).wait().unwrap(), [7; 4096], "page {page}");
    }
    volume.close().wait().unwrap();
}

#[test]
fn beyond_the_bound_requests_wait_for_room_in_their_order_and_none_is_lost() {
    let (_parent, folder) = new_volume();
    let bound = 64 << 10;
    let options = Options { under_way_max_bytes: bound, ..Options::default() };
    let volume = Volume::open(&folder, options).wait().unwrap();
    // Larger than the bound alone, let through alone.
    volume.write(0, vec![1; 4 * bound], Durability::Buffered).wait().unwrap();
    let mut writes: Vec<_> = (0..256_u64)
        .map(|number| volume.write(number * 16384, vec![number as u8; 16384], Durability::Durable))
        .collect();
    // One gives up its place, whether it had room or not.
    drop(writes.remove(100));
    let (told, asked) = mpsc::channel();
    thread::scope(|scope| {
        for (number, write) in writes.into_iter().enumerate() {
            let told = told.clone();
            scope.spawn(move || {
                write.wait().unwrap();
                told.send(number).unwrap();
            });
        }
    });
    drop(told);
    assert_eq!(asked.iter().count(), 255);
    for number in (0..256_u64).filter(|&number| number != 100) {
        assert_eq!(volume.read(number * 16384, 16384).wait().unwrap(), vec![number as u8; 16384]);
    }
    volume.close().wait().unwrap();
}

#[test]
fn who_waits_for_room_when_the_volume_is_closed_is_told() {
    let (_parent, folder) = new_volume();
    let options = Options { under_way_max_bytes: 4096, ..Options::default() };
    let volume = Volume::open(&folder, options).wait().unwrap();
    let first = volume.write(0, vec![1; 1 << 20], Durability::Durable);
    let late = volume.write(4096, vec![2; 1 << 20], Durability::Durable);
    let other = volume.clone();
    volume.close().wait().unwrap();
    first.wait().unwrap();
    assert!(matches!(late.wait(), Err(Error::Stopped)));
    assert!(matches!(other.write(0, *b"x", Durability::Buffered).wait(), Err(Error::Stopped)));
    assert!(matches!(other.close().wait(), Err(Error::Stopped)));
}

#[test]
fn what_cannot_be_is_refused_and_names_why() {
    let (_parent, folder) = new_volume();
    assert!(matches!(Volume::open(folder.join("no"), Options::default()).wait(), Err(Error::NotAVolume(_))));
    let volume = open(&folder);
    assert!(matches!(Volume::open(&folder, Options::default()).wait(), Err(Error::InUse(_))));
    assert!(matches!(volume.write(SIZE, *b"x", Durability::Buffered).wait(), Err(Error::OutOfRange)));
    assert!(matches!(volume.read(0, usize::MAX).wait(), Err(Error::OutOfRange)));
    assert!(matches!(volume.read(u64::MAX, 1).wait(), Err(Error::OutOfRange)));
    assert!(matches!(volume.flush(0..=u64::MAX).wait(), Err(Error::OutOfRange)));
    #[allow(clippy::reversed_empty_ranges, reason = "somebody will")]
    let reversed = volume.write_zeroes(8192..4096, Durability::Buffered).wait();
    assert!(matches!(reversed, Err(Error::OutOfRange)));
    let too_much = vec![0; volume.commit_max_bytes() as usize + 1];
    assert!(matches!(volume.commit(&[(0, too_much)]).wait(), Err(Error::TooLarge { .. })));
    // None of it did any harm.
    volume.commit(&[(0, b"well")]).wait().unwrap();
    volume.close().wait().unwrap();
}

#[test]
fn an_error_carries_what_helps_against_it() {
    let (parent, folder) = new_volume();
    let Err(error) = Volume::open(folder.join("no"), Options::default()).wait() else {
        panic!("no volume opened")
    };
    assert_eq!(error.remedy(), Some(&Remedy::MakeVolume), "{error}");
    let other = parent.path().join("other");
    let file = parent.path().join("there");
    std::fs::write(&file, "already").unwrap();
    let request = Creation { members: vec![file.clone().into()], ..Creation::new(other, SIZE) };
    let Err(error) = Volume::create(request).wait() else { panic!("a file was overwritten") };
    assert_eq!(error.remedy(), Some(&Remedy::Destroy { place: file.display().to_string() }), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), b"already");
}

#[test]
fn a_home_that_is_cut_short_is_told_with_its_cause_and_is_not_written_to_any_more() {
    let (_parent, folder) = new_volume();
    let volume = open(&folder);
    volume.write(0, *b"before", Durability::Durable).wait().unwrap();
    volume.checkpoint().wait().unwrap();
    // The log of the last checkpoint holds what it took home: another page, not this one.
    volume.write(1 << 20, *b"another", Durability::Durable).wait().unwrap();
    volume.close().wait().unwrap();
    let volume = open(&folder);
    // Somebody cuts the home member short, though it is locked.
    let home = std::fs::File::options().write(true).open(folder.join("home")).unwrap();
    home.set_len(4096).unwrap();
    let error = match volume.read(0, 6).wait() {
        Err(Error::Device(error)) => error,
        other => panic!("it read what is not there: {other:?}"),
    };
    assert_eq!(error.errno, 5, "EIO");
    assert!(error.doing.starts_with("reading ") && error.doing.ends_with("/home"), "{error}");
    // A change elsewhere is durable in the log; but nothing goes home any more, which would hide what is gone.
    volume.write(8192, *b"elsewhere", Durability::Durable).wait().unwrap();
    let error = volume.checkpoint().wait().unwrap_err().to_string();
    assert!(error.contains("was made shorter while it was in use"), "{error}");
    assert_eq!(home.metadata().unwrap().len(), 4096, "it was not made longer again");
    assert!(volume.close().wait().is_err());
    // What is not home stays in its arena.
    let described = std::fs::read_to_string(folder.join("volume.toml")).unwrap();
    let id = described.lines().find_map(|line| line.strip_prefix("id = ")).unwrap().trim_matches('"');
    for entry in std::fs::read_dir("/dev/shm").unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&format!("evenkeel-{id}")) {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
}

#[test]
fn answers_come_though_nobody_polled_for_them() {
    let (_parent, folder) = new_volume();
    let volume = open(&folder);
    let mut write = volume.write(0, *b"late", Durability::Durable);
    let mut again = volume.read(0, 4);
    let _either = poll_once(&mut again);
    volume.flush(..).wait().unwrap();
    while poll_once(&mut write).is_pending() {
        thread::yield_now();
    }
    again.wait().unwrap();
    volume.close().wait().unwrap();
}
