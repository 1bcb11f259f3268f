//! When a sweep is planned: five cron fields in a time zone. Pure: whoever asks for the next instant says what time it is.
//!
//! croner searches on the wall clock of the zone, which jiff knows. Where clocks are set forward, a fixed time that does not exist
//! comes at the first minute after the gap; where they are set back, it comes once, the first time. `*` and `*/n` in the fields of
//! minute and hour follow the clock on the wall through both.

use std::cmp::Ordering;
use std::time::Duration;

use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use croner::time::{CivilDate, CivilDateTime, CivilTime, CronDateTime, Resolution, Weekday};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ZonedDateTime};

const FIELDS: usize = 5;
const DAY: Duration = Duration::from_secs(86_400);
/// The year whose days are looked at for the busiest one begins here: a Thursday, 1 January 2026 UTC.
const A_YEAR: Duration = Duration::from_secs(1_767_225_600);
/// More instants tell nothing more of the busiest day, which has at most 1440.
const ENOUGH: usize = 3_000;

/// A cron schedule in a time zone.
#[derive(Clone, Debug)]
pub struct Calendar {
    text: String,
    cron: Box<Cron>,
    zone: TimeZone,
}

impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.zone == other.zone
    }
}

impl Eq for Calendar {}

impl Calendar {
    /// From five fields: minute, hour, day of the month, month, day of the week. Otherwise what is wrong, and what would be right.
    pub fn new(text: &str, zone: TimeZone) -> Result<Self, String> {
        const RIGHT: &str = "minute, hour, day of the month, month, day of the week, as in `30 3 * * *`";
        let fields = text.split_whitespace().count();
        if fields != FIELDS {
            return Err(format!("`{text}` has {fields} fields; write five: {RIGHT}"));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser
            .parse(text)
            .map_err(|why| format!("`{text}` is no cron schedule: {}; write {RIGHT}", said(&why)))?;
        let calendar = Self { text: text.to_owned(), cron: Box::new(cron), zone };
        match calendar.next(A_YEAR) {
            Some(_) => Ok(calendar),
            None => Err(format!("`{text}` never comes; write a day that there is")),
        }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of its time zone; `UTC` where the machine does not tell its own.
    pub fn zone(&self) -> &str {
        self.zone.iana_name().filter(|name| *name != "Etc/Unknown").unwrap_or("UTC")
    }

    /// The first instant after this one; both since 1970. `None` where there is none that the calendar reaches.
    pub fn next(&self, after: Duration) -> Option<Duration> {
        let start = Moment(self.zoned(after)?);
        let found = self.cron.find_next_occurrence(&start, false).ok()?;
        Duration::try_from(found.0.timestamp().as_duration()).ok()
    }

    /// An instant since 1970 as people of that time zone write it: `2026-12-01 03:30:00 +08:00`.
    pub fn shown(&self, at: Duration) -> String {
        self.zoned(at).map(|at| at.strftime("%Y-%m-%d %H:%M:%S %:z").to_string()).unwrap_or_default()
    }

    /// How many instants there are at most in any 24 hours of a year, days on which clocks are set apart.
    pub fn most_in_a_day(&self) -> usize {
        let all = self.a_year();
        let mut first = 0;
        let in_day = |(last, at): (usize, &Duration)| {
            while *at - all[first] >= DAY {
                first += 1;
            }
            last + 1 - first
        };
        all.iter().enumerate().map(in_day).max().unwrap_or(1)
    }

    /// The shortest time from one instant to the next, in the same year. `None`: there is no more than one.
    pub fn least_apart(&self) -> Option<Duration> {
        self.a_year().windows(2).map(|pair| pair[1] - pair[0]).min()
    }

    /// The instants of a year in which no clock is set.
    fn a_year(&self) -> Vec<Duration> {
        let even = Self { zone: TimeZone::UTC, ..self.clone() };
        let all = std::iter::successors(even.next(A_YEAR), |last| even.next(*last));
        all.take_while(|at| *at < A_YEAR + 366 * DAY).take(ENOUGH).collect()
    }

    fn zoned(&self, at: Duration) -> Option<ZonedDateTime> {
        let at = SignedDuration::try_from(at).ok()?;
        Some(Timestamp::from_duration(at).ok()?.to_zoned_datetime(self.zone.clone()))
    }
}

fn said(why: &CronError) -> String {
    let text = match why {
        CronError::InvalidPattern(why) | CronError::ComponentError(why) => why.clone(),
        other => other.to_string(),
    };
    text.trim_end_matches('.').to_owned()
}

/// The time zone of this name, by the machine's data or, where it has none, by those of this program; without a name, the
/// machine's own. Otherwise names that there are, for a hint.
pub fn time_zone(name: Option<&str>) -> Result<TimeZone, Vec<String>> {
    let Some(name) = name else { return Ok(TimeZone::system()) };
    TimeZone::get(name).map_err(|_| jiff::tz::db().available().map(|name| name.to_string()).collect())
}

/// An instant with its time zone, in croner's words.
#[derive(Clone)]
struct Moment(ZonedDateTime);

impl CronDateTime for Moment {
    fn to_civil(&self) -> CivilDateTime {
        let at = self.0.datetime();
        let part = |n: i8| u32::from(n.unsigned_abs());
        CivilDateTime::new(
            CivilDate::from_parts_unchecked(at.year().into(), part(at.month()), part(at.day())),
            CivilTime::from_parts_unchecked(part(at.hour()), part(at.minute()), part(at.second())),
        )
    }

    fn civil_weekday(&self) -> Weekday {
        Weekday::from_days_from_sunday(self.0.weekday().to_sunday_zero_offset().unsigned_abs().into())
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        let ambiguous =
            self.0.time_zone().to_ambiguous_zoned_datetime(on_the_wall(civil).ok_or(CronError::InvalidDate)?);
        let kind = ambiguous.offset();
        let moment =
            |zoned: Result<ZonedDateTime, jiff::Error>| zoned.map(Self).map_err(|_| CronError::InvalidTime);
        Ok(match kind {
            AmbiguousOffset::Unambiguous { .. } => Resolution::Single(moment(ambiguous.unambiguous())?),
            AmbiguousOffset::Fold { .. } => {
                Resolution::Ambiguous(moment(ambiguous.clone().earlier())?, moment(ambiguous.later())?)
            }
            AmbiguousOffset::Gap { .. } => Resolution::Gap,
        })
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        self.0.checked_add(SignedDuration::from_secs(seconds)).ok().map(Self)
    }

    fn cmp_instant(&self, other: &Self) -> Ordering {
        self.0.timestamp().cmp(&other.0.timestamp())
    }
}

fn on_the_wall(civil: CivilDateTime) -> Option<DateTime> {
    let part = |n: u32| i8::try_from(n).ok();
    let year = i16::try_from(civil.year()).ok()?;
    let (month, day) = (part(civil.month())?, part(civil.day())?);
    DateTime::new(year, month, day, part(civil.hour())?, part(civil.minute())?, part(civil.second())?, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, proptest};

    fn calendar(text: &str, zone: &str) -> Calendar {
        Calendar::new(text, time_zone(Some(zone)).unwrap()).unwrap()
    }

    fn at(text: &str) -> Duration {
        let at: Timestamp = text.parse().unwrap();
        at.as_duration().try_into().unwrap()
    }

    fn nexts(calendar: &Calendar, from: &str, n: usize) -> Vec<String> {
        std::iter::successors(calendar.next(at(from)), |last| calendar.next(*last))
            .take(n)
            .map(|at| calendar.shown(at))
            .collect()
    }

    #[test]
    fn half_past_three_is_that_on_the_clocks_of_its_zone() {
        let shanghai = calendar("30 3 * * *", "Asia/Shanghai");
        assert_eq!(
            nexts(&shanghai, "2026-12-01T00:00:00Z", 2),
            ["2026-12-02 03:30:00 +08:00", "2026-12-03 03:30:00 +08:00"]
        );
        assert_eq!((shanghai.zone(), shanghai.text()), ("Asia/Shanghai", "30 3 * * *"));
        assert_eq!(shanghai.most_in_a_day(), 1);
    }

    #[test]
    fn a_night_in_which_clocks_are_set_has_one_sweep() {
        let berlin = calendar("30 2 * * *", "Europe/Berlin");
        assert_eq!(
            nexts(&berlin, "2026-03-27T12:00:00Z", 3),
            ["2026-03-28 02:30:00 +01:00", "2026-03-29 03:00:00 +02:00", "2026-03-30 02:30:00 +02:00"],
            "set forward"
        );
        assert_eq!(
            nexts(&berlin, "2026-10-24T12:00:00Z", 2),
            ["2026-10-25 02:30:00 +02:00", "2026-10-26 02:30:00 +01:00"],
            "set back"
        );
        let hourly = calendar("0 * * * *", "Europe/Berlin");
        assert_eq!(
            nexts(&hourly, "2026-10-25T00:00:00Z", 2),
            ["2026-10-25 02:00:00 +01:00", "2026-10-25 03:00:00 +01:00"]
        );
        // The clocks of Lord Howe Island are set by half an hour.
        assert_eq!(nexts(&calendar("45 1 * * *", "Australia/Lord_Howe"), "2026-04-04T00:00:00Z", 2).len(), 2);
    }

    #[test]
    fn the_busiest_day_of_a_year_is_counted() {
        let most = |text| calendar(text, "Europe/Berlin").most_in_a_day();
        assert_eq!(
            (most("0 3 * * *"), most("0 */6 * * *"), most("0 3,4 1 * *"), most("0 3 * * 1")),
            (1, 4, 2, 1)
        );
        assert_eq!(most("* * * * *"), 1440);
        let apart = |text| calendar(text, "Europe/Berlin").least_apart().map(|apart| apart.as_secs() / 60);
        assert_eq!(
            (apart("* * * * *"), apart("0 3 * * *"), apart("0 3,4 1 * *")),
            (Some(1), Some(1440), Some(60))
        );
        // At the end of each month and at the beginning of the next.
        assert_eq!(apart("59 23 31 * *").map(|minutes| minutes / 1440), Some(31));
        assert_eq!((apart("0,50 * * * *"), apart("0 3 1 1 *")), (Some(10), Some(365 * 1440)));
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        let why = |text| Calendar::new(text, TimeZone::UTC).unwrap_err();
        assert!(
            why("30 3 * *").starts_with("`30 3 * *` has 4 fields; write five: minute, hour"),
            "{}",
            why("30 3 * *")
        );
        assert!(why("0 30 3 * * *").contains("has 6 fields"));
        assert!(why("61 3 * * *").contains("is no cron schedule: "), "{}", why("61 3 * * *"));
        assert!(why("0 3 30 2 *").contains("never comes"), "{}", why("0 3 30 2 *"));
        let known = time_zone(Some("Europe/Belrin")).unwrap_err();
        assert!(known.contains(&"Europe/Berlin".to_owned()) && known.len() > 300);
    }

    #[test]
    fn zones_are_there_on_a_machine_without_any() {
        let (_, data) = jiff::tz::TimeZoneDatabase::bundled()
            .get("Asia/Shanghai")
            .map(|zone| (zone.iana_name().map(str::to_owned), zone))
            .unwrap();
        assert_eq!(Calendar::new("30 3 * * *", data).unwrap().zone(), "Asia/Shanghai");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>(), fields in "[0-9*/,L#W?A-Z-]{1,4}( [0-9*/,L#W?A-Z-]{1,4}){4}") {
            let _ = Calendar::new(&text, TimeZone::UTC);
            let _ = Calendar::new(&fields, TimeZone::UTC);
        }

        /// Whenever it is asked: later than that, at a whole minute, and the same that is found from just before it.
        #[test]
        fn the_next_instant_is_the_next(seconds in 1_700_000_000u64..2_000_000_000, hour in 0u8..24, minute in 0u8..60) {
            let calendar = calendar(&format!("{minute} {hour} * * *"), "America/New_York");
            let from = Duration::from_secs(seconds);
            let next = calendar.next(from).unwrap();
            prop_assert!(next > from && next - from <= Duration::from_secs(25 * 3600) && next.as_secs().is_multiple_of(60));
            prop_assert!(calendar.next(next - Duration::from_secs(1)) == Some(next));
        }
    }
}
