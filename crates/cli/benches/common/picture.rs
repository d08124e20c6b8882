//! Figures of several file systems as an SVG that stands alone, in light and dark.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const LEFT: f64 = 200.0;
const RIGHT: f64 = 640.0;
const LEFT_OF_LEGEND: f64 = 20.0;
/// About as wide as a character of the legend is.
const CHARACTER: f64 = 7.0;
const BAR: f64 = 14.0;
const GAP: f64 = 16.0;
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// What is drawn.
#[derive(Debug)]
pub(crate) struct Chart<'a> {
    /// For who cannot see it.
    pub(crate) about: &'a str,
    /// A colour each.
    pub(crate) names: &'a [&'a str],
    /// A group of bars each.
    pub(crate) rows: &'a [String],
}

/// A bar for each name in each row, as long as `value` of both in milliseconds, on a logarithmic axis; none where that is not a
/// number.
pub(crate) fn bars_ms(chart: &Chart<'_>, value: impl Fn(usize, usize) -> f64) -> String {
    let Chart { about, names, rows } = *chart;
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let (mut least, mut most) = (0.0_f64, 0.0_f64);
    for row in 0..rows.len() {
        let decades = (0..names.len()).map(|name| value(name, row).log10()).filter(|it| it.is_finite());
        (least, most) = decades.fold((least, most), |(least, most), it| (least.min(it), most.max(it)));
    }
    let (least, most) = (least.floor(), most.ceil());
    let place_of = |ms: f64| LEFT + (ms.log10() - least) / (most - least).max(1.0) * (RIGHT - LEFT);
    let block = BAR * names.len() as f64 + GAP;
    let height = 70.0 + block * rows.len() as f64;
    let in_legend = |name: &str| 36.0 + CHARACTER * name.len() as f64;
    let legend: f64 = names.iter().map(|name| in_legend(name)).sum();
    let whole_width = WIDTH.max(LEFT_OF_LEGEND + legend);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {whole_width} {height}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"13\" role=\"img\" aria-label=\"{about}\">\n\
         <style>text {{ fill: #222 }} line {{ stroke: #bbb }} @media (prefers-color-scheme: dark) {{ text {{ fill: #ddd }} \
         line {{ stroke: #555 }} }}</style>\n"
    );
    let mut put = |line: String| {
        let _a_string_takes_all = writeln!(svg, "{line}");
    };
    let mut decade = least;
    while decade <= most {
        let (x, ms) = (place_of(10f64.powf(decade)), 10f64.powf(decade));
        put(format!("<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"34\" y2=\"{:.1}\"/>", height - 26.0));
        put(format!("<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{ms} ms</text>", height - 8.0));
        decade += 1.0;
    }
    let mut x = LEFT_OF_LEGEND;
    for (place, name) in names.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        put(format!("<rect x=\"{x}\" y=\"10\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"));
        put(format!("<text x=\"{}\" y=\"21\">{}</text>", x + 18.0, escaped(name)));
        x += in_legend(name);
    }
    for (row, text) in rows.iter().enumerate() {
        let top = 40.0 + block * row as f64;
        let middle = top + BAR * names.len() as f64 / 2.0 + 4.0;
        put(format!(
            "<text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 10.0,
            escaped(text)
        ));
        for name in 0..names.len() {
            let (ms, y) = (value(name, row), top + BAR * name as f64);
            if !ms.log10().is_finite() {
                continue;
            }
            let colour = COLOURS[name % COLOURS.len()];
            let width = (place_of(ms) - LEFT).max(1.0);
            put(format!(
                "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{colour}\"/>",
                BAR - 2.0
            ));
            let digits = if ms < 10.0 { 2 } else { 0 };
            put(format!("<text x=\"{:.1}\" y=\"{:.1}\">{ms:.digits$}</text>", LEFT + width + 5.0, y + 11.0));
        }
    }
    svg + "</svg>\n"
}
