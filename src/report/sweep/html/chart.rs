//! Charts as inline SVG: no script, no picture, nothing from elsewhere.

use std::fmt::Write;

use super::scale::Scale;
use crate::units::Escaped;

const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 62.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;
/// Labels nearer to each other than this are moved apart.
const LINE_HEIGHT: f64 = 13.0;
/// More points than this have no marks.
const MARKED: usize = 16;

/// An axis with what is written beside it.
pub(super) struct Axis {
    pub(super) scale: Scale,
    /// Values with their texts.
    pub(super) ticks: Vec<(f64, String)>,
    /// What it is, with its unit.
    pub(super) label: &'static str,
}

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// A line with its name at its end.
    Line,
    /// The same, dashed: not measured.
    Limit,
    /// Steps above the axis, filled.
    Area,
}

/// What is drawn.
pub(super) struct Series {
    /// Beside its end; empty: nothing is.
    pub(super) name: String,
    /// Its colour and mark: 0, 1 or 2.
    pub(super) colour: usize,
    pub(super) style: Style,
    pub(super) points: Vec<(f64, f64)>,
    /// From least to most at each of some values of x.
    pub(super) spans: Vec<(f64, f64, f64)>,
}

/// A chart.
pub(super) struct Chart {
    /// For those who cannot see it, and as tooltip.
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

impl Chart {
    /// As an `svg` element.
    pub(super) fn svg(&self) -> String {
        let mut text = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\"><title>{0}</title>",
            Escaped(&self.title)
        );
        self.axes(&mut text);
        for series in &self.series {
            self.draw(&mut text, series);
        }
        self.names(&mut text);
        text.push_str("</svg>");
        text
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.x.scale.at(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.scale.at(value) * (HEIGHT - TOP - BOTTOM)
    }

    fn axes(&self, text: &mut String) {
        let (end, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (value, name) in &self.y.ticks {
            let y = self.y(*value);
            let _ = write!(
                text,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{end}\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                Escaped(name)
            );
        }
        for (value, name) in &self.x.ticks {
            let x = self.x(*value);
            let _ = write!(
                text,
                "<text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
                floor + 17.0,
                Escaped(name)
            );
        }
        let _ = write!(
            text,
            "<path class=\"axis\" d=\"M{LEFT} {floor}H{end}\"/><text class=\"what\" x=\"{:.0}\" y=\"{:.0}\" \
             text-anchor=\"middle\">{}</text>",
            (LEFT + end) / 2.0,
            HEIGHT - 6.0,
            self.x.label
        );
    }

    fn draw(&self, text: &mut String, series: &Series) {
        let place = |(x, y): &(f64, f64)| (self.x(*x), self.y(*y));
        let path = match series.style {
            Style::Area => self.steps(&series.points),
            _ => series.points.iter().map(place).enumerate().fold(String::new(), |mut path, (at, (x, y))| {
                let _ = write!(path, "{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' });
                path
            }),
        };
        let class = match series.style {
            Style::Line => "line",
            Style::Limit => "line limit",
            Style::Area => "area",
        };
        let _ = write!(text, "<path class=\"{class} c{}\" d=\"{path}\"/>", series.colour);
        for (x, low, high) in &series.spans {
            let (x, low, high) = (self.x(*x), self.y(*low), self.y(*high));
            let _ =
                write!(text, "<path class=\"line c{}\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>", series.colour);
        }
        if series.style == Style::Line && series.points.len() <= MARKED {
            series.points.iter().map(place).for_each(|at| mark(text, series.colour, at));
        }
    }

    /// Each point is the left edge of a step, the last one the end.
    fn steps(&self, points: &[(f64, f64)]) -> String {
        let floor = HEIGHT - BOTTOM;
        let Some((first, last)) = points.first().zip(points.last()) else { return String::new() };
        let mut path = format!("M{:.1} {floor}", self.x(first.0));
        for pair in points.windows(2) {
            let _ = write!(path, "V{:.1}H{:.1}", self.y(pair[0].1), self.x(pair[1].0));
        }
        let _ = write!(path, "V{floor}H{:.1}", self.x(last.0));
        path
    }

    /// Names at the ends of lines, from top to bottom, moved apart where they would touch.
    fn names(&self, text: &mut String) {
        let named = self.series.iter().filter(|series| !series.name.is_empty());
        let mut ends: Vec<(f64, &Series)> =
            named.filter_map(|series| Some((self.y(series.points.last()?.1) + 4.0, series))).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        for at in 1..ends.len() {
            ends[at].0 = ends[at].0.max(ends[at - 1].0 + LINE_HEIGHT);
        }
        // What was pushed below the axis pushes the others back up.
        let mut lowest = HEIGHT - BOTTOM + 4.0;
        for end in ends.iter_mut().rev() {
            end.0 = end.0.min(lowest);
            lowest = end.0 - LINE_HEIGHT;
        }
        for (y, series) in ends {
            let x = series.points.last().map_or(0.0, |point| self.x(point.0)) + 7.0;
            let _ = write!(
                text,
                "<text class=\"name t{}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
                series.colour,
                Escaped(&series.name)
            );
        }
    }
}

/// A mark of its own for each colour, for those who cannot tell them apart.
fn mark(text: &mut String, colour: usize, (x, y): (f64, f64)) {
    let _ = match colour {
        0 => write!(text, "<circle class=\"mark t0\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"),
        1 => write!(
            text,
            "<rect class=\"mark t1\" x=\"{:.1}\" y=\"{:.1}\" width=\"6\" height=\"6\"/>",
            x - 3.0,
            y - 3.0
        ),
        n => write!(text, "<path class=\"mark t{n}\" d=\"M{:.1} {:.1}l4 7h-8z\"/>", x, y - 4.5),
    };
}

/// One bar with what is written before and after it.
pub(super) struct Bar {
    pub(super) before: String,
    pub(super) after: String,
    pub(super) value: f64,
    pub(super) colour: usize,
}

/// Bars below each other, in groups with a title each, all on one scale from 0. `title` is for those who cannot see it.
pub(super) fn bars(title: &str, groups: &[(String, Vec<Bar>)]) -> String {
    const ROW: f64 = 20.0;
    const HEAD: f64 = 22.0;
    const NAME: f64 = 62.0;
    const AFTER: f64 = 72.0;
    let rows: usize = groups.iter().map(|(_, bars)| bars.len()).sum();
    let height = groups.len() as f64 * (HEAD + 8.0) + rows as f64 * ROW;
    let scale =
        Scale::up_to(groups.iter().flat_map(|(_, bars)| bars).map(|bar| bar.value).fold(0.0, f64::max));
    let mut text = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{0}\"><title>{0}</title>",
        Escaped(title)
    );
    let mut y = 0.0;
    for (name, bars) in groups {
        y += HEAD;
        let _ = write!(text, "<text class=\"head\" x=\"0\" y=\"{:.1}\">{}</text>", y - 6.0, Escaped(name));
        for bar in bars {
            let long = (scale.at(bar.value) * (WIDTH - NAME - AFTER)).max(1.0);
            let _ = write!(
                text,
                "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text><rect class=\"bar t{}\" x=\"{NAME}\" \
                 y=\"{:.1}\" width=\"{long:.1}\" height=\"13\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                NAME - 6.0,
                y + 11.0,
                Escaped(&bar.before),
                bar.colour,
                y + 0.5,
                NAME + long + 5.0,
                y + 11.0,
                Escaped(&bar.after)
            );
            y += ROW;
        }
        y += 8.0;
    }
    text.push_str("</svg>");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale) -> Axis {
        let ticks = scale.ticks().into_iter().map(|tick| (tick, tick.to_string())).collect();
        Axis { scale, ticks, label: "x" }
    }

    fn line(name: &str, colour: usize, points: &[(f64, f64)]) -> Series {
        Series { name: name.into(), colour, style: Style::Line, points: points.to_vec(), spans: Vec::new() }
    }

    fn heights_of_names(svg: &str) -> Vec<f64> {
        svg.split("class=\"name")
            .skip(1)
            .map(|rest| {
                let y = rest.split(" y=\"").nth(1).unwrap();
                y.split('"').next().unwrap().parse().unwrap()
            })
            .collect()
    }

    #[test]
    fn names_of_lines_that_end_together_do_not_touch() {
        let at = |y| [(1.0, 10.0), (64.0, y)];
        let series = vec![line("a", 0, &at(11.0)), line("b", 1, &at(11.0)), line("c", 2, &at(10.5))];
        let (x, y) = (axis(Scale::log([1.0, 64.0])), axis(Scale::log([10.0, 1000.0])));
        let svg = Chart { title: "t".into(), x, y, series }.svg();
        let heights = heights_of_names(&svg);
        assert_eq!(heights.len(), 3);
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= LINE_HEIGHT - 0.1), "{heights:?}");
        assert!(heights.iter().all(|y| *y <= HEIGHT - BOTTOM + 5.0));
    }

    #[test]
    fn texts_are_escaped_and_nothing_is_not_a_number() {
        let series = vec![line("<b>&", 0, &[(0.0, f64::NAN), (f64::INFINITY, -1.0)])];
        let (x, y) = (axis(Scale::log([])), axis(Scale::from_zero([])));
        let svg = Chart { title: "\"><script>".into(), x, y, series }.svg();
        assert!(!svg.contains("<b>") && !svg.contains("<script>") && svg.contains("&lt;b&gt;&amp;"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let bar = Bar { before: "<i>".into(), after: String::new(), value: 0.0, colour: 0 };
        let svg = bars("t", &[("<u>".into(), vec![bar])]);
        assert!(!svg.contains("<i>") && !svg.contains("<u>") && !svg.contains("NaN"));
    }
}
