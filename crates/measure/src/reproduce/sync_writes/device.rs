//! The paper's three devices, by model.

use evenkeel_sim::model::closed_loop;
use evenkeel_sim::model::disk::Disk;
use evenkeel_sim::model::flash::Flash;
use evenkeel_sim::model::presets;
use evenkeel_sim::model::{Model, Operation, Request};

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;

/// Which of the paper's devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Device {
    /// Hitachi HDS72101, 7200 rpm, SATA II.
    Hdd,
    /// Samsung 850, 256 GB, SATA II.
    Ssd,
    /// `SanDisk` Ultra, 32 GB.
    SdCard,
}

/// A model, requests to it one after another, and its time.
pub(super) struct Drive {
    model: Box<dyn AnyModel>,
    now_ns: u64,
    request_bytes_max: u64,
    depth: u64,
    /// Bytes of the partition that the paper used.
    pub(super) partition_bytes: u64,
}

/// A model whose type does not matter.
trait AnyModel {
    fn carry_out(&mut self, now_ns: u64, depth: u64, requests: &[Request]) -> u64;
}

impl<M: Model> AnyModel for M {
    fn carry_out(&mut self, now_ns: u64, depth: u64, requests: &[Request]) -> u64 {
        let next = |number: u64| requests[number as usize];
        closed_loop::run(self, now_ns, depth, requests.len() as u64, next).took_ns
    }
}

impl Device {
    pub(super) const ALL: [Self; 3] = [Self::Hdd, Self::Ssd, Self::SdCard];

    /// The paper's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hdd => "HDD",
            Self::Ssd => "SSD",
            Self::SdCard => "SDCARD",
        }
    }

    /// The name of its model.
    pub(super) fn model(self) -> &'static str {
        match self {
            Self::Hdd => "sata-7200",
            Self::Ssd => "sata-2011",
            Self::SdCard => "sd-card",
        }
    }

    /// The drive, never written.
    pub(super) fn drive(self) -> Drive {
        let (model, request_bytes_max, depth, partition_bytes): (Box<dyn AnyModel>, _, _, _) = match self {
            Self::Hdd => (Box::new(hdd()), 1280 * KIB, 32, 19 * GIB),
            Self::Ssd => (Box::new(ssd()), 1280 * KIB, 32, 19 * GIB),
            Self::SdCard => (Box::new(sd_card()), 512 * KIB, 1, 1440 * MIB),
        };
        Drive { model, now_ns: 0, request_bytes_max, depth, partition_bytes }
    }
}

fn hdd() -> Disk {
    let preset = presets::find_disk(Device::Hdd.model()).expect("a preset of that name");
    preset.disk(preset.size_bytes()).expect("its own size")
}

/// Scaled to the paper's partition; on SATA II, as there.
fn ssd() -> Flash {
    const SATA_2_BYTES_PER_S: u64 = 300_000_000;
    let preset = presets::find(Device::Ssd.model()).expect("a preset of that name");
    let mut shape = preset.shape(19 * GIB).expect("a size that it can have");
    shape.link_bytes_per_s = SATA_2_BYTES_PER_S;
    Flash::new(shape)
}

fn sd_card() -> Flash {
    let preset = presets::find(Device::SdCard.model()).expect("a preset of that name");
    Flash::new(preset.shape(1440 * MIB).expect("a size that it can have"))
}

impl Drive {
    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Writes a range, in requests as large as the kernel makes them.
    pub(super) fn write(&mut self, offset: u64, len: u64) {
        let request = |at| {
            let end = (offset + len).min(at + self.request_bytes_max);
            Request::new(0, Operation::Write, at, end - at)
        };
        let requests: Vec<Request> =
            (offset..offset + len).step_by(self.request_bytes_max as usize).map(request).collect();
        self.carry_out(&requests);
    }

    pub(super) fn flush(&mut self) {
        self.carry_out(&[Request::new(0, Operation::Flush, 0, 0)]);
    }

    fn carry_out(&mut self, requests: &[Request]) {
        self.now_ns += self.model.carry_out(self.now_ns, self.depth, requests);
    }
}
