//! Servers of exports that are members of volumes elsewhere: simulated drives, and volumes on files.

use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_host::service::mirror_status::MemberStatus;

use super::Scene;
use super::served::{Server, arenas_of, patiently};

/// The URI of the export on this socket.
pub(crate) fn uri(socket: &Path) -> String {
    format!("nbd+unix:///?socket={}", socket.display())
}

/// A simulated drive of 64 MiB on the socket `drive-N`.
pub(crate) struct Drive {
    pub(crate) socket: String,
    pub(crate) uri: String,
    pub(crate) server: Server,
}

impl Drive {
    pub(crate) fn start(scene: &Scene, number: usize) -> Self {
        let socket = format!("drive-{number}");
        let command =
            scene.command(&format!("drive sata-2011 --size 64m --seed {number} --nbd unix:{socket}"));
        let stderr = scene.path(&format!("stderr-{number}"));
        let server = Server::start(scene.folder().to_owned(), stderr, command).ready();
        Self { uri: uri(&scene.path(&socket)), socket, server }
    }

    /// Its power is cut.
    pub(crate) fn cut(&self, scene: &Scene) {
        scene.done(&format!("drive --cut unix:{}", self.socket));
    }
}

/// A volume on a file, served to be a member, in a process that can be killed.
pub(crate) struct FarVolume<'a> {
    scene: &'a Scene,
    name: String,
    serve_flags: String,
    pub(crate) socket: PathBuf,
    pub(crate) uri: String,
    pub(crate) server: Server,
}

impl<'a> FarVolume<'a> {
    /// `evenkeel create NAME CREATE_FLAGS`, and `evenkeel serve NAME SERVE_FLAGS` on the socket `NAME.sock`.
    pub(crate) fn create(scene: &'a Scene, name: &str, create_flags: &str, serve_flags: &str) -> Self {
        scene.done(&format!("create {name} {create_flags}"));
        let socket = scene.path(&format!("{name}.sock"));
        let serve_flags = format!("{serve_flags} --nbd unix:{}", socket.display());
        Self {
            server: Self::start(scene, name, &serve_flags),
            uri: uri(&socket),
            socket,
            name: name.to_owned(),
            serve_flags,
            scene,
        }
    }

    fn start(scene: &Scene, name: &str, serve_flags: &str) -> Server {
        let command = scene.command(&format!("serve {name} {serve_flags}"));
        let stderr = scene.path(&format!("{name}-stderr"));
        Server::start(scene.path(name), stderr, command).ready()
    }

    /// What was killed is served again.
    pub(crate) fn restart(&mut self) {
        self.server = Self::start(self.scene, &self.name, &self.serve_flags);
    }
}

impl Drop for FarVolume<'_> {
    fn drop(&mut self) {
        self.server.kill();
        for arena in arenas_of(&self.scene.path(&self.name)) {
            let _gone_already_is_fine = fs::remove_file(arena);
        }
    }
}

/// What the server of a mirror tells of its members.
#[track_caller]
pub(crate) fn members(server: &Server) -> Vec<MemberStatus> {
    server.status().mirror.expect("a mirror tells of its members").members
}

/// Waits until a member is what it is to be, and answers what is told of it then.
#[track_caller]
pub(crate) fn until_standing(server: &Server, place: usize, standing: &str) -> MemberStatus {
    patiently(standing, || Some(members(server).swap_remove(place)).filter(|it| it.standing == standing))
}
