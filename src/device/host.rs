//! The machine as a whole: CPU time, pressure, and what is written out.

use std::collections::VecDeque;
use std::time::Duration;

use super::grown::grown;
use super::sampler::Texts;
use super::view::{Host, Pressure};
use crate::clock::Tick;

/// What shares and rates are taken over.
const WINDOW: Duration = Duration::from_secs(10);
const KIB: u64 = 1024;

/// Sums that only grow.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    all: u64,
    iowait: u64,
    steal: u64,
    /// KiB written to block devices.
    paged_out: u64,
}

/// The machine, second by second.
#[derive(Debug, Default)]
pub(super) struct Machine {
    cpu: Option<CpuTimes>,
    paged_out: Option<u64>,
    sums: Sums,
    seconds: VecDeque<(Tick, Sums)>,
}

impl Machine {
    pub(super) fn look(&mut self, now: Tick, texts: &Texts<'_>) -> Host {
        let cpu = texts.stat.and_then(cpu_times);
        let paged_out = texts.vmstat.and_then(|text| number_of(text, "pgpgout"));
        if let Some((before, after)) = self.cpu.zip(cpu) {
            self.sums.add(&before, &after);
        }
        if let Some((before, after)) = self.paged_out.zip(paged_out) {
            let more = grown(before, after, 1).unwrap_or(0);
            self.sums.paged_out = self.sums.paged_out.saturating_add(more);
        }
        (self.cpu, self.paged_out) = (cpu, paged_out);
        // The last one that is as old as the window, or older, is where it begins.
        while self.seconds.get(1).is_some_and(|(next, _)| now.since(*next) >= WINDOW) {
            self.seconds.pop_front();
        }
        let begin = self.seconds.front().copied();
        self.seconds.push_back((now, self.sums));
        let of_cpu = |part: fn(&Sums) -> u64| {
            let (_, begin) = begin.filter(|_| cpu.is_some())?;
            let all = self.sums.all.checked_sub(begin.all).filter(|all| *all > 0)?;
            Some(part(&self.sums).saturating_sub(part(&begin)) as f64 / all as f64)
        };
        let written = || {
            let (since, begin) = begin.filter(|_| paged_out.is_some())?;
            let length = now.since(since).as_secs_f64();
            let bytes = self.sums.paged_out.saturating_sub(begin.paged_out).saturating_mul(KIB);
            (length > 0.0).then(|| bytes as f64 / length)
        };
        Host {
            iowait: of_cpu(|sums| sums.iowait),
            steal: of_cpu(|sums| sums.steal),
            paged_out: written(),
            io: texts.io_pressure.map(pressure).unwrap_or_default(),
            cpu: texts.cpu_pressure.map(pressure).unwrap_or_default(),
            memory: texts.memory_pressure.map(pressure).unwrap_or_default(),
        }
    }
}

impl Sums {
    /// Idle, waiting and stolen time are known to go back at times; such a step adds nothing.
    fn add(&mut self, before: &CpuTimes, after: &CpuTimes) {
        let more = |at: usize| after.0[at].saturating_sub(before.0[at]);
        self.all = (0..CPU_FIELDS).map(more).fold(self.all, u64::saturating_add);
        self.iowait = self.iowait.saturating_add(more(IOWAIT));
        self.steal = self.steal.saturating_add(more(STEAL));
    }
}

/// user, nice, system, idle, iowait, irq, softirq, steal; a guest's time is in user and nice already.
const CPU_FIELDS: usize = 8;
const IOWAIT: usize = 4;
const STEAL: usize = 7;

/// Times of all CPUs together, in the kernel's ticks since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuTimes([u64; CPU_FIELDS]);

/// The first line of `/proc/stat`; `None` without all eight fields.
fn cpu_times(stat: &str) -> Option<CpuTimes> {
    let mut words = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let mut times = [0; CPU_FIELDS];
    for time in &mut times {
        *time = words.next()?.parse().ok()?;
    }
    Some(CpuTimes(times))
}

/// The number behind a name in `/proc/vmstat`.
fn number_of(vmstat: &str, name: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.trim().parse().ok()
}

/// `some avg10=0.00 avg60=… ` and `full …`, in percent.
fn pressure(text: &str) -> Pressure {
    let of = |kind: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
        let percent = line.split_ascii_whitespace().find_map(|word| word.strip_prefix("avg10="))?;
        let percent: f64 = percent.parse().ok()?;
        // The kernel writes hundredths of a percent; so rounded, the share prints as it should.
        percent.is_finite().then_some((percent * 100.0).round() / 10_000.0)
    };
    Pressure { some: of("some "), full: of("full ") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: u64) -> Tick {
        Tick::from_nanos(second * 1_000_000_000)
    }

    #[test]
    fn shares_are_of_all_time_and_rates_of_the_window() {
        let mut machine = Machine::default();
        let mut host = Host::default();
        for second in 0..30u64 {
            // 200 ticks a second, of which 50 wait and, from second 20 on, 20 are stolen.
            let stolen = 20 * second.saturating_sub(20);
            let stat = format!(
                "cpu  {} 0 0 0 {} 0 0 {stolen} 77 0\ncpu0 1 2 3\n",
                second * 150 - stolen,
                second * 50
            );
            let vmstat = format!("pgpgin 5\npgpgout {}\npgpgoutdirect 1\n", second * 100);
            let texts = Texts { stat: Some(&stat), vmstat: Some(&vmstat), ..Texts::default() };
            host = machine.look(at(second), &texts);
            if second == 0 {
                assert_eq!((host.iowait, host.paged_out), (None, None));
            }
        }
        assert_eq!((host.iowait, host.paged_out), (Some(0.25), Some(102_400.0)));
        // Nine of the last ten seconds.
        assert_eq!(host.steal, Some(0.09));
        let blind = machine.look(at(30), &Texts::default());
        assert_eq!((blind.iowait, blind.steal, blind.paged_out), (None, None, None));
    }

    #[test]
    fn pressure_is_a_share_and_absent_where_the_kernel_has_none() {
        let text = "some avg10=12.50 avg60=1.00 avg300=0.10 total=999\nfull avg10=3.00 avg60=0.00 avg300=0.00 total=5\n";
        assert_eq!(pressure(text), Pressure { some: Some(0.125), full: Some(0.03) });
        assert_eq!(pressure("some avg10=1.00 total=1\n"), Pressure { some: Some(0.01), full: None });
        assert_eq!(pressure("some avg10=0.65").some, Some(0.0065));
        for none in ["", "some", "some avg60=1", "full avg10=x"] {
            assert_eq!(pressure(none), Pressure::default(), "{none}");
        }
    }

    proptest! {
        #[test]
        fn whatever_the_kernel_says_a_share_is_a_share(
            steps in prop::collection::vec((prop::array::uniform8(any::<u32>()), any::<u64>(), 0u64..40), 1..30),
        ) {
            let (mut machine, mut now) = (Machine::default(), 0);
            for (times, out, step) in steps {
                let fields: Vec<String> = times.iter().map(u32::to_string).collect();
                let stat = format!("cpu {} 0 0\n", fields.join(" "));
                let vmstat = format!("pgpgout {out}\n");
                now += step;
                let texts = Texts { stat: Some(&stat), vmstat: Some(&vmstat), ..Texts::default() };
                let host = machine.look(at(now), &texts);
                for share in [host.iowait, host.steal].into_iter().flatten() {
                    prop_assert!((0.0..=1.0).contains(&share));
                }
                prop_assert!(host.paged_out.is_none_or(|rate| rate >= 0.0 && rate.is_finite()));
            }
        }

        #[test]
        fn any_text_is_understood_or_refused(text in "(cpu|some|full|pgpgout|avg10=|[0-9]{1,22}| |\n|-|\\.){0,40}") {
            let _ = (cpu_times(&text), pressure(&text), number_of(&text, "pgpgout"));
        }
    }
}
