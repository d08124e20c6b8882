//! How long members of a ring rest behind their turns, on a server that is busy with something else now and then.

mod ring_machine;

use evenkeel_engine::device::{Device, DeviceState, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::DeviceError;
use evenkeel_engine::ring::{Ring, RingOptions, WindowOptions};
use evenkeel_sim::drive::SimDrive;
use evenkeel_sim::executor::SimEnv;

use ring_machine::{Machine, PAGE, Plan};

const MS: u64 = 1_000_000;

/// A loop that does something else for the first three of each ten milliseconds: whoever is woken then is told later.
#[derive(Clone)]
struct Busy(SimEnv);

impl Busy {
    async fn told(&self) {
        self.0.sleep((3 * MS).saturating_sub(self.0.now_ns() % (10 * MS))).await;
    }
}

impl Env for Busy {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    async fn sleep(&self, duration_ns: u64) {
        self.0.sleep(duration_ns).await;
        self.told().await;
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.spawn(task);
    }

    fn random(&self) -> u64 {
        self.0.random()
    }
}

/// A drive whose answers such a loop takes.
struct Answers(SimDrive, Busy);

impl Device for Answers {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let read = self.0.read(offset, into).await;
        self.1.told().await;
        read
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        self.0.write(offset, bytes, durability).await
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        self.0.flush(scope).await
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        self.0.discard(extent).await
    }
}

#[test]
fn a_member_does_not_rest_longer_because_the_server_is_busy() {
    Machine::new(Plan::mirror(2, 1), 3).live_whole(async |life| {
        let env = Busy(life.env.clone());
        let members = life.members.iter().map(|drive| Some(Answers(drive.clone(), env.clone()))).collect();
        let options = RingOptions {
            rest_ns: 200 * MS,
            rest_max_ns: 5000 * MS,
            window: WindowOptions { fixed: Some(1), ..WindowOptions::default() },
            ..RingOptions::default()
        };
        let ring = Ring::new(env.clone(), members, options).unwrap();
        ring.format(1).await.unwrap();
        ring.resume(1, ring.state().unwrap_or(DeviceState::default()), 1).await.unwrap();
        let began_ns = env.now_ns();
        for round in 0..10 {
            ring.write(round * PAGE, &[1; 4096], Durability::Buffered).await.unwrap();
            ring.flush(FlushScope::Whole).await.unwrap();
        }
        let took_ns = env.now_ns() - began_ns;
        assert!(took_ns > 2 * 9 * 200 * MS, "both rest behind each of their turns: {took_ns} ns");
        assert!(took_ns < 2 * 10 * 300 * MS, "{took_ns} ns for ten rounds");
    });
}
