//! What every device must do, whatever it is made of.

use std::future::Future;
use std::pin::Pin;

use evenkeel_engine::device::{Device, Durability, Extent, FlushScope};

use super::all;

/// Bytes that tell where they belong.
fn bytes(seed: u64, len: u64) -> Vec<u8> {
    (0..len).map(|at| (seed.wrapping_mul(0x9e37_79b9).wrapping_add(at * 7 + at / 251)) as u8).collect()
}

async fn read<D: Device>(device: &D, offset: u64, len: u64) -> Vec<u8> {
    let mut found = vec![0xcc; len as usize];
    device.read(offset, &mut found).await.unwrap();
    found
}

/// Goes through everything that [`Device`] promises and that can be seen without cutting the power. The device
/// has at least 4 MiB; what it held is lost.
pub async fn a_device_keeps_its_word<D: Device>(device: &D) {
    let geometry = device.geometry();
    let sector = u64::from(geometry.sector_bytes);
    assert!(sector.is_power_of_two());
    assert!(geometry.size_bytes >= 4 << 20 && geometry.size_bytes.is_multiple_of(sector));

    // Sectors at odd places, one by one and several; the neighbours keep what they have.
    device.write(0, &vec![1; 64 * sector as usize], Durability::Buffered).await.unwrap();
    for (first, count) in [(1, 1), (3, 2), (7, 5), (13, 1), (63, 1)] {
        let written = bytes(first, count * sector);
        device.write(first * sector, &written, Durability::Buffered).await.unwrap();
        assert!(read(device, first * sector, count * sector).await == written, "sectors {first}+{count}");
    }
    for neighbour in [0, 2, 5, 6, 12, 14, 62] {
        assert!(read(device, neighbour * sector, sector).await == vec![1; sector as usize], "{neighbour}");
    }

    // A durable write is read back at once, and so is one over it.
    for round in 0..5 {
        let written = bytes(round, sector);
        device.write(9 * sector, &written, Durability::Durable).await.unwrap();
        assert!(read(device, 9 * sector, sector).await == written, "round {round}");
    }

    // The last sector, and transfers larger than any piece that they may be made in, at an odd place.
    let last = geometry.size_bytes - sector;
    device.write(last, &bytes(99, sector), Durability::Durable).await.unwrap();
    assert!(read(device, last, sector).await == bytes(99, sector));
    for (durability, len) in [(Durability::Buffered, 3 << 20), (Durability::Durable, (1 << 20) + 3 * sector)]
    {
        let large = bytes(len, len);
        device.write(sector, &large, durability).await.unwrap();
        assert!(read(device, sector, len).await == large, "{len} bytes");
        assert!(read(device, 100 * sector, sector).await == large[99 * sector as usize..][..sector as usize]);
    }

    // Nothing at all is a transfer too.
    device.write(sector, &[], Durability::Durable).await.unwrap();
    device.read(sector, &mut []).await.unwrap();

    many_at_once(device, sector).await;

    let extent = Extent::new(2 * sector, sector);
    device.write(extent.offset, &bytes(5, sector), Durability::Buffered).await.unwrap();
    device.flush(FlushScope::Ranges(&[extent, Extent::new(17, 1)])).await.unwrap();
    device.flush(FlushScope::Ranges(&[])).await.unwrap();
    device.flush(FlushScope::Whole).await.unwrap();
    assert!(read(device, extent.offset, sector).await == bytes(5, sector));

    // What was discarded reads as anything; around it nothing changes, and it can be written again.
    let discarded = Extent::new(1 << 20, 1 << 20);
    device.write(discarded.offset - sector, &bytes(6, sector), Durability::Buffered).await.unwrap();
    device.write(discarded.end(), &bytes(7, sector), Durability::Buffered).await.unwrap();
    device.discard(discarded).await.unwrap();
    let _anything = read(device, discarded.offset, discarded.len).await;
    assert!(read(device, discarded.offset - sector, sector).await == bytes(6, sector));
    assert!(read(device, discarded.end(), sector).await == bytes(7, sector));
    device.write(discarded.offset, &bytes(8, discarded.len), Durability::Durable).await.unwrap();
    assert!(read(device, discarded.offset, discarded.len).await == bytes(8, discarded.len));
}

/// More calls at the same time than memory for them, small and large, with flushes between.
async fn many_at_once<D: Device>(device: &D, sector: u64) {
    let places = (3 << 20) / (48 * sector);
    let work = (0..places).map(|place| -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move {
            let offset = place * 48 * sector;
            let len = sector * if place % 5 == 0 { 48 } else { 1 + place % 3 };
            for round in 0..3 {
                let durability = if place % 2 == 0 { Durability::Durable } else { Durability::Buffered };
                let written = bytes(place * 3 + round, len);
                device.write(offset, &written, durability).await.unwrap();
                if place % 7 == round {
                    device.flush(FlushScope::Whole).await.unwrap();
                }
                assert!(read(device, offset, len).await == written, "place {place}, round {round}");
            }
        })
    });
    all(work).await;
}
