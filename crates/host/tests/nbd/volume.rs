//! A volume of the engine over NBD.

use std::rc::Rc;

use evenkeel_engine::conversion::SwitchedVolume;
use evenkeel_engine::device::{Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::env::Env;
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
use evenkeel_sim::executor::Executor;
use evenkeel_sim::image::{Image, SharedImage};
use evenkeel_sim::random::Random;

const SIZE: u64 = 4 << 20;

/// Runs a life of a machine with a volume, its power cut at the end; `scenario` is told with a connection to it.
fn live<F: Future<Output = ()>>(
    image: &SharedImage,
    is_first: bool,
    seed: u64,
    scenario: impl FnOnce(Client<MemoryStream>) -> F,
) {
    let mut executor = Executor::new(seed);
    executor.limit_polls(10_000_000);
    let env = executor.env();
    let cuts = Cuts::new(CutPlan { at_event: None, kind: CutKind::PowerCut }, executor.stop());
    let options = DriveOptions { seed, ..DriveOptions::default() };
    let drive = Rc::new(SimDrive::open(image.clone(), env.clone(), cuts.clone(), options));
    let arena = SimArena::open(ArenaBytes::new(1 << 20), env.clone(), cuts, seed);
    let told = executor.block_on(async {
        if is_first {
            let options = CreateOptions { size_bytes: SIZE, log_bytes: 2 << 20, atomic_max_bytes: 16 << 10 };
            create(&*drive, &*drive, false, options, 7).await.expect("it is made");
        }
        let opened =
            Volume::open(env.clone(), arena, Rc::clone(&drive), drive, false, OpenOptions::default()).await;
        let export = DeviceExport::new(SwitchedVolume::new(opened.expect("it opens")), "volume");
        let server = Server::new(env.clone(), export, Limits::default(), None);
        let (near, far) = pair(1 << 20, Some(seed));
        env.spawn(async move { drop(server.serve(far, "a client").await) });
        let options = ConnectOptions { export: "volume".into(), ..ConnectOptions::default() };
        scenario(Client::connect(&env, near, &options).await.expect("it connects")).await;
    });
    told.expect("the scenario ends");
}

#[test]
fn what_was_answered_as_durable_over_nbd_survives_a_power_cut() {
    for seed in 0..20 {
        let geometry = Geometry { size_bytes: 16 << 20, sector_bytes: 512, atomic_sectors: true };
        let image = Image::shared(geometry);
        live(&image, true, seed, |client| async move {
            let found = client.allocation(Extent::new(0, SIZE)).await.expect("it tells");
            assert_eq!(found, [(SIZE, false)], "a new volume holds nothing");
            client.write(1, b"fua", Durability::Durable).await.expect("it writes");
            client.write(9000, b"flushed as a range", Durability::Buffered).await.expect("it writes");
            client.flush(FlushScope::Ranges(&[Extent::new(9000, 18)])).await.expect("it flushes");
            let large: Vec<u8> = (0..300_000u32).map(|at| at as u8 | 1).collect();
            client.write(1 << 20, &large, Durability::Buffered).await.expect("it writes");
            client.flush(FlushScope::Whole).await.expect("it flushes");
            client.trim(Extent::new(1 << 20, 8192), Durability::Durable).await.expect("it trims");
            client.write(2 << 20, b"not flushed", Durability::Buffered).await.expect("it writes");
            let found = client.allocation(Extent::new(0, 2 << 20)).await.expect("it tells");
            assert_eq!(found[..3], [(4096, true), (4096, false), (4096, true)]);
            let beyond = client.write(SIZE - 1, b"xx", Durability::Durable).await;
            assert!(matches!(beyond, Err(ClientError::Server { errno: 28, .. })), "{beyond:?}");
        });
        image.borrow_mut().power_cut(&mut Random::new(seed));
        live(&image, false, seed + 1, |client| async move {
            let mut found = vec![1; 18];
            client.read(9000, &mut found).await.expect("it reads");
            assert_eq!(found, b"flushed as a range");
            client.read(0, &mut found[..5]).await.expect("it reads");
            assert_eq!(found[..5], *b"\0fua\0");
            let mut large = vec![1; 300_000];
            client.read(1 << 20, &mut large).await.expect("it reads");
            assert!(large[..8192].iter().all(|&byte| byte == 0));
            assert!((8192..300_000).all(|at| large[at] == at as u8 | 1));
        });
    }
}
