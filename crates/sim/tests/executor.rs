//! Virtual time and the choice among ready tasks.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use evenkeel_engine::env::{Arena, Env};
use evenkeel_sim::arena::{ArenaBytes, SimArena};
use evenkeel_sim::cuts::{CutKind, CutPlan, Cuts};
use evenkeel_sim::executor::{Executor, Halt, SimEnv};

/// Runs eight tasks of three naps each beside the root; gives the order of their steps and the trace.
fn order_of_tasks(seed: u64) -> (Vec<u32>, u64) {
    let mut executor = Executor::new(seed);
    let env = executor.env();
    let order = Rc::new(RefCell::new(Vec::new()));
    executor
        .block_on(async {
            for number in 0..8 {
                let (task_env, order) = (env.clone(), Rc::clone(&order));
                env.spawn(async move {
                    for _ in 0..3 {
                        order.borrow_mut().push(number);
                        task_env.sleep(10).await;
                    }
                });
            }
            env.sleep(100).await;
        })
        .expect("nothing stops it");
    (order.take(), executor.trace_hash())
}

#[test]
fn one_seed_gives_one_order_and_another_seed_another() {
    assert_eq!(order_of_tasks(1), order_of_tasks(1));
    let (order, trace) = order_of_tasks(1);
    let (other_order, other_trace) = order_of_tasks(2);
    assert_eq!(order.len(), 24);
    assert_ne!(order, other_order);
    assert_ne!(trace, other_trace);
}

#[test]
fn timers_fire_in_the_order_of_their_time() {
    let mut executor = Executor::new(5);
    let env = executor.env();
    let order = Rc::new(RefCell::new(Vec::new()));
    for delay_ns in [500, 3, 70, 1_000_000_000_000, 4] {
        let (task_env, order) = (env.clone(), Rc::clone(&order));
        env.spawn(async move {
            task_env.sleep(delay_ns).await;
            assert_eq!(task_env.now_ns(), delay_ns);
            order.borrow_mut().push(delay_ns);
        });
    }
    executor.block_on(env.sleep(2_000_000_000_000)).expect("nothing stops it");
    assert_eq!(order.take(), [3, 4, 70, 500, 1_000_000_000_000]);
    assert_eq!(executor.now_ns(), 2_000_000_000_000);
    assert_eq!(executor.tasks(), 0);
}

#[test]
fn time_stands_still_while_a_task_is_ready() {
    let mut executor = Executor::new(6);
    let env = executor.env();
    executor
        .block_on(async {
            let mut nap = pin!(env.sleep(1));
            for _ in 0..100 {
                // Polled and awake at once: the nap must wait.
                let napping = poll_fn(|context| {
                    context.waker().wake_by_ref();
                    Poll::Ready(nap.as_mut().poll(context).is_pending())
                });
                assert!(napping.await);
                step_aside().await;
                assert_eq!(env.now_ns(), 0);
            }
            nap.await;
        })
        .expect("nothing stops it");
    assert_eq!(executor.now_ns(), 1);
}

#[test]
fn a_cancelled_timer_does_not_move_time() {
    let mut executor = Executor::new(7);
    let env = executor.env();
    executor
        .block_on(async {
            {
                let mut long = pin!(env.sleep(1_000_000));
                poll_fn(|context| {
                    assert!(long.as_mut().poll(context).is_pending());
                    Poll::Ready(())
                })
                .await;
            }
            env.sleep(10).await;
        })
        .expect("nothing stops it");
    let halt = executor.block_on(pending::<()>()).unwrap_err();
    assert_eq!(halt, Halt::Deadlock { at_ns: 10, tasks: 1 });
}

#[test]
fn a_deadlock_is_reported_with_time_and_tasks() {
    let mut executor = Executor::new(8);
    let env = executor.env();
    env.spawn(pending());
    env.spawn(async {});
    let halt = executor
        .block_on(async {
            env.sleep(42).await;
            pending::<()>().await;
        })
        .unwrap_err();
    assert_eq!(halt, Halt::Deadlock { at_ns: 42, tasks: 2 });
    assert!(halt.to_string().contains("2 tasks wait"), "{halt}");
}

#[test]
fn a_runaway_is_reported() {
    let mut executor = Executor::new(9);
    executor.limit_polls(1_000);
    let env = executor.env();
    let halt = executor
        .block_on::<()>(async {
            loop {
                env.sleep(1).await;
            }
        })
        .unwrap_err();
    assert!(matches!(halt, Halt::Runaway { tasks: 1, .. }), "{halt}");
}

#[test]
fn after_the_stop_nothing_is_polled() {
    let mut executor = Executor::new(10);
    let env = executor.env();
    let polls_after = Rc::new(Cell::new(0));
    for _ in 0..5 {
        let (task_env, polls_after) = (env.clone(), Rc::clone(&polls_after));
        env.spawn(async move {
            task_env.sleep(10).await;
            if task_env.is_stopped() {
                polls_after.set(polls_after.get() + 1);
            }
            task_env.stop().raise();
        });
    }
    // The root would be complete in the very poll that raises the stop: it does not count.
    let stop = executor.stop();
    let halt = executor
        .block_on(async {
            env.sleep(10).await;
            stop.raise();
        })
        .unwrap_err();
    assert_eq!(halt, Halt::Stopped { at_ns: 10 });
    assert_eq!(polls_after.get(), 0);
    assert_eq!(executor.block_on(async { 1 }), Err(Halt::Stopped { at_ns: 10 }));
}

/// Does in its `Drop` what a destructor may do.
struct LastWords {
    env: SimEnv,
    arena: Rc<SimArena>,
    waker: Rc<RefCell<Option<Waker>>>,
    dropped: Rc<Cell<u32>>,
}

impl Drop for LastWords {
    fn drop(&mut self) {
        self.dropped.set(self.dropped.get() + 1);
        let held = Rc::clone(&self.dropped);
        self.env.spawn(async move { panic!("no task runs after {} ends", held.get()) });
        self.arena.store(0, &[1; 8]);
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }
}

#[test]
fn dropping_the_executor_drops_all_tasks_and_their_last_words_have_no_effect() {
    let bytes = ArenaBytes::new(64);
    let mut executor = Executor::new(11);
    let env = executor.env();
    let cuts = Cuts::none(executor.stop());
    let arena = Rc::new(SimArena::open(bytes.clone(), env.clone(), cuts, 0));
    let waker = Rc::new(RefCell::new(None));
    let dropped = Rc::new(Cell::new(0));
    for _ in 0..3 {
        let words = LastWords {
            env: env.clone(),
            arena: Rc::clone(&arena),
            waker: Rc::clone(&waker),
            dropped: Rc::clone(&dropped),
        };
        env.spawn(async move {
            poll_fn(|context| {
                *words.waker.borrow_mut() = Some(context.waker().clone());
                Poll::<()>::Pending
            })
            .await;
        });
    }
    executor.block_on(env.sleep(1)).expect("nothing stops it");
    assert_eq!(dropped.get(), 0);
    drop(executor);
    assert_eq!(dropped.get(), 3);
    assert_eq!(Rc::strong_count(&dropped), 1, "what the last words spawned is dropped too");
    assert!(bytes.to_vec().iter().all(|&byte| byte == 0));
    waker.take().expect("a task left it").wake();
    drop(env.sleep(5));
}

/// Lets other ready tasks go first, without time passing.
async fn step_aside() {
    let mut aside = false;
    poll_fn(|context| {
        if std::mem::replace(&mut aside, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn a_wake_of_an_ended_task_does_not_reach_the_next_one_in_its_slot() {
    for seed in 0..50 {
        let mut executor = Executor::new(seed);
        let env = executor.env();
        let polls = Rc::new(Cell::new(0));
        executor
            .block_on(async {
                let left = Rc::new(RefCell::new(None));
                let leave = Rc::clone(&left);
                env.spawn(poll_fn(move |context| {
                    context.waker().wake_by_ref();
                    *leave.borrow_mut() = Some(context.waker().clone());
                    Poll::Ready(())
                }));
                while left.borrow().is_none() {
                    step_aside().await;
                }
                let polls = Rc::clone(&polls);
                env.spawn(poll_fn(move |_| {
                    polls.set(polls.get() + 1);
                    Poll::<()>::Pending
                }));
                left.take().expect("the first task left it").wake();
                env.sleep(1).await;
            })
            .expect("nothing stops it");
        assert_eq!(polls.get(), 1, "seed {seed}");
    }
}

#[test]
fn a_kill_at_a_store_leaves_a_prefix_of_words_and_nothing_after_it() {
    let mut lengths = [0; 5];
    for seed in 0..200 {
        let bytes = ArenaBytes::new(64);
        let mut executor = Executor::new(seed);
        let env = executor.env();
        let cuts = Cuts::new(CutPlan { at_event: Some(1), kind: CutKind::Kill }, executor.stop());
        let arena = SimArena::open(bytes.clone(), env, cuts.clone(), seed);
        let halt = executor.block_on(async {
            arena.store(0, &[1; 8]);
            arena.store(8, &[2; 37]);
            arena.store(48, &[3; 8]);
        });
        assert_eq!(halt, Err(Halt::Stopped { at_ns: 0 }));
        assert_eq!(cuts.events_so_far(), 1);
        let held = bytes.to_vec();
        let arrived = held[8..].iter().take_while(|&&byte| byte == 2).count();
        assert_eq!(arrived % 8, 0);
        assert_eq!(held[..8], [1; 8]);
        assert!(held[8 + arrived..].iter().all(|&byte| byte == 0), "{held:?}");
        lengths[arrived / 8] += 1;
        bytes.clear();
        assert_eq!(bytes.to_vec(), [0; 64]);
    }
    assert!(lengths.iter().all(|&times| times > 0), "{lengths:?}");
}

#[test]
fn a_power_cut_at_a_store_leaves_what_was_before_it() {
    let bytes = ArenaBytes::new(16);
    let mut executor = Executor::new(1);
    let cuts = Cuts::new(CutPlan { at_event: Some(1), kind: CutKind::PowerCut }, executor.stop());
    let arena = SimArena::open(bytes.clone(), executor.env(), cuts, 1);
    let halt = executor.block_on(async {
        arena.store(0, &[1; 8]);
        arena.store(8, &[2; 8]);
    });
    assert!(halt.is_err());
    let mut loaded = [0; 16];
    arena.load(0, &mut loaded);
    assert_eq!(loaded, [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn many_polls_are_cheap() {
    // Says nothing by itself; run with --release under a profiler, or in a loop.
    let mut executor = Executor::new(13);
    let env = executor.env();
    for _ in 0..50 {
        let task_env = env.clone();
        env.spawn(async move {
            for _ in 0..100 {
                let nap_ns = task_env.random() % 1_000;
                task_env.sleep(nap_ns).await;
            }
        });
    }
    executor.block_on(env.sleep(1_000_000)).expect("nothing stops it");
    assert_eq!(executor.polls(), 50 * 101 + 2);
}
