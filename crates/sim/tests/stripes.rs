//! Stories of volumes on a ring with stripes.

mod machine;

use evenkeel_engine::device::Durability;
use evenkeel_engine::ring::{MemberState, Policy};

use evenkeel_sim::seeds::{draw_striped, run};

use machine::mirror::{Plan, filled, noise, whole};

/// K, M, and who is lost.
const LOSSES: [(usize, usize, &[usize]); 7] = [
    (2, 1, &[]),
    (2, 1, &[0]),
    (2, 1, &[1]),
    (2, 1, &[2]),
    (4, 2, &[0, 1]),
    (4, 2, &[2, 5]),
    (3, 2, &[1, 3]),
];

#[test]
fn what_is_closed_is_there_without_as_many_members_as_there_are_parity_shards() {
    for policy in [Policy::Auto, Policy::Turns, Policy::Mixed] {
        for (data, parity, lost) in LOSSES {
            let mut plan = Plan::striped(data, parity, 2);
            plan.ring.policy = policy;
            let (mut machine, bytes) = filled(plan, 7);
            machine.members_gone = lost.to_vec();
            assert!(machine.contents() == bytes, "{data}+{parity} without {lost:?}, {policy:?}");
        }
    }
}

#[test]
fn a_durable_write_survives_a_cut_with_the_loss_of_members_and_a_log_device() {
    for (data, parity, lost) in LOSSES {
        for lost_log in 0..2 {
            let (mut machine, mut bytes) = filled(Plan::striped(data, parity, 2), 11);
            let part = noise(1, 5000);
            machine.run_whole(async |run| {
                let (volume, ..) = run.open().await.unwrap();
                volume.write(3000, &part, Durability::Durable).await.unwrap();
            });
            machine.power_cut();
            bytes[3000..8000].copy_from_slice(&part);
            (machine.members_gone, machine.logs_gone) = (lost.to_vec(), vec![lost_log]);
            assert!(machine.contents() == bytes, "{data}+{parity} without {lost:?} and log {lost_log}");
        }
    }
}

#[test]
fn members_that_were_away_are_rebuilt_and_then_others_may_be_lost() {
    for (data, parity, lost) in LOSSES {
        let (mut machine, mut bytes) = filled(Plan::striped(data, parity, 1), 13);
        machine.members_gone = lost.to_vec();
        let part = noise(2, 90_000);
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            volume.write(1000, &part, Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap();
        });
        machine.power_cut();
        bytes[1000..91_000].copy_from_slice(&part);
        for first in 0..data + parity {
            // Those that were away before are taken back first.
            machine.members_gone = vec![];
            machine.run_whole(async |run| {
                let (_volume, ring, _) = run.open().await.unwrap();
                whole(&ring, &run.env).await;
                assert!(ring.members().iter().all(|member| member.state == MemberState::InSync));
            });
            machine.power_cut();
            machine.members_gone = (first..first + parity).map(|place| place % (data + parity)).collect();
            assert!(
                machine.contents() == bytes,
                "{data}+{parity}, {lost:?} rebuilt, without {first} and more"
            );
        }
    }
}

/// `FIRST=N SEEDS=N` choose the seeds, `STORY=1 K=2 M=1` tells the story of the first.
#[test]
#[allow(clippy::print_stdout, reason = "the story of a seed is for whoever asks for it")]
fn within_the_redundancy_nothing_is_lost() {
    let number = |name, or| std::env::var(name).map_or(or, |value: String| value.parse().unwrap());
    let (first, seeds) = (number("FIRST", 0u64), number("SEEDS", 300u64));
    let told = (number("K", 4) as usize, number("M", 2) as usize);
    let shapes = if std::env::var("STORY").is_ok() { vec![told] } else { vec![(2, 1), (4, 2)] };
    let mut broken = Vec::new();
    for seed in first..first + seeds {
        for &shape in &shapes {
            let ended = std::panic::catch_unwind(|| run(draw_striped(seed, 2, shape)));
            match ended {
                Ok(Ok(_)) => {}
                Ok(Err(violation)) => broken.push(format!("{seed} {shape:?}: {violation:?}")),
                Err(_) => broken.push(format!("{seed} {shape:?}: panic")),
            }
        }
    }
    if std::env::var("STORY").is_ok() {
        let (story, _) = evenkeel_sim::seeds::tell(draw_striped(first, 2, told));
        story.iter().for_each(|line| println!("{line}"));
    }
    assert!(broken.is_empty(), "{} broken: {}", broken.len(), broken[..broken.len().min(30)].join("\n"));
}
