//! A claim, what the rounds say of it, and how sure that is.

/// What the values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds.
    Micros,
    /// One divided by another.
    Ratio,
}

/// A bound on the median over rounds.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What is compared.
    pub text: String,
    /// In which unit.
    pub unit: Unit,
    /// One value for each round.
    pub values: Vec<f64>,
    /// Least and most that is allowed.
    pub within: (f64, f64),
}

/// What the rounds say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval lies within the bound.
    Holds,
    /// The whole interval lies outside.
    Fails,
    /// The interval straddles the bound, or there are too few rounds for one.
    Open,
}

impl Claim {
    /// What the rounds say.
    pub fn verdict(&self) -> Verdict {
        let (least, most) = self.within;
        match interval(&self.values) {
            Some((low, high)) if low >= least && high <= most => Verdict::Holds,
            Some((low, high)) if low > most || high < least => Verdict::Fails,
            _ => Verdict::Open,
        }
    }

    /// A row of the table of claims.
    pub fn row(&self) -> String {
        let Self { text, unit, within: (least, most), .. } = self;
        let show = |value: f64| match unit {
            Unit::Micros => format!("{value:.1} µs"),
            Unit::Ratio => format!("{value:.2}"),
        };
        let interval = match interval(&self.values) {
            Some((low, high)) => format!("{} – {}", show(low), show(high)),
            None => "too few rounds".to_owned(),
        };
        let bound = if least.is_finite() {
            format!("{} – {}", show(*least), show(*most))
        } else {
            format!("≤ {}", show(*most))
        };
        let verdict = match self.verdict() {
            Verdict::Holds => "holds",
            Verdict::Fails => "**does not hold**",
            Verdict::Open => "open",
        };
        format!(
            "| {text} | {} | {interval} | {bound} | {verdict} |",
            median(&self.values).map_or("–".into(), show)
        )
    }
}

/// `None` where there is no value.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Two order statistics that have the true median between them with a probability of at least 95 %, whatever the
/// distribution; `None` for fewer than six values, which have none.
pub fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let sorted = sorted(values);
    let n = sorted.len();
    // The chance that at most `i` of `n` values lie below the median is a sum of binomial terms.
    let mut term = 0.5f64.powi(i32::try_from(n).ok()?);
    let mut below = term;
    let mut rank = None;
    for i in 0..n / 2 {
        if below > 0.025 {
            break;
        }
        rank = Some(i);
        term *= (n - i) as f64 / (i + 1) as f64;
        below += term;
    }
    rank.map(|i| (sorted[i], sorted[n - 1 - i]))
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}
