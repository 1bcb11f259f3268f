//! A reader of Prometheus' text format 0.0.4, written apart from our writer so that one can judge the other.

use std::collections::BTreeMap;

/// One line with a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The series' name, with `_bucket`, `_sum`, `_count` where it has one.
    pub name: String,
    /// Labels, unescaped.
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: f64,
}

/// One scrape.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// The text as it came.
    pub text: String,
    /// Every sample in the order of the text.
    pub samples: Vec<Sample>,
    /// Family → counter, gauge, histogram, …
    pub kinds: BTreeMap<String, String>,
    /// Family → help text.
    pub help: BTreeMap<String, String>,
}

/// A classic histogram at one instant, or what was added between two.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Upper bound → cumulative count, rising, the last bound infinite.
    pub buckets: Vec<(f64, f64)>,
    /// Sum of what was observed.
    pub sum: f64,
    /// Number of observations.
    pub count: f64,
}

impl Metrics {
    /// Reads a scrape; an error names the line that is not the format.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut metrics = Self { text: text.to_owned(), ..Self::default() };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(comment) = line.strip_prefix('#') {
                metrics.comment(comment.trim_start());
            } else {
                metrics.samples.push(sample(line).ok_or_else(|| format!("not a sample: {line}"))?);
            }
        }
        Ok(metrics)
    }

    fn comment(&mut self, comment: &str) {
        let mut words = comment.splitn(3, ' ');
        if let (Some(word), Some(family), Some(rest)) = (words.next(), words.next(), words.next()) {
            match word {
                "TYPE" => drop(self.kinds.insert(family.to_owned(), rest.to_owned())),
                "HELP" => drop(self.help.insert(family.to_owned(), rest.to_owned())),
                _ => {}
            }
        }
    }

    /// Samples of this name that carry at least these labels.
    pub fn all(&self, name: &str, labels: &[(&str, &str)]) -> Vec<&Sample> {
        self.samples.iter().filter(|s| s.name == name && s.carries(labels)).collect()
    }

    /// The one such sample's value; none if there is none. Panics if there are several.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let found = self.all(name, labels);
        assert!(found.len() < 2, "{name}{labels:?} is not one series: {found:?}");
        found.first().map(|sample| sample.value)
    }

    /// The sum over all such samples; 0 if there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.all(name, labels).iter().map(|sample| sample.value).sum()
    }

    /// The histogram of this family with at least these labels, series with further labels added up.
    pub fn histogram(&self, family: &str, labels: &[(&str, &str)]) -> Option<Histogram> {
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for sample in self.all(&format!("{family}_bucket"), labels) {
            let bound = number(sample.labels.get("le")?)?;
            match buckets.iter_mut().find(|(le, _)| *le == bound) {
                Some((_, count)) => *count += sample.value,
                None => buckets.push((bound, sample.value)),
            }
        }
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (sum, count) = (format!("{family}_sum"), format!("{family}_count"));
        (!buckets.is_empty()).then(|| Histogram {
            buckets,
            sum: self.sum(&sum, labels),
            count: self.sum(&count, labels),
        })
    }
}

impl Sample {
    fn carries(&self, labels: &[(&str, &str)]) -> bool {
        labels.iter().all(|(name, value)| self.labels.get(*name).is_some_and(|have| have == value))
    }
}

impl Histogram {
    /// What was added since an earlier scrape of the same histogram.
    pub fn since(&self, earlier: &Self) -> Self {
        let before =
            |bound: f64| earlier.buckets.iter().find(|(le, _)| *le == bound).map_or(0.0, |(_, n)| *n);
        Self {
            buckets: self.buckets.iter().map(|(le, n)| (*le, n - before(*le))).collect(),
            sum: self.sum - earlier.sum,
            count: self.count - earlier.count,
        }
    }

    /// The bucket that holds the quantile: its lower and upper bound. None if nothing was observed.
    pub fn quantile_bucket(&self, quantile: f64) -> Option<(f64, f64)> {
        let rank = quantile * self.count;
        let at = self.buckets.iter().position(|(_, count)| *count >= rank && *count > 0.0)?;
        let lower = if at == 0 { 0.0 } else { self.buckets[at - 1].0 };
        Some((lower, self.buckets[at].0))
    }

    /// The quantile by linear interpolation inside its bucket, as `histogram_quantile` does it.
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        let (lower, upper) = self.quantile_bucket(quantile)?;
        if upper.is_infinite() {
            return Some(lower);
        }
        let below = self.buckets.iter().rfind(|(le, _)| *le <= lower && *le < upper).map_or(0.0, |(_, n)| *n);
        let upto = self.buckets.iter().find(|(le, _)| *le == upper).map_or(below, |(_, n)| *n);
        let share = (quantile * self.count - below) / (upto - below);
        Some(lower + (upper - lower) * share.clamp(0.0, 1.0))
    }
}

fn sample(line: &str) -> Option<Sample> {
    let split = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(split);
    let mut labels = BTreeMap::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            inside = inside.trim_start_matches([',', ' ']);
            if let Some(after) = inside.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, value) = inside.split_once("=\"")?;
            let (value, after) = unescape(value)?;
            labels.insert(label.trim().to_owned(), value);
            inside = after;
        }
    }
    let value = number(rest.split_whitespace().next()?)?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// The text up to the closing quote, and what follows it.
fn unescape(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            c => value.push(c),
        }
    }
    None
}

fn number(text: &str) -> Option<f64> {
    match text {
        "+Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        text => text.parse().ok(),
    }
}
