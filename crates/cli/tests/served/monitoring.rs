//! Alert rules and dashboard: that they speak of metrics that there are, and that a real Prometheus takes them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::support::load::{contents, write};
use crate::support::metrics::{address, scrape};
use crate::support::root::{programs, run, system};
use crate::support::served::{Ended, Volume, noise, patiently};
use crate::support::{Scene, list, or_skip, says};

const FLAGS: &str = "--layout mirror --size 32m --log-size 16m --buffer 8m";

/// Turns so short that there are many.
const TURNS: &str = "--turn 20ms --rest 1ms --rest-max 20ms --metrics 127.0.0.1:0";

fn monitoring(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../monitoring").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(monitoring(name)).unwrap()
}

/// The words of `text` that begin like a metric of ours.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("evenkeel_")).map(str::to_owned).collect()
}

/// What stands in quotes behind `label=` or `label=~`, each alternative by itself.
fn values_of(text: &str, label: &str) -> BTreeSet<String> {
    let text = text.replace("\\\"", "\"");
    let found = text.match_indices(label).filter_map(|(at, _)| {
        let rest = &text[at + label.len()..];
        let rest = rest.strip_prefix("=~\"").or_else(|| rest.strip_prefix("=\""))?;
        rest.split_once('"')
    });
    found.flat_map(|(values, _)| values.split('|').map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Every query of the dashboard.
fn queries(dashboard: &Value) -> Vec<String> {
    let of_panel = |panel: &Value| -> Vec<String> {
        let Some(targets) = panel["targets"].as_array() else { return Vec::new() };
        targets.iter().map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
    };
    list(dashboard, "panels").iter().flat_map(of_panel).collect()
}

#[test]
fn rules_and_dashboard_speak_of_metrics_and_events_that_there_are() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(TURNS);
    let (_, body) = scrape(&address(&server), "/metrics");
    let names = |line: &str| line.split(['{', ' ']).next().unwrap().to_owned();
    let exported: BTreeSet<String> = body.lines().filter(|line| !line.starts_with('#')).map(names).collect();
    let dashboard: Value = serde_json::from_str(&text("grafana-dashboard.json")).unwrap();
    assert!(queries(&dashboard).len() > 20);
    for name in ["evenkeel.rules.yml", "evenkeel.test.yml", "grafana-dashboard.json"] {
        let used = metrics_in(&text(name));
        assert!(used.len() > 5, "{name} speaks of {used:?} only");
        let unknown: Vec<&String> = used.difference(&exported).collect();
        assert!(unknown.is_empty(), "{name} speaks of {unknown:?}");
        for label in ["event", "state"] {
            for value in values_of(&text(name), label) {
                let has_value = body.contains(&format!("{{{label}=\"{value}\"}}"));
                assert!(has_value, "{name} speaks of {label} {value}");
            }
        }
    }
    // What each event means is written down, and nothing is that does not happen.
    let described = fs::read_to_string(monitoring("../docs/monitoring.md")).unwrap();
    for event in values_of(&body, "evenkeel_events_total{event") {
        says(&described, &[&format!("`{event}`")]);
    }
    for metric in metrics_in(&described) {
        assert!(exported.contains(&metric), "docs/monitoring.md speaks of {metric}");
    }
    server.stop();
}

#[test]
fn promtool_takes_the_rules_and_their_tests() {
    or_skip!(programs(&["promtool"]));
    for (what, name) in [("check", "evenkeel.rules.yml"), ("test", "evenkeel.test.yml")] {
        run("promtool", &[what, "rules", &monitoring(name).display().to_string()]).unwrap();
    }
}

/// A Prometheus that scrapes every second.
struct Prometheus {
    address: String,
    _process: Ended,
}

impl Prometheus {
    fn start(scene: &Scene, target: &str) -> Self {
        let rules = fs::canonicalize(monitoring("evenkeel.rules.yml")).unwrap();
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [ {} ]\nscrape_configs:\n  \
             - job_name: evenkeel\n    static_configs: [ {{ targets: [ '{target}' ] }} ]\n",
            rules.display()
        );
        fs::write(scene.path("prometheus.yml"), config).unwrap();
        // Nobody else takes a port that was just free.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let mut process = system("prometheus");
        process
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=tsdb"])
            .arg(format!("--web.listen-address={address}"))
            .current_dir(scene.folder())
            .stdout(Stdio::null())
            .stderr(fs::File::create(scene.path("prometheus-stderr")).unwrap());
        let started = Self { address, _process: Ended(process.spawn().unwrap()) };
        patiently("Prometheus", || started.get("/-/ready").filter(|(head, _)| head.contains("200 OK")));
        started
    }

    /// Head and body of what it answers, if it does.
    fn get(&self, path: &str) -> Option<(String, String)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.to_owned(), body.to_owned()))
    }

    /// What a query gives, or why it gives nothing.
    fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let escape = |byte: u8| match byte {
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        let escaped: String = expression.bytes().map(escape).collect();
        let (_, body) = self.get(&format!("/api/v1/query?query={escaped}")).ok_or("no answer")?;
        let answer: Value = serde_json::from_str(&body).map_err(|error| error.to_string())?;
        match answer["status"].as_str() {
            Some("success") => Ok(list(&answer["data"], "result").to_vec()),
            _ => Err(answer["error"].to_string()),
        }
    }

    /// The labels of alerts that fire.
    fn alerts(&self) -> Vec<Value> {
        let firing = self.query("ALERTS{alertstate=\"firing\"}").unwrap_or_default();
        firing.into_iter().map(|mut alert| alert["metric"].take()).collect()
    }
}

#[test]
fn prometheus_wakes_somebody_where_a_member_is_lost_and_draws_every_panel() {
    or_skip!(programs(&["prometheus"]));
    let scene = Scene::new();
    let command = scene.command("drive sata-2011 --size 64m --nbd unix:far");
    let far =
        crate::support::served::Server::start(scene.folder().to_owned(), scene.path("far-stderr"), command);
    let mut far = far.ready();
    let uri = format!("nbd+unix:///?socket={}", scene.path("far").display());
    let volume = Volume::create(&scene, &format!("{FLAGS} --member near --member {uri} --destroy {uri}"));
    let server = volume.serve(TURNS);
    let prometheus = Prometheus::start(&scene, &address(&server));
    patiently("two scrapes", || {
        write(&volume.socket(), 0, &noise(1, 1 << 20));
        assert!(contents(&volume.socket())[..100] == noise(1, 1 << 20)[..100]);
        let scrapes = prometheus.query("count_over_time(evenkeel_failed[5m])").ok()?;
        let count: u64 = scrapes.first()?["value"][1].as_str()?.parse().ok()?;
        (count > 2).then_some(())
    });
    assert_eq!(prometheus.alerts(), [] as [Value; 0], "all is well");
    let dashboard: Value = serde_json::from_str(&text("grafana-dashboard.json")).unwrap();
    for query in queries(&dashboard) {
        let filled = query.replace("$job", ".*").replace("$instance", ".*").replace("$__rate_interval", "1m");
        let found = prometheus.query(&filled).unwrap_or_else(|error| panic!("{error}: {query}"));
        assert!(!found.is_empty(), "nothing to draw: {query}");
    }
    far.kill();
    let alert = patiently("the alert", || prometheus.alerts().into_iter().next());
    assert_eq!(alert["alertname"], "EvenkeelMemberLost", "{alert}");
    assert_eq!((alert["member"].as_str(), alert["path"].as_str()), (Some("1"), Some(uri.as_str())));
    server.stop();
    patiently("the alert that nobody serves it", || {
        let pending = prometheus.query("ALERTS{alertname=\"EvenkeelDown\"}").unwrap_or_default();
        (!pending.is_empty()).then_some(())
    });
}
