//! Who is compared: Linux md and evenkeel, as a guest makes them of members, and how each takes a member back.
//!
//! 1. All contenders of a layout have members of the same number, size and delay, and offer the same number of bytes.
//! 2. Each runs with the defaults of its program but for what its name says.
//! 3. evenkeel is told nothing when a member is back. md is told by a script, as soon as the member listens.

use std::time::Duration;

use super::guest::{Guest, SAID};
use super::members::Member;
use crate::run::{Failure, Outcome};

/// Bytes that every contender offers, in MiB.
pub(super) const VOLUME_MIB: u64 = 512;

/// How many members, and what becomes of them.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) name: &'static str,
    pub(super) members: usize,
    /// Members whose bytes are those of the volume.
    data: u64,
    /// evenkeel's log devices, where the journal is not on the members.
    logs: usize,
    /// md's level.
    level: &'static str,
    /// evenkeel's layout.
    layout: &'static str,
    /// The member that is lost and comes back.
    pub(super) lost: usize,
    /// Those that are lost for good afterwards, so that the first is needed.
    pub(super) lost_for_good: &'static [usize],
    pub(super) contenders: &'static [Contender],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Contender {
    /// With a bitmap of this chunk, or as mdadm chooses it.
    Md(Option<&'static str>),
    /// With a journal of this size, or as `create` chooses it.
    Evenkeel { log_on_members: bool, log_size: Option<&'static str> },
}

/// A journal that is full within a minute: of a larger one nothing would go to the members while one is lost.
const SMALL: Option<&str> = Some("16m");

pub(super) const LAYOUTS: [Layout; 2] = [
    Layout {
        name: "4+2",
        members: 6,
        data: 4,
        logs: 3,
        level: "6",
        layout: "rs:4+2",
        lost: 2,
        lost_for_good: &[0, 4],
        contenders: &[
            Contender::Md(None),
            Contender::Md(Some("256K")),
            Contender::Evenkeel { log_on_members: false, log_size: None },
            Contender::Evenkeel { log_on_members: false, log_size: SMALL },
        ],
    },
    Layout {
        name: "mirror",
        members: 2,
        data: 1,
        logs: 2,
        level: "1",
        layout: "mirror",
        lost: 1,
        lost_for_good: &[0],
        contenders: &[
            Contender::Md(None),
            Contender::Md(Some("256K")),
            Contender::Evenkeel { log_on_members: false, log_size: SMALL },
            Contender::Evenkeel { log_on_members: true, log_size: SMALL },
        ],
    },
];

/// Room beside a member's part of the volume: what md and evenkeel keep for themselves there, evenkeel's journal included.
const MEMBER_ROOM_MIB: u64 = 192;

/// Bytes of a log device, in MiB.
pub(super) const LOG_MIB: u64 = 192;

/// How long a server may take to be ready.
const READY_MAX: u32 = 300;

impl Layout {
    pub(super) const fn member_mib(&self) -> u64 {
        VOLUME_MIB / self.data + MEMBER_ROOM_MIB
    }

    /// How a contender is called.
    pub(super) fn called(&self, contender: Contender) -> String {
        let raid = format!("md RAID-{}", self.level);
        match contender {
            Contender::Md(None) => raid,
            Contender::Md(Some(chunk)) => format!("{raid}, bitmap of {chunk}"),
            Contender::Evenkeel { log_on_members, log_size } => {
                let place = if log_on_members { ", journal on the members" } else { "" };
                let size = log_size.map_or_else(String::new, |size| format!(", journal of {size}"));
                format!("evenkeel {}{place}{size}", self.layout)
            }
        }
    }

    /// Log devices of a contender.
    pub(super) const fn logs_of(&self, contender: Contender) -> usize {
        match contender {
            Contender::Evenkeel { log_on_members: false, .. } => self.logs,
            _ => 0,
        }
    }
}

/// A contender that runs in a guest.
pub(super) struct Running<'a> {
    pub(super) layout: &'a Layout,
    pub(super) contender: Contender,
}

impl Running<'_> {
    /// Where clients find it.
    pub(super) const fn device(&self) -> &'static str {
        match self.contender {
            Contender::Md(_) => "/dev/md0",
            Contender::Evenkeel { .. } => "/dev/nbd0",
        }
    }

    /// Makes it, of new members.
    pub(super) fn make(&self, guest: &mut Guest, members: &[Member], logs: &[Member]) -> Outcome {
        match self.contender {
            Contender::Md(chunk) => {
                let mut devices = String::new();
                for (number, member) in members.iter().enumerate() {
                    attach(guest, member, number)?;
                    devices.push_str(&format!(" /dev/nbd{number}"));
                }
                let chunk = chunk.map_or_else(String::new, |chunk| format!("--bitmap-chunk={chunk}"));
                let stripes = if self.layout.data > 1 { "--chunk=64" } else { "" };
                guest.run(&format!(
                    "/mdadm --create /dev/md0 --run --assume-clean --level={} --raid-devices={} --size={} \
                     --bitmap=internal {chunk} {stripes} {devices} </dev/null 2>&1",
                    self.layout.level,
                    members.len(),
                    VOLUME_MIB * 1024 / self.layout.data
                ))?;
                Ok(())
            }
            Contender::Evenkeel { log_on_members, log_size } => {
                let place = |flag: &str, device: &Member| {
                    let uri = format!("nbd://10.0.2.2:{}", device.port);
                    format!(" --{flag} {uri} --destroy {uri}")
                };
                let members: String = members.iter().map(|member| place("member", member)).collect();
                let logs: String = logs.iter().map(|log| place("log", log)).collect();
                let size = log_size.map_or_else(String::new, |size| format!("--log-size {size}"));
                let on_members = if log_on_members { "--log-on-members" } else { "" };
                guest.run(&format!(
                    "/evenkeel create /run/volume --size {VOLUME_MIB}m --layout {} {size} {on_members}{members}{logs} \
                     </dev/null 2>&1",
                    self.layout.layout
                ))?;
                guest.run("mkfifo /run/said")?;
                self.serve(guest)
            }
        }
    }

    fn serve(&self, guest: &mut Guest) -> Outcome {
        let from = guest.said.len();
        guest.run(&format!("while read -r said; do echo \"{SAID}$said\"; done </run/said &"))?;
        guest.run(
            "/evenkeel serve /run/volume --nbd unix:/run/nbd.sock </dev/null >/run/said 2>&1 & server=$!",
        )?;
        for _ in 0..READY_MAX {
            if guest.heard("ready: ", from).is_some() {
                guest.run("/nbd-client -unix /run/nbd.sock /dev/nbd0 </dev/null 2>&1")?;
                return Ok(());
            }
            guest.run("sleep 0.2; kill -0 $server")?;
        }
        Err(Failure::Failed("the server of the volume does not become ready".to_owned()))
    }

    /// Has it forget what it has in memory, so that reads go to members; whether it was well until then.
    pub(super) fn cool(&self, guest: &mut Guest) -> Outcome<bool> {
        let Contender::Evenkeel { .. } = self.contender else { return Ok(true) };
        guest.run("/nbd-client -d /dev/nbd0 </dev/null 2>&1")?;
        let ended = guest.try_run("kill -TERM $server; wait $server", Duration::from_secs(300))?;
        self.serve(guest)?;
        Ok(ended.code == 0)
    }

    /// Tells it that a member is back, where it has to be told.
    pub(super) fn tell(&self, guest: &mut Guest, members: &[Member]) -> Outcome {
        let Contender::Md(_) = self.contender else { return Ok(()) };
        let lost = self.layout.lost;
        // The array lets go of a member once nothing is under way to it.
        guest.run(&format!(
            "for turn in 1 2 3 4 5 6 7 8 9 10; do \
             /mdadm /dev/md0 --fail /dev/nbd{lost} --remove /dev/nbd{lost} </dev/null 2>&1 && break; sleep 0.1; done"
        ))?;
        guest.try_run(&format!("/nbd-client -d /dev/nbd{lost} </dev/null 2>&1"), Duration::from_secs(60))?;
        attach(guest, &members[lost], lost)?;
        // mdadm says that the device is busy for as long as the array has not let go, and ends well all the same.
        let told = guest.run(&format!(
            "for turn in $(seq 50); do told=$(/mdadm /dev/md0 --re-add /dev/nbd{lost} </dev/null 2>&1); echo \"$told\"; \
             case \"$told\" in *re-added*) break;; esac; sleep 0.1; done"
        ))?;
        if !told.text.contains("re-added") {
            return Err(Failure::Failed(format!("md does not take the member back:\n{}", told.text)));
        }
        eprintln!("  {}", told.text.trim());
        Ok(())
    }

    /// How many drives it has given up so far.
    pub(super) fn given_up(&self, guest: &mut Guest) -> Outcome<u64> {
        let lost = |line: &str| line.contains(" member-lost: ") || line.contains(" log-device-lost: ");
        match self.contender {
            Contender::Md(_) => {
                let told = guest.run("cat /sys/block/md0/md/degraded")?.text;
                told.trim()
                    .parse()
                    .map_err(|why| Failure::Failed(format!("md is degraded by `{told}`: {why}")))
            }
            Contender::Evenkeel { .. } => {
                guest.time()?;
                Ok(guest.said.iter().filter(|(_, line)| lost(line)).count() as u64)
            }
        }
    }

    /// Of these, those that were lost on purpose once the member is back.
    pub(super) const fn counts_lost(&self) -> u64 {
        match self.contender {
            Contender::Md(_) => 0,
            Contender::Evenkeel { .. } => 1,
        }
    }

    /// Since when all members have everything, if they have; `from` is how much had been said when the member was lost.
    pub(super) fn whole(&self, guest: &mut Guest, from: usize) -> Outcome<Option<u64>> {
        match self.contender {
            Contender::Md(_) => {
                let told = guest.run("cat /sys/block/md0/md/degraded")?;
                Ok((told.text.trim() == "0").then_some(told.at_ms))
            }
            Contender::Evenkeel { .. } => {
                guest.time()?;
                Ok(guest.heard("rebuild-ended", from))
            }
        }
    }
}

/// Attaches a member to the kernel's client. A process waits there for the end of the connection, and has the kernel fail what is
/// under way then: what was set up by netlink would wait for an answer without end.
fn attach(guest: &mut Guest, member: &Member, number: usize) -> Outcome {
    let port = member.port;
    guest.run(&format!("/nbd-client -nonetlink 10.0.2.2 {port} /dev/nbd{number} </dev/null 2>&1"))?;
    Ok(())
}
