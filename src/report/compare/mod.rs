//! Two results side by side, cell by cell: what got worse, what got better, and how sure that is. What a result is made of, is told by
//! `sweep` (our own) and `fio`; whether a difference is more than chance, by `stats::compare`.

mod conditions;
mod cost;
mod fio;
mod sweep;
mod table;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::probe::sweep::{Operation, SCHEMA_VERSION};
use crate::stats::compare::{Change, Figure, Run, Scatter, Verdict, change, judge};

pub use cost::Cost;
pub use table::table;

/// What is compared with its like: one stream of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Key {
    /// What is done: ours, or what fio does that none of ours is.
    pub pattern: String,
    /// Bytes of an operation of the cell.
    pub block_size: u64,
    /// Outstanding in each job.
    pub depth: u32,
    /// Threads, or committers.
    pub jobs: u32,
    /// What makes commits durable.
    pub method: Option<String>,
    /// Whose durations.
    pub operation: Operation,
}

/// A stream of a cell of one side.
#[derive(Clone, Debug)]
struct Stream {
    run: Run,
    /// Nanoseconds, as the side states them.
    p50: Option<u64>,
    p99: Option<u64>,
    /// Faults that make it worthless.
    faults: Vec<String>,
    /// Faults by which a change may be ours and not the disk's.
    doubts: Vec<String>,
    /// Whether it went past the page cache.
    direct: Option<bool>,
}

/// What was measured on: only then can two results tell what a file system costs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ground {
    Device,
    Files(String),
    Unknown,
}

/// By what a disk may be known again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Disk {
    serial: Option<String>,
    /// The kernel's names of the disks under it.
    names: Vec<String>,
}

impl Disk {
    /// Whether this is that one: by serial numbers where both have them, else by names; `None` where that does not tell.
    fn same(&self, other: &Self) -> Option<bool> {
        if let Some((a, b)) = self.serial.as_ref().zip(other.serial.as_ref()) {
            return Some(a == b);
        }
        let named = !self.names.is_empty() && !other.names.is_empty();
        named.then(|| self.names.iter().any(|name| other.names.contains(name)))
    }
}

/// A result that was read.
#[derive(Clone, Debug)]
pub struct Side {
    file: String,
    ground: Ground,
    disk: Disk,
    facts: BTreeMap<String, String>,
    notes: Vec<String>,
    streams: BTreeMap<Key, Stream>,
}

/// One figure on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// In the first result: operations a second, or nanoseconds.
    pub a: f64,
    /// In the second.
    pub b: f64,
    /// Second ÷ first.
    pub ratio: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How likely as much is seen where nothing changed.
    pub chance: f64,
    /// `worse`, `better`, `same`, or `unsure`.
    pub verdict: &'static str,
}

/// A stream that both sides have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    #[serde(flatten)]
    pub key: Key,
    /// Operations a second.
    pub iops: Option<Pair>,
    /// Median of durations.
    pub p50_ns: Option<Pair>,
    /// 99 % took no longer.
    pub p99_ns: Option<Pair>,
    /// Of all figures: `worse` if any is, else `better` if any is, else `unsure` if any is, else `same`; `not_judged` where a fault
    /// makes a side worthless, `unsure` instead of a change where we lacked CPU on a side.
    pub verdict: &'static str,
    /// Those faults, with the side that has them.
    pub faults: Vec<String>,
}

/// Two results, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Grows when a field changes its meaning or goes away.
    pub schema_version: u32,
    /// File of the first result.
    pub a: String,
    /// File of the second.
    pub b: String,
    /// `worse` if any cell is, else `better` if any is, else `unsure` if any is, else `same`.
    pub verdict: &'static str,
    /// What both have.
    pub cells: Vec<Row>,
    /// What the first alone has.
    pub only_in_a: Vec<Key>,
    /// What the second alone has.
    pub only_in_b: Vec<Key>,
    /// What the file system costs, where one side is a block device and the other files on it; else null.
    pub file_system_cost: Option<Cost>,
    /// What else is to be known, in sentences.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Whether a cell is worse in the second.
    pub fn is_worse(&self) -> bool {
        self.verdict == label(Verdict::Worse)
    }
}

/// Reads a result: a sweep of ours, or fio's JSON. The error is a sentence that begins with the file.
pub fn read(file: &str, text: &str) -> Result<Side, String> {
    let neither = "neither a result of `diskcanary sweep --json` nor one of `fio --output-format=json`";
    // fio says this and that before its JSON when both go to the same place.
    let begin = text.find('{').ok_or_else(|| format!("{file} is not JSON, so {neither}"))?;
    let value: serde_json::Value = serde_json::Deserializer::from_str(&text[begin..])
        .into_iter()
        .next()
        .and_then(Result::ok)
        .ok_or_else(|| format!("{file} is not whole JSON, so {neither}"))?;
    if value.get("fio version").is_some() {
        return fio::side(file, &value).map_err(|why| format!("{file}: {why}"));
    }
    let Some(version) = value.get("schema_version") else {
        return Err(format!("{file} is {neither}"));
    };
    if version.as_u64() != Some(u64::from(SCHEMA_VERSION)) {
        return Err(format!(
            "{file} is of schema version {version}, and this diskcanary reads {SCHEMA_VERSION}: compare with the diskcanary \
             that wrote it, or sweep again"
        ));
    }
    if value.get("cells").is_none() {
        return Err(format!("{file} is {neither}: it has no `cells`"));
    }
    sweep::side(file, value)
}

/// Compares what both have. The error is a sentence.
pub fn compare(a: &Side, b: &Side) -> Result<Comparison, String> {
    let both: Vec<(&Key, &Stream, &Stream)> =
        a.streams.iter().filter_map(|(key, first)| Some((key, first, b.streams.get(key)?))).collect();
    if both.is_empty() {
        return Err(nothing_in_common(a, b));
    }
    let cells = rows(&both);
    if cells.iter().all(|row| row.verdict == NOT_JUDGED) {
        let why = cells.first().map(|row| row.faults.join(", ")).unwrap_or_default();
        let right = match why.starts_with(BUFFERED) {
            true => "measure both past the page cache (fio: --direct=1)",
            false => "measure again",
        };
        return Err(format!("nothing of {} and {} is to be believed ({why}): {right}", a.file, b.file));
    }
    let verdict = worst(cells.iter().map(|row| row.verdict));
    let only = |of: &Side, other: &Side| {
        of.streams.keys().filter(|key| !other.streams.contains_key(key)).cloned().collect()
    };
    Ok(Comparison {
        schema_version: 1,
        a: a.file.clone(),
        b: b.file.clone(),
        verdict,
        file_system_cost: Cost::of(a, b, &cells),
        only_in_a: only(a, b),
        only_in_b: only(b, a),
        notes: notes(a, b),
        cells,
    })
}

const NOT_JUDGED: &str = "not_judged";
/// A side that went through the page cache, where the other did not.
const BUFFERED: &str = "through the page cache";

const fn label(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::Same => "same",
        Verdict::Unsure => "unsure",
    }
}

/// The one that counts most.
fn worst(verdicts: impl Iterator<Item = &'static str> + Clone) -> &'static str {
    let order = [Verdict::Worse, Verdict::Better, Verdict::Unsure].map(label);
    order.into_iter().find(|one| verdicts.clone().any(|v| v == *one)).unwrap_or(label(Verdict::Same))
}

/// One that went through the page cache says nothing beside one that did not.
fn mixed(first: &Stream, second: &Stream) -> bool {
    first.direct.zip(second.direct).is_some_and(|(first, second)| first != second)
}

/// All figures of all cells are judged as one list, so that a long one has no more false alarms than a short one.
fn rows(both: &[(&Key, &Stream, &Stream)]) -> Vec<Row> {
    let mut all: Vec<(usize, Change)> = Vec::new();
    let fair = |first: &Stream, second: &Stream| {
        first.faults.is_empty() && second.faults.is_empty() && !mixed(first, second)
    };
    let known = both.iter().filter(|(_, first, second)| fair(first, second));
    let scatter = Scatter::of(&known.map(|(_, first, second)| [&first.run, &second.run]).collect::<Vec<_>>());
    for (at, (_, first, second)) in both.iter().enumerate() {
        if fair(first, second) {
            let stated = |figure: &&Figure| match figure {
                Figure::Rate => true,
                Figure::P50 => first.p50.is_some() && second.p50.is_some(),
                Figure::P99 => first.p99.is_some() && second.p99.is_some(),
            };
            let changes = (Figure::ALL.iter().filter(stated))
                .filter_map(|figure| change(*figure, &first.run, &second.run, &scatter));
            all.extend(changes.map(|change| (at, change)));
        }
    }
    let verdicts = judge(&all.iter().map(|(_, change)| *change).collect::<Vec<_>>());
    let mut judged: Vec<BTreeMap<Figure, (Change, Verdict)>> = vec![BTreeMap::new(); both.len()];
    for ((at, change), verdict) in all.into_iter().zip(verdicts) {
        judged[at].insert(change.figure, (change, verdict));
    }
    both.iter().zip(judged).map(|((key, first, second), judged)| row(key, first, second, &judged)).collect()
}

fn row(key: &Key, first: &Stream, second: &Stream, judged: &BTreeMap<Figure, (Change, Verdict)>) -> Row {
    let doubtful = !first.doubts.is_empty() || !second.doubts.is_empty();
    let called = |verdict: Verdict| match verdict {
        Verdict::Worse | Verdict::Better if doubtful => label(Verdict::Unsure),
        sure => label(sure),
    };
    let pair = |figure: Figure, a: Option<f64>, b: Option<f64>| {
        let (change, verdict) = judged.get(&figure)?;
        let (low, high) = change.interval;
        let (a, b, ratio) = (a?, b?, change.ratio);
        Some(Pair { a, b, ratio, low, high, chance: change.chance, verdict: called(*verdict) })
    };
    let nanos = |value: Option<u64>| value.map(|nanos| nanos as f64);
    let mixed = mixed(first, second);
    let of_side = |side: &str, stream: &Stream| {
        let buffered = (mixed && stream.direct == Some(false)).then(|| BUFFERED.to_owned());
        let all = stream.faults.iter().chain(&stream.doubts).cloned().chain(buffered);
        all.map(|fault| format!("{fault} in {side}")).collect::<Vec<_>>()
    };
    Row {
        key: key.clone(),
        iops: pair(Figure::Rate, Some(first.run.rate), Some(second.run.rate)),
        p50_ns: pair(Figure::P50, nanos(first.p50), nanos(second.p50)),
        p99_ns: pair(Figure::P99, nanos(first.p99), nanos(second.p99)),
        verdict: match judged.is_empty() {
            true => NOT_JUDGED,
            false => worst(judged.values().map(|(_, verdict)| called(*verdict))),
        },
        faults: [of_side("A", first), of_side("B", second)].concat(),
    }
}

fn nothing_in_common(a: &Side, b: &Side) -> String {
    let has = |side: &Side| match side.streams.keys().next() {
        None => format!("{} has no cells at all", side.file),
        Some(key) => {
            let others = match side.streams.len() {
                1 => "nothing else".to_owned(),
                2 => "1 other".to_owned(),
                n => format!("{} others", n - 1),
            };
            format!("{} has {} and {others}", side.file, table::name(key))
        }
    };
    format!(
        "no cell is in both: {}; {}. Cells are the same when pattern, block size, depth and jobs are",
        has(a),
        has(b)
    )
}

/// What each side says of itself, and where they were made under other conditions.
fn notes(a: &Side, b: &Side) -> Vec<String> {
    let own = [a, b].into_iter().flat_map(|side| side.notes.iter().map(|n| format!("{}: {n}", side.file)));
    let differ = a.facts.iter().filter_map(|(fact, first)| {
        let second = b.facts.get(fact)?;
        (first != second).then(|| format!("{fact}: {first} in A, {second} in B"))
    });
    own.chain(differ).collect()
}

#[cfg(test)]
mod tests;
