//! What the event loop promises, told for both ways of asking the kernel.

mod support;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;

use evenkeel_engine::env::Env;
use evenkeel_host::aligned::AlignedBuffer;
use evenkeel_host::event_loop::{Backend, EventLoop, Gone, PollFlags, Sync, race};
use support::{begin_and_drop, loops, turn};

#[test]
fn timers_fire_in_their_order_and_not_before_their_time() {
    for event_loop in loops() {
        let env = event_loop.handle();
        let order = Rc::new(RefCell::new(Vec::new()));
        for ms in [30, 10, 20, 10, 0] {
            let (env, order) = (env.clone(), Rc::clone(&order));
            env.clone().spawn(async move {
                let before_ns = env.now_ns();
                env.sleep(ms * 1_000_000).await;
                assert!(env.now_ns() >= before_ns + ms * 1_000_000);
                order.borrow_mut().push(ms);
            });
        }
        event_loop.block_on(async {
            // Given up before it fires: it wakes nobody.
            begin_and_drop(env.sleep(1_000_000)).await;
            env.sleep(60_000_000).await;
        });
        assert_eq!(*order.borrow(), [0, 10, 10, 20, 30]);
        assert_eq!(event_loop.tasks(), 0);
    }
}

#[test]
fn ten_thousand_tasks_take_turns() {
    for event_loop in loops() {
        let env = event_loop.handle();
        let sum = Rc::new(Cell::new(0_u64));
        for number in 0..10_000 {
            let sum = Rc::clone(&sum);
            env.spawn(async move {
                for _ in 0..5 {
                    turn().await;
                }
                sum.set(sum.get() + number);
            });
        }
        assert_eq!(event_loop.tasks(), 10_000);
        event_loop.block_on(async {
            while sum.get() < 49_995_000 {
                env.sleep(0).await;
            }
        });
        assert_eq!(event_loop.tasks(), 0);
    }
}

#[test]
fn tasks_that_never_rest_do_not_starve_io_and_timers() {
    for event_loop in loops() {
        let env = event_loop.handle();
        env.spawn(async {
            loop {
                turn().await;
            }
        });
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let theirs = Rc::new(OwnedFd::from(theirs));
        event_loop.block_on(async {
            env.sleep(1_000_000).await;
            let receiving = env.clone();
            let other = Rc::clone(&theirs);
            ours.write_all(b"x").unwrap();
            let (count, bytes) = receiving.receive(&other, vec![0; 8], 0..8).await;
            assert_eq!((count.unwrap(), bytes[0]), (1, b'x'));
        });
    }
}

/// A checkpoint has thousands of tasks, and a client's request is a few steps.
#[test]
fn a_task_waits_for_one_of_the_background_a_step() {
    for event_loop in loops() {
        let env = event_loop.handle();
        event_loop.block_on(async {
            let background_polls = Rc::new(Cell::new(0));
            for _ in 0..1000 {
                let background_polls = Rc::clone(&background_polls);
                env.spawn_background(async move {
                    background_polls.set(background_polls.get() + 1);
                    turn().await;
                    background_polls.set(background_polls.get() + 1);
                });
            }
            for step in 1..=50 {
                turn().await;
                assert_eq!(background_polls.get(), step, "one at a time, and no less");
            }
            while background_polls.get() < 2000 {
                turn().await;
            }
        });
    }
}

#[test]
fn other_threads_put_work_on_the_loop_and_wake_it() {
    for event_loop in loops() {
        let remote = event_loop.handle().remote();
        let threads: Vec<_> = (0..4_u64)
            .map(|thread| {
                let remote = remote.clone();
                thread::spawn(move || {
                    let answers = (0..50).map(|number| {
                        let question = thread * 100 + number;
                        remote
                            .wait_for(move |env| async move {
                                // Not `Send`, and need not be.
                                let local = Rc::new(question);
                                env.sleep(1000).await;
                                *local * 2
                            })
                            .unwrap()
                    });
                    answers.sum::<u64>()
                })
            })
            .collect();
        let sums = event_loop.block_on(async {
            let env = event_loop.handle();
            env.blocking(|| threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()).await
        });
        let expected: u64 =
            (0..4).flat_map(|thread| (0..50).map(move |number| (thread * 100 + number) * 2)).sum();
        assert_eq!(sums.unwrap(), expected);
        drop(event_loop);
        assert_eq!(remote.post(|_| ()), Err(Gone));
    }
}

#[test]
fn a_waker_that_wandered_to_another_thread_still_wakes() {
    for event_loop in loops() {
        let (give, take) = mpsc::channel::<std::task::Waker>();
        let waking = thread::spawn(move || take.into_iter().for_each(std::task::Waker::wake));
        event_loop.block_on(async {
            for _ in 0..1000 {
                let mut given = false;
                poll_fn(|context| {
                    if given {
                        return Poll::Ready(());
                    }
                    given = true;
                    give.send(context.waker().clone()).unwrap();
                    Poll::Pending
                })
                .await;
            }
        });
        drop(give);
        waking.join().unwrap();
    }
}

#[test]
fn a_write_whose_future_is_dropped_still_writes_its_own_bytes() {
    for event_loop in loops() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("file");
        let env = event_loop.handle();
        event_loop.block_on(async {
            let file = Rc::new(OwnedFd::from(File::create(&path).unwrap()));
            for place in 0..64_u64 {
                let mut buffer = AlignedBuffer::zeroed(4096);
                buffer.fill(place as u8 + 1);
                begin_and_drop(env.write_at(&file, buffer, 0..4096, place * 4096, Sync::No)).await;
                // The allocator would hand the same memory out again, were it free.
                let mut again = AlignedBuffer::zeroed(4096);
                again.fill(0xee);
            }
            // Its last handle; another file may take the number while the writes are under way.
            drop(file);
            let other = Rc::new(OwnedFd::from(File::create(folder.path().join("other")).unwrap()));
            env.fdatasync(&other).await.unwrap();
        });
        drop(event_loop);
        let found = std::fs::read(&path).unwrap();
        for (place, bytes) in found.chunks(4096).enumerate() {
            assert!(bytes.iter().all(|&byte| byte == place as u8 + 1), "place {place}");
        }
        assert_eq!(found.len(), 64 * 4096);
        assert_eq!(std::fs::metadata(folder.path().join("other")).unwrap().len(), 0);
    }
}

#[test]
fn a_receive_that_is_given_up_leaves_what_comes_later_to_the_next() {
    for event_loop in loops() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let theirs = Rc::new(OwnedFd::from(theirs));
        let env = event_loop.handle();
        event_loop.block_on(async {
            begin_and_drop(env.receive(&theirs, vec![0; 16], 0..16)).await;
            env.sleep(5_000_000).await;
            ours.write_all(b"hello").unwrap();
            let (count, bytes) = env.receive(&theirs, vec![b'-'; 16], 4..16).await;
            assert_eq!(count.unwrap(), 5);
            assert_eq!(&bytes[..9], b"----hello");
            let (sent, _) = env.send(&theirs, b"back".to_vec(), 0..4).await;
            assert_eq!(sent.unwrap(), 4);
            let mut back = [0; 4];
            ours.read_exact(&mut back).unwrap();
            assert_eq!(&back, b"back");
        });
    }
}

#[test]
fn the_last_bytes_of_a_peer_that_leaves_arrive_and_so_does_its_end() {
    for event_loop in loops() {
        for leaves_before in [true, false] {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            let theirs = Rc::new(OwnedFd::from(theirs));
            let env = event_loop.handle();
            event_loop.block_on(async {
                ours.write_all(b"hello").unwrap();
                let mut ours = Some(ours).filter(|_| !leaves_before);
                env.sleep(1_000_000).await;
                let (count, _) = env.receive(&theirs, vec![0; 16], 0..16).await;
                assert_eq!(count.unwrap(), 5);
                drop(ours.take());
                let (count, _) = env.receive(&theirs, vec![0; 16], 0..16).await;
                assert_eq!(count.unwrap(), 0);
            });
        }
    }
}

#[test]
fn a_send_that_finds_no_room_goes_on_when_the_peer_reads() {
    for event_loop in loops() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let theirs = Rc::new(OwnedFd::from(theirs));
        let env = event_loop.handle();
        const BYTES: usize = 8 << 20;
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            ours.read_to_end(&mut all).unwrap();
            all
        });
        event_loop.block_on(async {
            let mut bytes: Vec<u8> = (0..BYTES).map(|at| (at / 4096) as u8).collect();
            let mut sent = 0;
            while sent < BYTES {
                let (count, back) = env.send(&theirs, bytes, sent..BYTES).await;
                (sent, bytes) = (sent + count.unwrap(), back);
            }
        });
        drop(theirs);
        let all = reader.join().unwrap();
        assert!(all.len() == BYTES && (0..BYTES).all(|at| all[at] == (at / 4096) as u8));
    }
}

#[test]
fn dropping_the_loop_with_operations_under_way_ends() {
    for event_loop in loops() {
        let (_ours, theirs) = UnixStream::pair().unwrap();
        let theirs = Rc::new(OwnedFd::from(theirs));
        let env = event_loop.handle();
        for _ in 0..10 {
            let (env, theirs) = (env.clone(), Rc::clone(&theirs));
            env.clone().spawn(async move {
                let _never = env.receive(&theirs, vec![0; 16], 0..16).await;
                unreachable!("nothing is ever sent");
            });
        }
        event_loop.block_on(env.sleep(1_000_000));
        assert_eq!(event_loop.tasks(), 10);
        drop(event_loop);
        assert_eq!(Rc::strong_count(&theirs), 1, "the loop gave everything back");
        // A loop that is gone refuses, and does not hang.
        let late = EventLoop::new(Backend::Threads).unwrap();
        let (refused, buffer) = late.block_on(env.receive(&theirs, vec![7; 2], 0..2));
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(125), "ECANCELED");
        assert_eq!(buffer, [7, 7]);
    }
}

#[test]
fn a_loop_that_is_dropped_waits_for_what_its_threads_still_do() {
    for event_loop in loops() {
        let env = event_loop.handle();
        let file = Rc::new(OwnedFd::from(tempfile::tempfile_in(".").unwrap()));
        event_loop.block_on(async {
            // Each takes a disk's time to become durable: they end long after the loop was closed.
            for number in 0..20 {
                let write = env.write_at(&file, vec![7; 1 << 20], 0..1 << 20, number << 20, Sync::Linked);
                begin_and_drop(write).await;
            }
        });
        drop(event_loop);
        assert_eq!(Rc::strong_count(&file), 1, "no operation has it any more");
    }
}

#[test]
fn more_operations_than_the_queues_hold_all_complete() {
    for event_loop in loops() {
        let env = event_loop.handle();
        let left = Rc::new(Cell::new(6000));
        let file = Rc::new(OwnedFd::from(tempfile::tempfile_in(".").unwrap()));
        for number in 0..6000_u64 {
            let (env, left, file) = (env.clone(), Rc::clone(&left), Rc::clone(&file));
            env.clone().spawn(async move {
                let (written, _) =
                    env.write_at(&file, number.to_le_bytes().to_vec(), 0..8, number * 8, Sync::No).await;
                assert_eq!(written.unwrap(), 8);
                left.set(left.get() - 1);
            });
        }
        event_loop.block_on(async {
            while left.get() > 0 {
                env.sleep(1_000_000).await;
            }
            let (read, bytes) = env.read_at(&file, vec![0; 8], 0..8, 5999 * 8).await;
            assert_eq!((read.unwrap(), bytes), (8, 5999_u64.to_le_bytes().to_vec()));
        });
    }
}

#[test]
fn signals_arrive_as_events() {
    for event_loop in loops() {
        let env = event_loop.handle();
        let (user1, user2) = (10, 12);
        event_loop.block_on(async {
            let signals = env.signals(&[user1, user2]).unwrap();
            for signal in [user2, user1] {
                let raised = rustix::process::Signal::from_named_raw(signal).unwrap();
                rustix::process::kill_process(rustix::process::getpid(), raised).unwrap();
                assert_eq!(signals.next().await.unwrap(), signal);
            }
            let quiet = race(async { signals.next().await.ok() }, async {
                env.sleep(5_000_000).await;
                None
            });
            assert_eq!(quiet.await, None);
        });
    }
}

#[test]
fn a_descriptor_can_be_waited_for_and_random_numbers_differ() {
    for event_loop in loops() {
        let env = event_loop.handle();
        event_loop.block_on(async {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            let theirs = Rc::new(OwnedFd::from(theirs));
            assert_eq!(env.poll(&theirs, PollFlags::OUT).await.unwrap(), PollFlags::OUT);
            ours.write_all(b"x").unwrap();
            assert_eq!(env.poll(&theirs, PollFlags::IN).await.unwrap(), PollFlags::IN);
            let mut numbers: Vec<_> = (0..200).map(|_| env.random()).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), 200);
        });
    }
}

/// Forbids io_uring to this thread, as containers do to all of theirs.
#[allow(unsafe_code)]
fn forbid_io_uring(errno: i32) {
    let statement = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        // The number of the call; if it is io_uring_setup's, the errno; else go on.
        statement((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0, 0, 0),
        statement(
            (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            0,
            1,
            libc::SYS_io_uring_setup as u32,
        ),
        statement(libc::BPF_RET as u16, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        statement(libc::BPF_RET as u16, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: both calls take plain numbers and a valid program, and change only this thread.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

#[test]
fn where_io_uring_is_forbidden_threads_do_the_work() {
    for errno in [libc::EPERM, libc::ENOSYS, libc::EACCES] {
        let forbidden = move || {
            forbid_io_uring(errno);
            let error = EventLoop::new(Backend::Uring).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(errno));
            let event_loop = EventLoop::new(Backend::Auto).unwrap();
            assert_eq!(event_loop.handle().backend(), Backend::Threads);
            event_loop.block_on(event_loop.handle().sleep(1000));
        };
        thread::spawn(forbidden).join().unwrap();
    }
}
