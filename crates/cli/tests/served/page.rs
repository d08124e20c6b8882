//! The page of a served volume in a browser: figures come, members are drawn, names of files are text and nothing else.

use std::process::{Command, Stdio};

use crate::support::load::{contents, write};
use crate::support::served::{Server, Volume, noise, patiently};
use crate::support::{Scene, or_skip};

/// The browser's name, if there is one.
fn browser() -> Result<&'static str, String> {
    let runs = |program: &&str| {
        let version =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.into_iter().find(runs).ok_or_else(|| "no chromium".to_owned())
}

/// What becomes of the page of `server` in a browser of this width, after some seconds; and what its scripts complain of.
fn opened(program: &str, server: &Server, width: u32) -> (String, String) {
    let keeps = tempfile::tempdir().unwrap();
    let output = Command::new(program)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--no-first-run",
        ])
        .args(["--enable-logging=stderr", "--dump-dom", "--virtual-time-budget=8000"])
        .arg(format!("--window-size={width},900"))
        .arg(format!("--user-data-dir={}", keeps.path().display()))
        .arg(server.told("page: "))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let complaints = said.lines().filter(|line| line.contains("CONSOLE"));
    (String::from_utf8(output.stdout).unwrap(), complaints.collect::<Vec<_>>().join("\n"))
}

/// The text between the tag of the element with this id and the next tag.
#[track_caller]
fn text_of<'a>(dom: &'a str, id: &str) -> &'a str {
    let at = dom.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id} in {dom}"));
    dom[at..].split_once('>').unwrap().1.split('<').next().unwrap().trim()
}

#[test]
fn figures_come_to_the_page_and_members_are_drawn() {
    let program = or_skip!(browser());
    let scene = Scene::new();
    // What a name of a file does to a page that takes it for markup.
    let member = "<img src=x onerror=alert(1)>";
    let mut create =
        scene.command("create disk --layout mirror --size 32m --log-size 16m --buffer 8m --member one");
    let created = create.args(["--member", member]).output().unwrap();
    assert!(created.status.success(), "{created:?}");
    let volume = Volume { scene: &scene };
    let server = volume.serve("--http 127.0.0.1:0");
    write(&volume.socket(), 0, &noise(1, 1 << 20));
    assert!(contents(&volume.socket())[..1 << 20] == noise(1, 1 << 20));
    for width in [390, 1280] {
        let dom = patiently("a page that shows figures", || {
            let (dom, complaints) = opened(program, &server, width);
            assert_eq!(complaints, "", "its scripts failed");
            (text_of(&dom, "link") == "updated every second").then_some(dom)
        });
        assert_eq!((text_of(&dom, "state"), text_of(&dom, "path")), ("ok", "disk"));
        assert!(dom.contains("layout mirror, served for"), "{dom}");
        let ring = dom.split("id=\"ring\"").nth(1).unwrap().split("</svg>").next().unwrap();
        assert_eq!(ring.matches("<path").count(), 2, "an arc for each member");
        assert!(
            dom.contains("&lt;img src=x onerror=alert(1)&gt;") && !dom.contains("<img"),
            "a name is text"
        );
        assert!(dom.contains("<td>ready</td>"), "the event is in the table");
        assert!(!dom.contains("aria-label=\"\""), "{dom}");
        for chart in ["bands", "heat", "batches", "log", "turns"] {
            let tag = dom.split(&format!("id=\"{chart}\"")).nth(1).unwrap().split('>').next().unwrap();
            assert!(tag.contains("aria-label=") && tag.contains("width="), "{chart} is not drawn: {tag}");
        }
    }
    server.stop();
}

#[test]
fn a_conversion_is_shown_as_long_as_it_is_under_way() {
    let program = or_skip!(browser());
    let scene = Scene::new();
    let volume = Volume::create(&scene, "--size 8m --log-size 4m --buffer 1m");
    let server = volume.serve("--http 127.0.0.1:0 --rebuild-rate 64KiB");
    write(&volume.socket(), 0, &noise(2, 8 << 20));
    let card = |dom: &str| {
        dom.split("id=\"conversion-card\"").nth(1).unwrap().split("</section>").next().unwrap().to_owned()
    };
    let shown = |what: &str, is_there: &dyn Fn(&str) -> bool| {
        patiently(what, || {
            let (dom, complaints) = opened(program, &server, 390);
            assert_eq!(complaints, "", "its scripts failed");
            (text_of(&dom, "link") == "updated every second" && is_there(&card(&dom))).then_some(())
        });
    };
    shown("a page without a conversion", &|card| card.split('>').next().unwrap().contains("hidden"));
    let mut converting =
        scene.command("convert disk --layout mirror --log-size 8m").stderr(Stdio::null()).spawn().unwrap();
    shown("a conversion on the page", &|card| card.contains("copying: ") && card.contains(" of 8 MiB"));
    server.stop();
    assert_eq!(converting.wait().unwrap().code(), Some(2));
}
