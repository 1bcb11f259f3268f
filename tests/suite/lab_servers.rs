//! Servers and readers: the metrics reader against a writer that is not ours, Prometheus, PostgreSQL, the browser.

use crate::lab::{
    Chromium, FileSystem, Metrics, Mounted, Need, Postgres, Prometheus, Scratch, eventually, free_port,
    lacks, promtool_check_config, promtool_check_metrics, request,
};
use std::net::SocketAddr;

const PROMETHEUS: &[Need] = &[Need::Tool("prometheus"), Need::Tool("promtool")];

fn nowhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

#[test]
fn a_server_is_started_scraped_queried_and_stopped() {
    if lacks(PROMETHEUS) {
        return;
    }
    let first = Prometheus::scraping(nowhere());
    let server = first.server();
    let metrics = server.scrape();
    assert_eq!(metrics.kinds["go_goroutines"], "gauge");
    assert!(metrics.value("go_goroutines", &[]).unwrap() > 1.0);
    let durations =
        metrics.histogram("prometheus_http_request_duration_seconds", &[("handler", "/-/healthy")]);
    let durations = durations.expect("the waiting for /-/healthy left observations");
    assert!(durations.count >= 1.0 && durations.buckets.last().unwrap().0.is_infinite());
    assert!(durations.quantile(0.5).unwrap() <= durations.quantile(1.0).unwrap());
    promtool_check_metrics("# HELP a_total Things.\n# TYPE a_total counter\na_total 1\n").unwrap();
    assert!(promtool_check_metrics("# TYPE a counter\na 1\n").unwrap_err().contains("a"));
    promtool_check_config(&server.directory().join("prometheus.yml")).unwrap();

    let second = Prometheus::scraping(server.address());
    second.wait_for_scrapes(3);
    assert_eq!(second.value("up{job='diskcanary'}"), Some(1.0));
    assert_eq!(second.value("up{job='nobody'}"), None);
    assert!(second.value("sum(go_goroutines)").unwrap() > 1.0);
    assert_eq!(second.value("scalar(vector(2.5))"), Some(2.5));
    assert_eq!(request("PUT", server.address(), "/-/healthy", &[], b"").unwrap().status, 405);
    let pid = server.pid();
    drop((first, second));
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn the_metrics_reader_unescapes_labels_and_interpolates_quantiles() {
    let text = "# HELP x_seconds Times.\n# TYPE x_seconds histogram\n\
        x_seconds_bucket{n=\"a\\\"b\\\\c\\nd{,}\",le=\"0.5\"} 10\nx_seconds_bucket{n=\"a\\\"b\\\\c\\nd{,}\",le=\"1.0\"} 20\n\
        x_seconds_bucket{n=\"a\\\"b\\\\c\\nd{,}\",le=\"+Inf\"} 20\nx_seconds_sum{n=\"a\\\"b\\\\c\\nd{,}\"} 11.5\n\
        x_seconds_count{n=\"a\\\"b\\\\c\\nd{,}\"} 20\nnan NaN\nplain 1e-05 1700000000000\n";
    let metrics = Metrics::parse(text).unwrap();
    let labels = [("n", "a\"b\\c\nd{,}")];
    assert_eq!(metrics.value("x_seconds_sum", &labels), Some(11.5));
    assert_eq!(metrics.value("plain", &[]), Some(1e-5));
    assert!(metrics.value("nan", &[]).unwrap().is_nan());
    assert_eq!(metrics.value("plain", &[("n", "")]), None);
    let histogram = metrics.histogram("x_seconds", &labels).unwrap();
    assert_eq!(histogram.quantile(0.25), Some(0.25));
    assert_eq!(histogram.quantile(0.75), Some(0.75));
    assert_eq!(histogram.quantile_bucket(0.75), Some((0.5, 1.0)));
    assert_eq!(histogram.since(&histogram).count, 0.0);
    assert!(Metrics::parse("x{a=\"b} 1").is_err() && Metrics::parse("x one").is_err());
}

#[test]
fn a_private_postgres_commits_benches_and_is_backed_up() {
    if lacks(&[Need::Root, Need::Postgres, Need::Tool("mkfs.ext4")]) {
        return;
    }
    let disk = Mounted::new(FileSystem::Ext4, 256 << 20);
    let server = Postgres::in_directory(disk.path());
    assert_eq!(
        server.psql("create table t as select 1 as n; insert into t values (2); select sum(n) from t"),
        "3"
    );
    server.pgbench(&["-i", "-q", "-s", "1"]);
    let said = server.pgbench(&["-c", "1", "-N", "-t", "20"]);
    assert!(said.contains("20/20"), "{said}");
    let backup = server.base_backup();
    assert!(backup.join("PG_VERSION").exists() && server.data().join("PG_VERSION").exists());
}

#[test]
fn the_browser_runs_a_page_and_draws_it() {
    if lacks(&[Need::Tool("chromium")]) {
        return;
    }
    let scratch = Scratch::new();
    let page = "<body style='background:#0a0'><p id=a></p><script>a.textContent = 6 * 7</script></body>";
    let url = format!("file://{}", scratch.file("page.html", page).display());
    let browser = Chromium::new();
    let dom = browser.dom(&url);
    assert!(dom.contains("<p id=\"a\">42</p>"), "{dom}");
    let picture = scratch.path().join("page.png");
    browser.screenshot(&url, (400, 300), &picture);
    let bytes = std::fs::read(&picture).unwrap();
    assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 200);
    eventually("the picture is whole", || std::fs::read(&picture).unwrap().ends_with(b"IEND\xaeB`\x82"));
}
