//! Any sequence of requests, beside an array of bytes.

use std::pin::Pin;

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_host::front::nbd::fuzzing::{RamExport, small_limits};
use evenkeel_host::front::nbd::limits::Limits;
use evenkeel_host::nbd::client::Client;
use evenkeel_host::nbd::proto::transmission::Headers;
use proptest::prelude::*;

use crate::fixture::{Fixture, run, with_headers};

const SIZE: u64 = 16 << 10;

#[derive(Debug, Clone)]
enum Step {
    Write(u64, Vec<u8>, bool),
    Read(u64, u64),
    Zero(u64, u64, bool),
    Trim(u64, u64),
    Flush,
    FlushRange(u64, u64),
    Status(u64, u64),
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    (0..SIZE, prop_oneof![1..200u64, 1..8192u64]).prop_map(|(offset, len)| (offset, len.min(SIZE - offset)))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (range(), any::<u8>(), any::<bool>()).prop_map(|((offset, len), mark, durable)| {
            Step::Write(offset, (0..len).map(|at| mark ^ at as u8).collect(), durable)
        }),
        4 => range().prop_map(|(offset, len)| Step::Read(offset, len)),
        1 => (range(), any::<bool>()).prop_map(|((offset, len), durable)| Step::Zero(offset, len, durable)),
        1 => range().prop_map(|(offset, len)| Step::Trim(offset, len)),
        1 => Just(Step::Flush),
        1 => range().prop_map(|(offset, len)| Step::FlushRange(offset, len)),
        1 => range().prop_map(|(offset, len)| Step::Status(offset, len)),
    ]
}

fn durability(durable: bool) -> Durability {
    if durable { Durability::Durable } else { Durability::Buffered }
}

async fn take<S: evenkeel_host::net::ByteStream>(
    client: &Client<S>,
    step: &Step,
    bytes: &mut [u8],
    durable: &mut [u8],
) {
    let at = |offset: u64, len: u64| offset as usize..(offset + len) as usize;
    match step {
        Step::Write(offset, data, fua) => {
            client.write(*offset, data, durability(*fua)).await.expect("it writes");
            let range = at(*offset, data.len() as u64);
            bytes[range.clone()].copy_from_slice(data);
            if *fua {
                durable[range].copy_from_slice(data);
            }
        }
        Step::Read(offset, len) => {
            let mut found = vec![0xee; *len as usize];
            client.read(*offset, &mut found).await.expect("it reads");
            assert!(found == bytes[at(*offset, *len)]);
        }
        Step::Zero(offset, len, fua) => {
            let extent = Extent::new(*offset, *len);
            client.write_zeroes(extent, durability(*fua), *fua).await.expect("zeros");
            bytes[at(*offset, *len)].fill(0);
            if *fua {
                durable[at(*offset, *len)].fill(0);
            }
        }
        Step::Trim(offset, len) => {
            client.trim(Extent::new(*offset, *len), Durability::Buffered).await.expect("it trims");
            bytes[at(*offset, *len)].fill(0);
        }
        Step::Flush => {
            client.flush(FlushScope::Whole).await.expect("it flushes");
            durable.copy_from_slice(bytes);
        }
        Step::FlushRange(offset, len) => {
            let extent = Extent::new(*offset, *len);
            client.flush(FlushScope::Ranges(&[extent])).await.expect("it flushes");
            match client.negotiated().range_flush {
                true => durable[at(*offset, *len)].copy_from_slice(&bytes[at(*offset, *len)]),
                false => durable.copy_from_slice(bytes),
            }
        }
        Step::Status(offset, len) if client.negotiated().headers != Headers::Simple => {
            let told = client.allocation(Extent::new(*offset, *len)).await.expect("it tells");
            let mut start = *offset;
            for (len, is_allocated) in told {
                let range = at(start, len);
                assert!(is_allocated || bytes[range].iter().all(|&byte| byte == 0), "a hole reads as zeros");
                start += len;
            }
            assert!(start > *offset && start <= offset + len);
        }
        Step::Status(..) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn an_export_over_nbd_is_an_array_of_bytes(
        steps in proptest::collection::vec(step(), 1..60),
        headers in prop_oneof![Just(Headers::Simple), Just(Headers::Structured), Just(Headers::Extended)],
        seed in any::<u64>(),
        is_tight in any::<bool>(),
    ) {
        run(seed, |env| async move {
            let export = RamExport::new(SIZE as usize).taking_time(env.clone());
            let limits = if is_tight { small_limits() } else { Limits::default() };
            let fixture = Fixture::new(&env, export.clone(), limits);
            let stream = fixture.connection(3000, Some(seed));
            let client = Client::connect(&env, stream, &with_headers(headers)).await.expect("it connects");
            let (mut bytes, mut durable) = (vec![0; SIZE as usize], vec![0; SIZE as usize]);
            for step in &steps {
                take(&client, step, &mut bytes, &mut durable).await;
            }
            assert!(export.bytes() == bytes);
            assert!(export.durable() == durable);
            drop(client);
            assert_eq!(fixture.endings(1).await, ["the client ended the connection"]);
            fixture.assert_idle();
        });
    }

    #[test]
    fn writes_and_reads_side_by_side_do_not_mix(
        seed in any::<u64>(),
        headers in prop_oneof![Just(Headers::Simple), Just(Headers::Structured), Just(Headers::Extended)],
    ) {
        run(seed, |env| async move {
            let export = RamExport::new(SIZE as usize).taking_time(env.clone());
            let fixture = Fixture::new(&env, export, small_limits());
            let stream = fixture.connection(3000, Some(seed));
            let client = Client::connect(&env, stream, &with_headers(headers)).await.expect("it connects");
            let writes: Vec<_> = (0..64u64)
                .map(|place| client.write(place * 256, &[place as u8; 256], Durability::Buffered))
                .collect();
            for write in writes {
                write.await.expect("it writes");
            }
            let reads = (0..64u64).map(|place| -> Pin<Box<dyn Future<Output = ()>>> {
                let client = client.clone();
                Box::pin(async move {
                    let mut found = [0; 256];
                    client.read(place * 256, &mut found).await.expect("it reads");
                    assert_eq!(found, [place as u8; 256]);
                })
            });
            crate::support::all(reads).await;
        });
    }
}
