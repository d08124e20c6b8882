//! The page's files: they are part of the program, and nothing else is sent.

/// The path of each, what it is, and its text.
const FILES: [(&str, &str, &str); 6] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/main.js", SCRIPT, include_str!("page/main.js")),
    ("/charts.js", SCRIPT, include_str!("page/charts.js")),
    ("/ring.js", SCRIPT, include_str!("page/ring.js")),
    ("/format.js", SCRIPT, include_str!("page/format.js")),
];

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What the file at a path is, and its text; `None` where there is none.
pub(super) fn file(path: &str) -> Option<(&'static str, &'static str)> {
    FILES.iter().find(|(of, ..)| *of == path).map(|(_, content_type, text)| (*content_type, *text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(path: &str) -> &'static str {
        file(path).unwrap_or_else(|| panic!("no {path}")).1
    }

    /// What stands between `start` and the next quotation mark, each time.
    fn quoted<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
        text.split(start).skip(1).filter_map(|rest| rest.split('"').next())
    }

    #[test]
    fn the_page_loads_what_there_is_and_nothing_from_elsewhere() {
        for (path, _, text) in FILES {
            // The name of a dialect of XML is no address that is loaded.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for elsewhere in ["http:", "https:", "//cdn", "url(", "@import", "src=\"data"] {
                assert!(!text.contains(elsewhere), "{path} has {elsewhere}");
            }
        }
        let html = text_of("/");
        for target in quoted(html, "src=\"").chain(quoted(html, "href=\"")).filter(|it| it.starts_with("/")) {
            let is_document = ["/status.json", "/history.json", "/metrics"].contains(&target);
            assert!(is_document || file(target).is_some(), "nothing is at {target}");
        }
        for (path, ..) in FILES.iter().filter(|(path, ..)| path.ends_with(".js")) {
            for module in quoted(text_of(path), "from \"") {
                text_of(module.strip_prefix('.').unwrap());
            }
        }
    }

    #[test]
    fn no_text_of_a_volume_becomes_markup_and_no_script_stands_in_the_page() {
        for (path, _, text) in FILES {
            for way in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "DOMParser",
            ] {
                assert!(!text.contains(way), "{path} has {way}");
            }
        }
        // The policy would refuse them.
        let html = text_of("/");
        assert!(!html.contains("style=") && !html.contains("<style") && !html.contains(" onclick"));
        assert_eq!(html.matches("<script").count(), html.matches("<script type=\"module\" src=").count());
    }

    #[test]
    fn each_element_that_scripts_look_for_is_in_the_page() {
        let (html, mut tried) = (text_of("/"), 0);
        for id in quoted(text_of("/main.js"), "by(\"") {
            assert!(html.contains(&format!("id=\"{id}\"")), "no {id}");
            tried += 1;
        }
        assert!(tried > 20, "{tried} elements");
    }
}
