//! A device that is no volume over NBD: a drive, and a layer over a volume.

use std::rc::Rc;

use evenkeel_engine::device::{Device, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::DeviceError;
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::volume::{Volume, create};
use evenkeel_host::front::nbd::export::DeviceExport;
use evenkeel_host::front::nbd::fuzzing::{MemoryStream, pair};
use evenkeel_host::front::nbd::limits::Limits;
use evenkeel_host::front::nbd::server::Server;
use evenkeel_host::nbd::client::{Client, ClientError, ConnectOptions};
use evenkeel_sim::arena::{ArenaBytes, SimArena};
use evenkeel_sim::cuts::{CutKind, CutPlan, Cuts};
use evenkeel_sim::drive::{DriveOptions, SimDrive};
use evenkeel_sim::executor::{Executor, SimEnv};
use evenkeel_sim::image::{Image, SharedImage};
use evenkeel_sim::random::Random;

const SIZE: u64 = 16 << 20;
const SECTOR: u64 = 512;

/// A layer that fails all writes beyond the first half of what it lies on.
struct HalfWritable<D>(D);

impl<D: Device> HalfWritable<D> {
    fn check(&self, end: u64) -> Result<(), DeviceError> {
        match end <= self.0.geometry().size_bytes / 2 {
            true => Ok(()),
            false => Err(DeviceError { doing: "write the upper half", errno: 5 }),
        }
    }
}

impl<D: Device> Device for HalfWritable<D> {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read(offset, into).await
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        self.check(offset + bytes.len() as u64)?;
        self.0.write(offset, bytes, durability).await
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        self.0.flush(scope).await
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        self.check(extent.end())?;
        self.0.discard(extent).await
    }
}

/// A client of `device`, which is served as it is.
async fn client_of<D: Device>(env: &SimEnv, device: D) -> Client<MemoryStream> {
    let server = Server::new(env.clone(), DeviceExport::new(Rc::new(device), ""), Limits::default(), None);
    let (near, far) = pair(1 << 20, Some(7));
    env.spawn(async move { drop(server.serve(far, "a client").await) });
    Client::connect(env, near, &ConnectOptions::default()).await.expect("it connects")
}

fn image() -> SharedImage {
    Image::shared(Geometry { size_bytes: SIZE, sector_bytes: SECTOR as u32, atomic_sectors: true })
}

/// Runs `scenario` with a drive over `image`, whose power is cut behind it.
fn with_drive<F: Future<Output = ()>>(
    image: &SharedImage,
    seed: u64,
    scenario: impl FnOnce(SimEnv, SimDrive) -> F,
) {
    let mut executor = Executor::new(seed);
    executor.limit_polls(10_000_000);
    let env = executor.env();
    let cuts = Cuts::new(CutPlan { at_event: None, kind: CutKind::PowerCut }, executor.stop());
    let options = DriveOptions { seed, ..DriveOptions::default() };
    let drive = SimDrive::open(image.clone(), env.clone(), cuts, options);
    executor.block_on(scenario(env, drive)).expect("the scenario ends");
    image.borrow_mut().power_cut(&mut Random::new(seed));
}

#[test]
fn a_drive_is_served_in_its_sectors_and_keeps_what_was_flushed_over_a_power_cut() {
    for seed in 0..20 {
        let image = image();
        with_drive(&image, seed, async |env, drive| {
            let client = client_of(&env, drive).await;
            let negotiated = client.negotiated();
            assert_eq!(negotiated.size_bytes, SIZE);
            assert_eq!(u64::from(negotiated.block_sizes.minimum_bytes), SECTOR);
            client.write(SECTOR, &[1; 512], Durability::Durable).await.expect("it writes");
            client.write(1 << 20, &[2; 8192], Durability::Buffered).await.expect("it writes");
            client.flush(FlushScope::Ranges(&[Extent::new(1 << 20, 8192)])).await.expect("it flushes");
            client.write(2 << 20, &[3; 8192], Durability::Durable).await.expect("it writes");
            let zeroed = Extent::new((2 << 20) + 4096, 4096);
            client.write_zeroes(zeroed, Durability::Durable, true).await.expect("it zeroes");
            client.trim(Extent::new(3 << 20, 8192), Durability::Durable).await.expect("it trims");
            let odd = client.write(1, b"x", Durability::Durable).await;
            assert!(matches!(odd, Err(ClientError::Server { errno: 22, .. })), "no whole sector: {odd:?}");
            let found = client.allocation(Extent::new(0, 1 << 20)).await.expect("it tells");
            assert_eq!(found, [(1 << 20, true)], "a drive does not know what it holds");
        });
        with_drive(&image, seed + 1, async |env, drive| {
            let client = client_of(&env, drive).await;
            let mut found = vec![9; 8192];
            client.read(SECTOR, &mut found[..512]).await.expect("it reads");
            assert!(found[..512].iter().all(|&byte| byte == 1));
            client.read(1 << 20, &mut found).await.expect("it reads");
            assert!(found.iter().all(|&byte| byte == 2));
            client.read(2 << 20, &mut found).await.expect("it reads");
            assert!(found[..4096].iter().all(|&byte| byte == 3));
            assert!(found[4096..].iter().all(|&byte| byte == 0));
        });
    }
}

#[test]
fn a_layer_over_an_open_volume_is_served_with_what_the_layer_does() {
    with_drive(&image(), 3, async |env, drive| {
        let drive = Rc::new(drive);
        let options = CreateOptions { size_bytes: 4 << 20, log_bytes: 2 << 20, atomic_max_bytes: 16 << 10 };
        create(&*drive, &*drive, false, options, 7).await.expect("it is made");
        let cuts = Cuts::new(CutPlan { at_event: None, kind: CutKind::PowerCut }, env.stop());
        let arena = SimArena::open(ArenaBytes::new(1 << 20), env.clone(), cuts, 3);
        let opened =
            Volume::open(env.clone(), arena, Rc::clone(&drive), drive, false, OpenOptions::default()).await;
        let client = client_of(&env, HalfWritable(opened.expect("it opens"))).await;
        assert_eq!(client.negotiated().size_bytes, 4 << 20);
        client.write(4096, &[5; 4096], Durability::Durable).await.expect("it writes");
        let upper = client.write(3 << 20, &[6; 4096], Durability::Durable).await;
        let Err(ClientError::Server { errno: 5, message }) = upper else { panic!("{upper:?}") };
        assert!(message.contains("write the upper half"), "{message}");
        let trimmed = client.trim(Extent::new(3 << 20, 4096), Durability::Buffered).await;
        assert!(matches!(trimmed, Err(ClientError::Server { errno: 5, .. })), "{trimmed:?}");
        let mut found = [9; 8192];
        client.read(0, &mut found).await.expect("it reads");
        assert!(found[..4096].iter().all(|&byte| byte == 0) && found[4096..].iter().all(|&byte| byte == 5));
    });
}
