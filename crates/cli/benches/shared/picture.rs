//! The neighbour's figures as an SVG that stands alone, in light and dark.

use std::fmt::Write as _;

use crate::median;
use crate::neighbour::Measured;

const WIDTH: f64 = 720.0;
const LEFT: f64 = 200.0;
const RIGHT: f64 = 640.0;
const BAR: f64 = 14.0;
const GAP: f64 = 16.0;
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// A bar for each file system under each load: the median over the rounds of the 99th percentile, on a logarithmic axis.
pub(crate) fn of_p99(names: &[&str], loads: &[String], all: &[Vec<Vec<Measured>>]) -> String {
    let value = |place: usize, load: usize| {
        median(&all[place][load].iter().map(|it| it.p99_s).collect::<Vec<f64>>()) * 1e3
    };
    let values = || (0..names.len()).flat_map(|place| (0..loads.len()).map(move |load| value(place, load)));
    let most = values().fold(1.0_f64, f64::max).log10().ceil();
    let least = values().fold(1.0_f64, f64::min).log10().floor();
    let place_of = |ms: f64| LEFT + (ms.log10() - least) / (most - least).max(1.0) * (RIGHT - LEFT);
    let block = BAR * names.len() as f64 + GAP;
    let height = 70.0 + block * loads.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"13\" role=\"img\" aria-label=\"99th percentile of a 1 KiB append with fdatasync\">\n\
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
    for (place, name) in names.iter().enumerate() {
        let x = LEFT + 110.0 * place as f64;
        let colour = COLOURS[place % COLOURS.len()];
        put(format!("<rect x=\"{x}\" y=\"10\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"));
        put(format!("<text x=\"{}\" y=\"21\">{name}</text>", x + 18.0));
    }
    for (load, text) in loads.iter().enumerate() {
        let top = 40.0 + block * load as f64;
        let middle = top + BAR * names.len() as f64 / 2.0 + 4.0;
        put(format!("<text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{text}</text>", LEFT - 10.0));
        for place in 0..names.len() {
            let (ms, y) = (value(place, load), top + BAR * place as f64);
            let colour = COLOURS[place % COLOURS.len()];
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
