//! Under which conditions the cells of a side were run, in words that are alike where the conditions are.

/// A fact: its name and what it is.
pub(super) type Fact = Option<(String, String)>;

/// From the least to the most of some seconds, without the digits in which two runs always differ.
pub(super) fn span(name: &str, seconds: impl Iterator<Item = f64>) -> Fact {
    let (least, most) = seconds
        .map(|seconds| seconds.max(0.0))
        .fold((f64::INFINITY, 0.0f64), |(least, most), s| (least.min(s), most.max(s)));
    let short = |seconds: f64| match seconds {
        // A cell ends with its last operation, a little after its time.
        long if long >= 10.0 => format!("{:.0}", (long / 5.0).round() * 5.0),
        short if short >= 1.0 => format!("{short:.0}"),
        less => format!("{less:.1}"),
    };
    let value = if short(least) == short(most) {
        short(most)
    } else {
        format!("{} to {}", short(least), short(most))
    };
    least.is_finite().then(|| (name.to_owned(), value))
}

/// All that occur, each once.
pub(super) fn list(name: &str, all: impl Iterator<Item = String>) -> Fact {
    let mut all: Vec<String> = all.collect();
    all.sort_unstable();
    all.dedup();
    (!all.is_empty()).then(|| (name.to_owned(), all.join(", ")))
}
