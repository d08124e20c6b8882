//! A volume that is served with TLS, and the clients that others wrote: with certificates they read and write, without
//! nothing is answered, and whoever is turned away hurts nobody.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};

use evenkeel_host::nbd::proto::handshake::{
    GREETING_BYTES, InfoRequest, OPTION_REPLY_BYTES, OptionReplyHeader, encode_option,
};
use evenkeel_host::nbd::proto::{option, option_reply};
use serde_json::Value;

use crate::support::root::{programs, ran, run, system};
use crate::support::served::{Server, Volume, noise, noise_file, patiently};
use crate::support::{Scene, or_skip, says};

const SIZE: usize = 32 << 20;
const FLAGS: &str = "--size 32m --log-size 16m --buffer 8m";

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Folders of certificates, one for each of `names`, all signed by one authority, as `docs/nbd.md` has it made.
struct Pki {
    folder: PathBuf,
}

impl Pki {
    fn new(folder: PathBuf) -> Self {
        fs::create_dir(&folder).unwrap();
        let pki = Self { folder };
        pki.openssl("authority", "ca", &[]);
        pki
    }

    /// A folder with the authority's certificate, and where there is a `role` (`server`, `client`) a certificate and
    /// key for it.
    fn folder_for(&self, name: &str, role: Option<&str>) -> String {
        let folder = self.folder.join(name);
        fs::create_dir(&folder).unwrap();
        fs::copy(self.folder.join("ca-cert.pem"), folder.join("ca-cert.pem")).unwrap();
        if let Some(role) = role {
            let authority = |file: &str| text(&self.folder.join(file));
            self.openssl(
                "localhost",
                &format!("{name}/{role}"),
                &[
                    "-CA",
                    &authority("ca-cert.pem"),
                    "-CAkey",
                    &authority("ca-key.pem"),
                    "-addext",
                    "basicConstraints=critical,CA:FALSE",
                    "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1",
                ],
            );
        }
        text(&folder)
    }

    /// `NAME-cert.pem` and `NAME-key.pem` for `subject`.
    fn openssl(&self, subject: &str, name: &str, more: &[&str]) {
        let (key, certificate) = (format!("{name}-key.pem"), format!("{name}-cert.pem"));
        let (key, certificate) = (text(&self.folder.join(key)), text(&self.folder.join(certificate)));
        let subject = format!("/CN={subject}");
        let mut args =
            vec!["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        args.extend(["-days", "2", "-subj", &subject, "-keyout", &key, "-out", &certificate]);
        args.extend(more);
        ran("openssl", &args);
    }
}

/// A served volume, and what its clients have.
struct Served {
    server: Server,
    socket: String,
    port: String,
    /// Certificates of a client that the server knows.
    known: String,
    /// The same without a certificate of its own.
    nameless: String,
    /// A client of another authority.
    stranger: String,
}

/// Serves `volume` on TCP and a Unix socket.
fn serve(scene: &Scene, volume: &Volume<'_>) -> Served {
    let pki = Pki::new(scene.path("pki"));
    let socket = text(&scene.path("tls.sock"));
    let folder = pki.folder_for("server", Some("server"));
    let server =
        volume.serve(&format!("--log-level debug --tls {folder} --nbd unix:{socket} --nbd tcp:127.0.0.1:0"));
    let port = server.told("ready: nbds://127.0.0.1:");
    let strangers = Pki::new(scene.path("other-pki"));
    Served {
        server,
        socket,
        port,
        known: pki.folder_for("known", Some("client")),
        nameless: pki.folder_for("nameless", None),
        stranger: strangers.folder_for("stranger", Some("client")),
    }
}

impl Served {
    /// For clients of libnbd, with the certificates of `folder`: over the Unix socket and over TCP.
    fn uris(&self, folder: &str) -> [String; 2] {
        [
            format!("nbds+unix:///?socket={}&tls-certificates={folder}", self.socket),
            format!("nbds://127.0.0.1:{}/?tls-certificates={folder}", self.port),
        ]
    }

    /// For QEMU: the certificates of `folder`, with what else is to be said of them, and the same two ways.
    fn qemu(&self, folder: &str, more: &str) -> (String, [String; 2]) {
        let object = format!("tls-creds-x509,id=tls,endpoint=client,dir={folder}{more}");
        let places = [
            format!(
                "driver=nbd,server.type=unix,server.path={},tls-creds=tls,tls-hostname=localhost",
                self.socket
            ),
            format!(
                "driver=nbd,server.type=inet,server.host=127.0.0.1,server.port={},tls-creds=tls",
                self.port
            ),
        ];
        (object, places)
    }
}

/// qemu-io with one connection, which stays while others come and go.
struct Session {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Session {
    fn start(object: &str, place: &str) -> Self {
        let mut command = system("qemu-io");
        command.args(["--object", object, "--image-opts", place]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Does `command`, until a line of its answer has `answer`.
    #[track_caller]
    fn does(&mut self, command: &str, answer: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(format!("{command}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "{command}: it ended without `{answer}`");
            assert!(!line.contains("failed") && !line.contains("error"), "{command}: {line}");
            if line.contains(answer) {
                return;
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ended_already_is_fine = self.child.kill();
        let _ended_already_is_fine = self.child.wait();
    }
}

#[test]
fn libnbd_reads_and_writes_over_tls_on_tcp_and_on_a_unix_socket() {
    or_skip!(programs(&["openssl", "nbdinfo", "nbdcopy"]));
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let served = serve(&scene, &volume);
    let (image, back) = (scene.path("image"), scene.path("back"));
    for (seed, uri) in served.uris(&served.known).iter().enumerate() {
        let told: Value = serde_json::from_str(&ran("nbdinfo", &["--json", uri])).unwrap();
        assert_eq!(
            (&told["TLS"], &told["exports"][0]["export-size"]),
            (&true.into(), &SIZE.into()),
            "{told}"
        );
        noise_file(&image, seed as u64, SIZE);
        ran("nbdcopy", &["--flush", &text(&image), uri]);
        ran("nbdcopy", &[uri, &text(&back)]);
        assert!(scene.bytes("back") == scene.bytes("image"), "it came back changed");
        fs::remove_file(&back).unwrap();
    }
    served.server.stop();
    let server = volume.serve("");
    ran("nbdcopy", &[&volume.uri(), &text(&back)]);
    assert!(scene.bytes("back") == noise(1, SIZE), "what came over TLS is not what was kept");
    server.stop();
}

#[test]
fn qemu_reads_and_writes_over_tls_on_tcp_and_on_a_unix_socket() {
    or_skip!(programs(&["openssl", "qemu-img"]));
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let served = serve(&scene, &volume);
    let raw = text(&scene.path("raw"));
    let (object, places) = served.qemu(&served.known, "");
    for (seed, place) in places.iter().enumerate() {
        noise_file(&scene.path("raw"), 5 + seed as u64, SIZE);
        let source = format!("driver=raw,file.driver=file,file.filename={raw}");
        let flags = ["--object", &object, "--image-opts"];
        let convert = ["convert", "-n", "--target-image-opts", &source, place];
        ran("qemu-img", &[&convert[..1], &flags, &convert[1..]].concat());
        says(&ran("qemu-img", &[&["compare"], &flags[..], &[&source, place]].concat()), &["identical"]);
    }
    served.server.stop();
}

#[test]
fn without_tls_every_option_but_starttls_and_abort_is_refused() {
    or_skip!(programs(&["openssl", "nbdinfo", "qemu-img"]));
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let served = serve(&scene, &volume);
    // What other people's clients make of it.
    for uri in [format!("nbd+unix:///?socket={}", served.socket), format!("nbd://127.0.0.1:{}", served.port)]
    {
        // libnbd has no words of its own for it.
        says(&run("nbdinfo", &[&uri]).unwrap_err(), &["server replied with error", "not supported"]);
        assert!(run("nbdinfo", &["--list", &uri]).is_err());
        says(&run("qemu-img", &["info", &uri]).unwrap_err(), &["TLS"]);
    }
    // Each option by itself; one handshake takes 64 of them.
    let go = InfoRequest { name: "", wanted: vec![] }.encode();
    let mut raw = Raw::connect(&served.port);
    for number in 0..=100 {
        if number % 50 == 0 {
            raw = Raw::connect(&served.port);
        }
        match number {
            option::EXPORT_NAME | option::ABORT | option::STARTTLS => {}
            option::GO | option::INFO => assert_eq!(raw.asks(number, &go), option_reply::ERR_TLS_REQD),
            _ => assert_eq!(raw.asks(number, &[]), option_reply::ERR_TLS_REQD, "option {number}"),
        }
    }
    assert_eq!(raw.asks(option::ABORT, &[]), option_reply::ACK);
    raw.has_ended();
    // No reply can refuse this one: the connection ends.
    let mut raw = Raw::connect(&served.port);
    raw.sends(option::EXPORT_NAME, &[]);
    raw.has_ended();
    let mut raw = Raw::connect(&served.port);
    assert_eq!(raw.asks(option::STARTTLS, &[]), option_reply::ACK);
    served.server.stop();
}

/// A client that says what it likes.
struct Raw(TcpStream);

impl Raw {
    fn connect(port: &str) -> Self {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        stream.read_exact(&mut [0; GREETING_BYTES]).unwrap();
        stream.write_all(&3_u32.to_be_bytes()).unwrap();
        Self(stream)
    }

    fn sends(&mut self, number: u32, payload: &[u8]) {
        let mut out = Vec::new();
        encode_option(&mut out, number, payload);
        self.0.write_all(&out).unwrap();
    }

    /// Sends an option; answers what the reply says.
    fn asks(&mut self, number: u32, payload: &[u8]) -> u32 {
        self.sends(number, payload);
        let mut header = [0; OPTION_REPLY_BYTES];
        self.0.read_exact(&mut header).unwrap();
        let header = OptionReplyHeader::decode(&header).unwrap();
        assert_eq!(header.option, number);
        self.0.read_exact(&mut vec![0; header.len as usize]).unwrap();
        header.reply
    }

    #[track_caller]
    fn has_ended(&mut self) {
        let read = self.0.read(&mut [0; 1]);
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
}

#[test]
fn who_is_not_known_is_turned_away_and_hurts_nobody() {
    or_skip!(programs(&["openssl", "nbdinfo", "qemu-img", "qemu-io"]));
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let served = serve(&scene, &volume);
    let (object, [unix, tcp]) = served.qemu(&served.known, "");
    let mut sessions = [Session::start(&object, &unix), Session::start(&object, &tcp)];
    for (session, pattern) in sessions.iter_mut().zip([1, 2]) {
        session.does(&format!("write -P {pattern} {pattern}m 64k"), "wrote 65536/65536");
    }
    // Who does not trust the server, and who has nothing to show to it.
    for folder in [&served.stranger, &served.nameless] {
        for uri in served.uris(folder) {
            assert!(run("nbdinfo", &[&uri]).is_err(), "{uri}");
        }
        let (object, places) = served.qemu(folder, "");
        for place in places {
            let refused = run("qemu-img", &["info", "--object", &object, "--image-opts", &place]);
            assert!(refused.is_err(), "{place}: {refused:?}");
        }
    }
    // Who trusts the server, and shows what another authority signed.
    let forger = scene.path("forger");
    fs::create_dir(&forger).unwrap();
    for file in ["client-cert.pem", "client-key.pem"] {
        fs::copy(Path::new(&served.stranger).join(file), forger.join(file)).unwrap();
    }
    fs::copy(Path::new(&served.known).join("ca-cert.pem"), forger.join("ca-cert.pem")).unwrap();
    for uri in served.uris(&text(&forger)) {
        assert!(run("nbdinfo", &[&uri]).is_err(), "{uri}");
    }
    for (session, pattern) in sessions.iter_mut().zip([1, 2]) {
        session.does(&format!("read -P {pattern} {pattern}m 64k"), "read 65536/65536");
        session.does("flush", "");
    }
    assert_eq!(served.server.status().server.connections, 2);
    drop(sessions);
    served.server.stop();
}

#[test]
fn tls_older_than_1_2_is_refused() {
    or_skip!(programs(&["openssl", "qemu-img"]));
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let served = serve(&scene, &volume);
    let offering = |versions: &str| {
        let (object, places) = served.qemu(&served.known, &format!(",priority=NORMAL:-VERS-ALL{versions}"));
        places.map(|place| run("qemu-img", &["info", "--object", &object, "--image-opts", &place]))
    };
    for spoken in offering(":+VERS-TLS1.2").into_iter().chain(offering(":+VERS-TLS1.3")) {
        says(&spoken.unwrap(), &["virtual size"]);
    }
    for refused in offering(":+VERS-TLS1.1").into_iter().chain(offering(":+VERS-TLS1.1:+VERS-TLS1.0")) {
        says(&refused.unwrap_err(), &["TLS"]);
    }
    // It was for their versions: they offer nothing that came with 1.2.
    // Their last words may come after the client's.
    patiently("four complaints", || {
        (served.server.complaints().matches("peer is incompatible").count() == 4).then_some(())
    });
    served.server.stop();
}

#[test]
fn an_rsa_key_is_taken_or_its_size_named() {
    or_skip!(programs(&["openssl", "nbdinfo"]));
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    for bits in ["2048", "2500", "3072", "3248"] {
        let folder = scene.path(bits);
        fs::create_dir(&folder).unwrap();
        let file = |name: &str| text(&folder.join(name));
        let (key, certificate) = (file("server-key.pem"), file("server-cert.pem"));
        let (kind, subject) = (format!("rsa:{bits}"), "subjectAltName=DNS:localhost");
        ran(
            "openssl",
            &[
                "req",
                "-x509",
                "-newkey",
                &kind,
                "-nodes",
                "-days",
                "7",
                "-subj",
                "/CN=disk",
                "-addext",
                subject,
                "-keyout",
                &key,
                "-out",
                &certificate,
            ],
        );
        let flags = format!("--nbd tcp:127.0.0.1:0 --tls {}", folder.display());
        if ["2500", "3248"].contains(&bits) {
            let line = scene.refused(&format!("serve disk {flags}"));
            says(&line, &["--tls", &key, "2048, 3072 or 4096 bits", "openssl genpkey"]);
            // Nor in the older form.
            ran("openssl", &["rsa", "-traditional", "-in", &key, "-out", &key]);
            says(&scene.refused(&format!("serve disk {flags}")), &[&key, "2048, 3072 or 4096 bits"]);
            continue;
        }
        // A link that leads nowhere lets nobody in without a certificate.
        let authority = folder.join("ca-cert.pem");
        std::os::unix::fs::symlink("nowhere", &authority).unwrap();
        says(&scene.refused(&format!("serve disk {flags}")), &["ca-cert.pem"]);
        fs::remove_file(&authority).unwrap();
        let server = volume.serve(&flags);
        fs::copy(&certificate, &authority).unwrap();
        let place = server.told("ready: nbds://127.0.0.1:");
        let uri = format!("nbds://localhost:{place}/?tls-certificates={}", folder.display());
        ran("nbdinfo", &["--size", &uri]);
        server.stop();
    }
}

#[test]
fn a_port_that_other_machines_reach_without_a_certificate_is_warned_of() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let folder = Pki::new(scene.path("pki")).folder_for("server", Some("server"));
    let flags = format!("--nbd tcp:0.0.0.0:0 --tls {folder}");
    let server = volume.serve(&flags);
    assert!(!server.complaints().contains("tls-for-all"), "{}", server.complaints());
    server.stop();
    fs::remove_file(format!("{folder}/ca-cert.pem")).unwrap();
    let server = volume.serve(&flags);
    says(&server.complaints(), &["WARN tls-for-all", "0.0.0.0:", "ca-cert.pem"]);
    server.stop();
}
