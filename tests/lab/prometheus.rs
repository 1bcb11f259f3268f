//! Debian's Prometheus on loopback, scraping one server each second, and `promtool`.

use super::command::{command, output_within};
use super::daemon::{Running, free_port};
use super::http::get;
use super::scratch::Scratch;
use super::wait::eventually;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// One series of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its labels, `__name__` among them where it has a name.
    pub labels: BTreeMap<String, String>,
    /// Its value at the instant of the query.
    pub value: f64,
}

/// A Prometheus with a data directory of its own; ended when dropped.
#[derive(Debug)]
pub struct Prometheus {
    server: Running,
}

impl Prometheus {
    /// Starts one that scrapes `/metrics` at this address each second as job `diskcanary`.
    pub fn scraping(target: SocketAddr) -> Self {
        Self::with_rules(target, None)
    }

    /// As [`Self::scraping`], with a file of recording and alerting rules, evaluated each second.
    pub fn with_rules(target: SocketAddr, rules: Option<&Path>) -> Self {
        let (scratch, port) = (Scratch::new(), free_port());
        let rules = rules
            .map_or_else(String::new, |file| format!("rule_files: [{:?}]\n", file.display().to_string()));
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n{rules}scrape_configs:\n  \
             - job_name: diskcanary\n    static_configs: [{{targets: ['{target}']}}]\n"
        );
        let file = scratch.file("prometheus.yml", config);
        let mut command = command("prometheus");
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", scratch.dir("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command.arg("--enable-feature=native-histograms").current_dir(scratch.path());
        let server = Running::start(command, scratch, port);
        // Healthy is not ready: until its log is replayed it answers queries with 503.
        eventually("Prometheus is ready", || server.get("/-/ready").status == 200);
        Self { server }
    }

    /// The server: its address, its own metrics, its log.
    pub fn server(&self) -> &Running {
        &self.server
    }

    /// An instant query. Panics with Prometheus' own words if the expression is wrong; NaN is a value.
    pub fn query(&self, expression: &str) -> Vec<Series> {
        let answer =
            get(self.server.address(), &format!("/api/v1/query?query={}", escape(expression))).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&answer.body)
            .unwrap_or_else(|_| panic!("{}: {}", answer.status, answer.text()));
        assert_eq!(json["status"], "success", "{expression}: {json}");
        let result = &json["data"]["result"];
        if json["data"]["resultType"] == "scalar" {
            return vec![Series { labels: BTreeMap::new(), value: number(&result[1]) }];
        }
        let series = result.as_array().unwrap().iter();
        series
            .map(|s| Series {
                labels: serde_json::from_value(s["metric"].clone()).unwrap(),
                value: number(&s["value"][1]),
            })
            .collect()
    }

    /// The value of an expression that is to give one series; none while it gives none.
    pub fn value(&self, expression: &str) -> Option<f64> {
        let series = self.query(expression);
        assert!(series.len() < 2, "{expression} is not one series: {series:?}");
        series.first().map(|s| s.value)
    }

    /// Waits until the target has been scraped well at least `times` times.
    pub fn wait_for_scrapes(&self, times: u32) {
        let expression = format!("sum_over_time(up{{job=\"diskcanary\"}}[10m]) >= {times}");
        eventually("Prometheus scrapes the target", || !self.query(&expression).is_empty());
    }
}

/// `promtool check metrics` over a scrape's text: what it complains about.
pub fn promtool_check_metrics(text: &str) -> Result<(), String> {
    let mut command = command("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = text.to_owned();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join();
    verdict(&output, true)
}

/// `promtool check config` over a Prometheus config file.
pub fn promtool_check_config(file: &Path) -> Result<(), String> {
    promtool(&["check", "config"], file)
}

/// `promtool test rules` over a file of rule tests.
pub fn promtool_test_rules(file: &Path) -> Result<(), String> {
    promtool(&["test", "rules"], file)
}

fn promtool(arguments: &[&str], file: &Path) -> Result<(), String> {
    let mut command = command("promtool");
    command.args(arguments).arg(file);
    verdict(&output_within(Duration::from_secs(120), command), false)
}

/// `check metrics` prints its complaints and may still end well: for it, silence is the pass.
fn verdict(output: &std::process::Output, silent: bool) -> Result<(), String> {
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() && (!silent || said.trim().is_empty()) { Ok(()) } else { Err(said) }
}

fn number(value: &serde_json::Value) -> f64 {
    match value.as_str().unwrap() {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        text => text.parse().unwrap(),
    }
}

fn escape(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}
