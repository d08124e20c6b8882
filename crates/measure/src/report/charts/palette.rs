//! The colours of the charts: each part is drawn in a colour of its own that nothing else uses, then named
//! as a variable of the page's style sheet, so that one drawing serves light and dark.

use plotters::style::RGBColor;

/// Distinct colours for series; the style sheet defines `--series-0` and so on.
const SERIES: u8 = 6;

/// What a stroke or a filled shape stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    /// Labels of the axes.
    Text,
    /// The axes themselves.
    Axis,
    /// Lines of the grid.
    Grid,
    /// What lies behind the chart.
    Card,
    /// One of the three phases, from 0.
    Phase(u8),
    /// The fitted line.
    Model,
    /// The recommended buffer.
    Mark,
    /// Measured figures, by their place among the series.
    Series(usize),
}

impl Ink {
    fn code(self) -> u8 {
        match self {
            Self::Text => 0,
            Self::Axis => 1,
            Self::Grid => 2,
            Self::Card => 3,
            Self::Model => 4,
            Self::Mark => 5,
            Self::Phase(which) => 10 + which % 3,
            Self::Series(at) => 20 + (at % usize::from(SERIES)) as u8,
        }
    }

    fn variable(self) -> String {
        match self {
            Self::Text => "--muted".to_owned(),
            Self::Axis => "--axis".to_owned(),
            Self::Grid => "--grid".to_owned(),
            Self::Card => "--card".to_owned(),
            Self::Model => "--model".to_owned(),
            Self::Mark => "--mark".to_owned(),
            Self::Phase(which) => format!("--phase-{}", which % 3),
            Self::Series(at) => format!("--series-{}", at % usize::from(SERIES)),
        }
    }

    /// The colour that stands for this ink until [`name_colours`].
    pub(crate) fn sentinel(self) -> RGBColor {
        RGBColor(1, 0, self.code())
    }
}

/// Puts the style sheet's variables in place of the sentinels.
pub(crate) fn name_colours(svg: &str) -> String {
    let plain = [Ink::Text, Ink::Axis, Ink::Grid, Ink::Card, Ink::Model, Ink::Mark];
    let numbered = (0..3).map(Ink::Phase).chain((0..usize::from(SERIES)).map(Ink::Series));
    plain.into_iter().chain(numbered).fold(svg.to_owned(), |text, ink| {
        // Quoted, so that only attributes can match: a quote in text is escaped.
        let RGBColor(red, green, blue) = ink.sentinel();
        text.replace(&format!("\"#{red:02X}{green:02X}{blue:02X}\""), &format!("\"var({})\"", ink.variable()))
    })
}

/// The shape drawn at a measured figure; with the colour it tells up to 36 series apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    Up,
    Diamond,
    Down,
    Cross,
}

impl Marker {
    /// The marker of a series by its place; shifts by one each time the colours begin again.
    pub(crate) fn of(series: usize) -> Self {
        const ALL: [Marker; 6] =
            [Marker::Circle, Marker::Square, Marker::Up, Marker::Diamond, Marker::Down, Marker::Cross];
        ALL[(series + series / usize::from(SERIES)) % ALL.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_36_series_look_the_same() {
        let looks: Vec<_> = (0..36).map(|at| (Ink::Series(at).variable(), Marker::of(at))).collect();
        for (at, look) in looks.iter().enumerate() {
            assert!(!looks[..at].contains(look), "series {at} looks like an earlier one");
        }
    }

    #[test]
    fn sentinels_become_variables_and_text_stays() {
        let named = name_colours("<line stroke=\"#010004\"/><text fill=\"#010000\">#010004</text>");
        assert_eq!(named, "<line stroke=\"var(--model)\"/><text fill=\"var(--muted)\">#010004</text>");
    }
}
