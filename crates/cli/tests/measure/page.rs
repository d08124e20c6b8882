//! The page of a probe in a browser.

use std::process::{Command, Stdio};

use crate::support::{Scene, list, or_skip, skip};

const PROBE: &str = "probe data --sizes 256k..2m --runs 2";

/// A browser without a window, and a folder of its own for what it keeps.
struct Browser<'a> {
    program: &'static str,
    scene: &'a Scene,
}

impl<'a> Browser<'a> {
    fn find(scene: &'a Scene) -> Result<Self, String> {
        let runs = |program: &&str| {
            let version =
                Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            version.is_ok_and(|status| status.success())
        };
        let names = ["chromium", "chromium-browser", "google-chrome"];
        match names.into_iter().find(runs) {
            Some(program) => Ok(Self { program, scene }),
            None => Err("no chromium".to_owned()),
        }
    }

    /// Opens a file of the scene with further flags; answers what the browser prints.
    fn open(&self, name: &str, flags: &[&str]) -> String {
        let keeps = tempfile::tempdir_in(self.scene.folder()).unwrap();
        let output = Command::new(self.program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--no-first-run",
            ])
            .arg(format!("--user-data-dir={}", keeps.path().display()))
            .args(flags)
            .arg(format!("file://{}", self.scene.path(name).display()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A picture of the page as a reader who prefers a scheme sees it.
    fn picture(&self, page: &str, scheme: &[&str], name: &str) -> Vec<u8> {
        let target = format!("--screenshot={}", self.scene.path(name).display());
        let flags = [&["--window-size=1200,900", target.as_str()], scheme].concat();
        self.open(page, &flags);
        self.scene.bytes(name)
    }
}

/// Width and height of a picture, from its first chunk.
fn png_size(png: &[u8]) -> (u32, u32) {
    assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

/// A size of a whole number of KiB, as people read it.
fn shown(bytes: u64) -> String {
    match bytes {
        1_048_576.. => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
}

#[test]
fn the_page_shows_the_recommended_size_its_charts_and_a_row_a_size() {
    let scene = Scene::new();
    let browser = or_skip!(Browser::find(&scene));
    scene.done(PROBE);
    let report = scene.json("probe.json");
    let chosen = shown(report["recommendation"]["buffer_bytes"].as_u64().unwrap());
    let dom = browser.open("probe.html", &["--dump-dom"]);
    assert!(dom.contains(&format!("<h1>Use a buffer of {chosen}</h1>")), "{dom}");
    let charts = dom.split("<figure").skip(1);
    let drawn = charts.filter(|figure| figure.split("</figure>").next().unwrap().contains("<svg"));
    // Three by size, then the distribution of latency and the runs over time.
    assert_eq!(drawn.count(), 5);
    let numbers = dom.split("<table class=\"numbers\">").nth(1).unwrap();
    let body = numbers.split("<tbody>").nth(1).unwrap().split("</tbody>").next().unwrap();
    assert_eq!(body.matches("<tr").count(), list(&report, "points").len());
    for point in list(&report, "points") {
        let size = shown(point["buffer_bytes"].as_u64().unwrap());
        assert!(body.contains(&format!("<th scope=\"row\">{size}</th>")), "{body}");
    }
    // The page's own scripts ran: they show what they alone can serve.
    let opening = |tag: &str, class: &str| -> Vec<String> {
        let tags = dom.split(tag).skip(1).map(|rest| rest.split('>').next().unwrap().to_owned());
        tags.filter(|tag| tag.contains(class)).collect()
    };
    for (tag, class, many) in [("<button", "class=\"copy\"", 2), ("<select", "class=\"sizes\"", 1)] {
        let found = opening(tag, class);
        assert_eq!(found.len(), many, "{class}");
        assert!(found.iter().all(|tag| !tag.contains("hidden")), "{found:?}");
    }
    // Of the distributions, that of the recommended size is shown.
    let sizes = opening("<div", "data-size=");
    assert_eq!(sizes.len(), list(&report, "points").len());
    let shown: Vec<_> = sizes.iter().filter(|tag| !tag.contains("hidden")).collect();
    let chosen = report["recommendation"]["buffer_bytes"].to_string();
    assert!(shown.len() == 1 && shown[0].contains(&format!("data-size=\"{chosen}\"")), "{shown:?}");
}

/// Presses the buttons under the first chart and under the distribution of latency, and writes down what would be kept.
const KEEP: &str = r#"<p id="kept"></p><script>
const make = URL.createObjectURL.bind(URL);
const blobs = new Map();
URL.createObjectURL = (blob) => { const url = make(blob); blobs.set(url, blob); return url; };
HTMLAnchorElement.prototype.click = function () {
  blobs.get(this.href).arrayBuffer().then((bytes) => {
    const text = new TextDecoder("latin1").decode(bytes);
    const facts = [this.download, text.slice(0, 4).trim(), text.includes("var(--"), text.includes("xmlns=")];
    document.getElementById("kept").textContent += `[${facts.join(" ")}]`;
  });
};
for (const place of [0, 3]) {
  for (const button of document.querySelectorAll("figure")[place].querySelectorAll("[class=keep] button")) button.click();
}
</script></body>"#;

#[test]
fn each_chart_can_be_kept_as_svg_and_as_png() {
    let scene = Scene::new();
    let browser = or_skip!(Browser::find(&scene));
    scene.done("probe data --sizes 256k --runs 2");
    let page = String::from_utf8(scene.bytes("probe.html")).unwrap();
    std::fs::write(scene.path("keep.html"), page.replace("</body>", KEEP)).unwrap();
    let dom = browser.open("keep.html", &["--virtual-time-budget=20000", "--dump-dom"]);
    let kept = dom.split("id=\"kept\">").nth(1).unwrap().split("</p>").next().unwrap();
    // Alone, an SVG needs its namespace, and no colour of the page's style sheet.
    for name in ["throughput-against-buffer-size-logarithmic-axes", "latency-of-single-writes-of-256-kib"] {
        assert!(kept.contains(&format!("[{name}.svg &lt;svg false true]")), "{kept}");
        assert!(kept.contains(&format!("[{name}.png \u{2030}PNG false false]")), "{kept}");
    }
    assert!(kept.matches('[').count() >= 4, "{kept}");
}

#[test]
fn the_page_has_a_picture_in_a_light_and_in_a_dark_scheme() {
    const ASK: &str = "<!DOCTYPE html><p id=x></p><script>x.textContent = 'prefers ' + \
                       (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')</script>";
    const NAME: &str = "the_page_has_a_picture_in_a_light_and_in_a_dark_scheme";
    let scene = Scene::new();
    let browser = or_skip!(Browser::find(&scene));
    std::fs::write(scene.path("ask.html"), ASK).unwrap();
    let (light, dark) =
        (["--blink-settings=preferredColorScheme=1"], ["--blink-settings=preferredColorScheme=0"]);
    for (scheme, name) in [(light, ">prefers light<"), (dark, ">prefers dark<")] {
        let answer = browser.open("ask.html", &[&["--dump-dom"], &scheme[..]].concat());
        if !answer.contains(name) {
            return skip(NAME, "this browser cannot be told a scheme");
        }
    }
    scene.done(PROBE);
    let in_light = browser.picture("probe.html", &light, "light.png");
    let in_dark = browser.picture("probe.html", &dark, "dark.png");
    for png in [&in_light, &in_dark] {
        assert_eq!(png_size(png), (1200, 900));
        // One colour alone takes some 5 kB.
        assert!(png.len() > 20_000, "{} bytes", png.len());
    }
    assert!(in_light != in_dark, "the page looks the same in both");
}
