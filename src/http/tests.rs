//! A server on a port of its own, asked over loopback by plain sockets.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use http_body_util::BodyExt;
use seccompiler::{SeccompAction, SeccompCondition, SeccompFilter, SeccompRule};
use tokio::sync::oneshot;

use super::site::Site;
use super::{Command, Config, Content, Limits, NoTarget, Pending, Unavailable, Url, ask, bind, serve};
use crate::clock;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// Shows what it is told to.
#[derive(Clone)]
struct Shown {
    metrics: String,
    after: Duration,
    ready: Result<(), Unavailable>,
    healthy_after: Duration,
}

impl Default for Shown {
    fn default() -> Self {
        Self { metrics: "up 1\n".into(), after: Duration::ZERO, ready: Ok(()), healthy_after: Duration::ZERO }
    }
}

impl Content for Shown {
    fn metrics(&self) -> Pending<String> {
        let Self { metrics, after, .. } = self.clone();
        Box::pin(async move {
            tokio::time::sleep(after).await;
            Ok(metrics)
        })
    }

    fn page(&self) -> Pending<String> {
        Box::pin(async { Ok("<!doctype html><title>disks</title>".to_owned()) })
    }

    fn healthy(&self) -> Pending<()> {
        let after = self.healthy_after;
        Box::pin(async move {
            tokio::time::sleep(after).await;
            Ok(())
        })
    }

    fn ready(&self) -> Pending<()> {
        let ready = self.ready.clone();
        Box::pin(async { ready })
    }

    fn command(&self, command: Command) -> Pending<Result<(), NoTarget>> {
        let (Command::Pause { target, .. } | Command::Resume { target }) = command;
        let known = ["pg data \"ä\"", "b"].map(str::to_owned);
        let done = if known.contains(&target) { Ok(()) } else { Err(NoTarget(known.to_vec())) };
        Box::pin(async { Ok(done) })
    }
}

struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Duration>,
}

impl Server {
    fn start(config: Config, shown: Shown) -> Self {
        Self::start_with(config, shown, || {})
    }

    /// `first` runs on the server's thread before anything else.
    fn start_with(config: Config, shown: Shown, first: fn()) -> Self {
        let listeners = bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = listeners.addresses()[0];
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            first();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let until = async move {
                let _ = stopped.await;
            };
            runtime.block_on(serve(listeners, config, Arc::new(shown), until)).unwrap();
            let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
        });
        Self { address, stop, thread }
    }

    /// Starts with these limits.
    fn limited(limits: Limits, shown: Shown) -> Self {
        Self::start(Config { limits, ..Config::default() }, shown)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    fn ask(&self, request: &str) -> Reply {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        Reply::read(stream)
    }

    fn get(&self, path: &str) -> Reply {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    }

    /// Ends it: the CPU that its thread used in its life.
    fn stop(self) -> Duration {
        let _ = self.stop.send(());
        self.thread.join().unwrap()
    }
}

#[derive(Debug)]
struct Reply {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Reply {
    fn read(mut stream: TcpStream) -> Self {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let split =
            |line: &str| line.split_once(": ").map(|(k, v)| (k.to_lowercase(), v.to_owned())).unwrap();
        Self { status, headers: lines.map(split).collect(), body: body.to_owned() }
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// Whether the other side has closed, waiting for it as long as the stream's read timeout.
fn closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(n) => n == 0,
        Err(e) => e.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn each_route_has_its_type() {
    let server = Server::start(Config::default(), Shown::default());
    for (path, kind, body) in [
        ("/", "text/html; charset=utf-8", "<!doctype html><title>disks</title>"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8", "up 1\n"),
        ("/metrics?x=y", "text/plain; version=0.0.4; charset=utf-8", "up 1\n"),
        ("/-/healthy", "text/plain; charset=utf-8", "Healthy\n"),
        ("/-/ready", "text/plain; charset=utf-8", "Ready\n"),
    ] {
        let reply = server.get(path);
        assert_eq!((reply.status, reply.body.as_str()), (200, body), "{path}");
        assert_eq!(reply.header("content-type"), kind, "{path}");
        assert_eq!(reply.header("content-length"), body.len().to_string(), "{path}");
        assert_eq!(reply.header("cache-control"), "no-store", "{path}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
    }
    server.stop();
}

#[test]
fn head_has_the_length_and_no_body() {
    let server = Server::start(Config::default(), Shown::default());
    let reply = server.ask("HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!((reply.status, reply.header("content-length"), reply.body.as_str()), (200, "5", ""));
    server.stop();
}

#[test]
fn what_is_not_there_and_what_is_not_allowed() {
    let server = Server::start(Config::default(), Shown::default());
    let lost = server.get("/metric");
    assert_eq!(lost.status, 404);
    let paths = "/\n/metrics\n/-/healthy\n/-/ready\n/api/v1/pause\n/api/v1/resume\n";
    assert!(lost.body.ends_with(paths), "{}", lost.body);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "BREW"] {
        let request = format!("{method} /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
        let reply = server.ask(&request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
        assert_eq!((reply.status, reply.header("allow")), (405, "GET, HEAD"), "{method}");
    }
    server.stop();
}

#[test]
fn commands_are_posted_and_answered_as_json() {
    let server = Server::start(Config::default(), Shown::default());
    let post = |at: &str, headers: &str| {
        server.ask(&format!("POST /api/v1/{at} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"))
    };
    let paused = post("pause?target=pg%20data+%22%C3%A4%22&for=90s", "");
    assert_eq!((paused.status, paused.header("content-type")), (200, "application/json"));
    assert_eq!(paused.body, "{\"paused_for_seconds\":90.0,\"target\":\"pg data \\\"ä\\\"\"}\n");
    assert_eq!(post("resume?target=b", "").status, 200);
    let unknown = post("pause?target=c", "");
    assert!(unknown.status == 404 && unknown.body.contains("there are `pg data"), "{unknown:?}");
    let nameless = post("pause", "");
    assert!(nameless.status == 400 && nameless.body.contains("which target?"), "{nameless:?}");
    for method in ["GET", "HEAD", "PUT", "DELETE"] {
        let request =
            format!("{method} /api/v1/pause?target=b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let reply = server.ask(&request);
        assert_eq!((reply.status, reply.header("allow")), (405, "POST"), "{method}");
    }
    server.stop();
}

#[test]
fn no_page_in_a_browser_can_command() {
    let server = Server::start(Config::default(), Shown::default());
    for headers in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: http://x\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "sec-fetch-site: same-origin\r\nContent-Type: text/plain\r\n",
    ] {
        let request =
            format!("POST /api/v1/pause?target=b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
        let reply = server.ask(&request);
        assert!(reply.status == 403 && reply.body.contains("browser"), "{headers}: {reply:?}");
    }
    server.stop();
}

#[test]
fn nobody_elsewhere_can_command_and_everybody_can_look() {
    let site = Site::new(&Config::default(), Arc::new(Shown::default()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let asked = |method: &str, path: &str, peer: &str| {
        let request = hyper::Request::builder().method(method).uri(path).body(()).unwrap();
        runtime.block_on(site.answer(&request, peer.parse().unwrap()))
    };
    for peer in ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"] {
        for command in ["pause", "resume"] {
            let answer = asked("POST", &format!("/api/v1/{command}?target=b"), peer);
            assert_eq!(answer.status(), 200, "{command} from {peer}");
        }
    }
    for peer in ["192.0.2.7", "10.0.0.1", "::ffff:192.0.2.7", "2001:db8::1", "fe80::1"] {
        for command in ["pause", "resume"] {
            let answer = asked("POST", &format!("/api/v1/{command}?target=b"), peer);
            assert_eq!(answer.status(), 403, "{command} from {peer}");
            let body = runtime.block_on(answer.into_body().collect()).unwrap().to_bytes();
            assert!(String::from_utf8_lossy(&body).contains("loopback"), "{body:?}");
        }
        assert_eq!(asked("GET", "/metrics", peer).status(), 200, "{peer}");
    }
}

#[test]
fn the_client_speaks_with_the_server() {
    let server = Server::start(Config::default(), Shown::default());
    let url: Url = format!("http://{}", server.address).parse().unwrap();
    let pause = |target: &str| {
        ask(&url, &Command::Pause { target: target.to_owned(), length: Duration::from_millis(5_400_500) })
    };
    assert_eq!(pause("pg data \"ä\""), Ok(()));
    let error = pause("c&for=1s").unwrap_err();
    assert_eq!(error, "there is no target `c&for=1s`; there are `pg data \"ä\"`, `b`");
    let below: Url = format!("http://{}/elsewhere", server.address).parse().unwrap();
    let error = ask(&below, &Command::Resume { target: "b".to_owned() }).unwrap_err();
    assert!(error.ends_with("answered with status 404"), "{error}");
    server.stop();
}

#[test]
fn whatever_is_accepted_the_text_comes() {
    let server = Server::start(Config::default(), Shown::default());
    for accept in [
        "",
        "Accept: */*\r\n",
        "Accept:\r\n",
        "Accept: ;;;q=9,,,\r\n",
        "Accept: image/png\r\nAccept-Encoding: gzip, br\r\n",
        "Accept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1\r\n",
        "Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited\r\n",
    ] {
        let reply =
            server.ask(&format!("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{accept}\r\n"));
        let kind = reply.header("content-type");
        assert_eq!((reply.status, kind), (200, "text/plain; version=0.0.4; charset=utf-8"), "{accept}");
        assert_eq!(reply.body, "up 1\n", "{accept}");
    }
    assert_eq!(server.ask("GET /metrics HTTP/1.0\r\n\r\n").body, "up 1\n");
    server.stop();
}

#[test]
fn the_telemetry_path_moves() {
    let config = Config { telemetry_path: "/disk/m".parse().unwrap(), ..Config::default() };
    let server = Server::start(config, Shown::default());
    assert_eq!(server.get("/disk/m").body, "up 1\n");
    let lost = server.get("/metrics");
    assert!(lost.status == 404 && lost.body.contains("\n/disk/m\n"), "{lost:?}");
    server.stop();
}

#[test]
fn not_ready_says_why() {
    let ready = Err(Unavailable("the first plan is not yet resolved".into()));
    let server = Server::start(Config::default(), Shown { ready, ..Shown::default() });
    let reply = server.get("/-/ready");
    assert_eq!((reply.status, reply.body.as_str()), (503, "Not ready: the first plan is not yet resolved\n"));
    assert_eq!(server.get("/-/healthy").status, 200);
    server.stop();
}

#[test]
fn content_that_does_not_come_is_503() {
    let limits = Limits { content_within: MS(100), ..Limits::default() };
    let server = Server::limited(limits, Shown { after: Duration::from_secs(3600), ..Shown::default() });
    let reply = server.get("/metrics");
    assert!(reply.status == 503 && reply.body.contains("did not answer within 0.1 s"), "{reply:?}");
    server.stop();
}

#[test]
fn idle_and_slow_clients_hinder_nobody_and_are_closed() {
    let limits = Limits { head_within: MS(1500), ..Limits::default() };
    let server = Server::limited(limits, Shown::default());
    let mut idle: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
    let mut slow = server.connect();
    let begun = clock::now();
    let mut cut = false;
    for byte in b"GET /metrics HTTP/1.1\r\nX-Slow: a client that takes its time".iter().cycle().take(100) {
        cut = cut || slow.write_all(&[*byte]).is_err();
        let before = clock::now();
        assert_eq!(server.get("/metrics").body, "up 1\n");
        let took = clock::now().since(before);
        assert!(took < Duration::from_secs(1), "a scrape took {took:?}");
        if cut {
            break;
        }
        sleep(MS(100));
    }
    assert!(cut && clock::now().since(begun) >= MS(1400), "the slow client was not cut, or too early");
    assert!(idle.iter_mut().all(closed));
    server.stop();
}

#[test]
fn too_large_a_head_is_431() {
    let server = Server::start(Config::default(), Shown::default());
    let mut stream = server.connect();
    let request = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n", "a".repeat(20_000));
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 431");
    let fits = format!("GET / HTTP/1.1\r\nConnection: close\r\nX-Long: {}\r\n\r\n", "a".repeat(12_000));
    assert_eq!(server.ask(&fits).status, 200);
    server.stop();
}

#[test]
fn one_connection_too_many_is_closed() {
    let server = Server::limited(Limits { connections: 3, ..Limits::default() }, Shown::default());
    let mut kept: Vec<TcpStream> = (0..3).map(|_| server.connect()).collect();
    assert!(closed(&mut server.connect()));
    kept[0].write_all(b"GET /-/healthy HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(Reply::read(kept.remove(0)).status, 200);
    sleep(MS(100));
    assert_eq!(server.get("/-/healthy").status, 200);
    server.stop();
}

#[test]
fn an_answer_that_is_not_taken_frees_its_place() {
    let limits = Limits { answers: 1, taken_within: MS(1500), ..Limits::default() };
    let large = Shown { metrics: "x".repeat(32 << 20), ..Shown::default() };
    let server = Server::limited(limits, large);
    let mut sleeper = server.connect();
    sleeper.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    sleep(MS(200));
    let refused = server.get("/metrics");
    assert!(refused.status == 503 && refused.body.contains("too many requests"), "{}", refused.status);
    assert_eq!(server.get("/-/healthy").status, 200);
    sleep(MS(2500));
    assert_eq!(server.get("/metrics").body.len(), 32 << 20);
    let mut taken = Vec::new();
    let _ = sleeper.read_to_end(&mut taken);
    assert!(taken.len() < 32 << 20, "the sleeper still got all");
    server.stop();
}

#[test]
fn a_shutdown_finishes_what_is_in_flight_and_closes_what_is_idle() {
    let server = Server::start(Config::default(), Shown { after: MS(600), ..Shown::default() });
    let mut idle = server.connect();
    let mut kept_alive = server.connect();
    kept_alive.write_all(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let _ = kept_alive.read(&mut [0; 1024]).unwrap();
    let mut asking = server.connect();
    asking.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    sleep(MS(200));
    let (address, begun) = (server.address, clock::now());
    let Server { stop, thread, .. } = server;
    stop.send(()).unwrap();
    assert!(closed(&mut idle) && closed(&mut kept_alive));
    let reply = Reply::read(asking);
    assert_eq!((reply.status, reply.body.as_str()), (200, "up 1\n"));
    thread.join().unwrap();
    let took = clock::now().since(begun);
    assert!(took < Duration::from_secs(3), "it took {took:?}, the grace of 5 s was waited for");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_shutdown_waits_no_longer_than_the_grace() {
    let limits = Limits { grace: MS(200), content_within: Duration::from_secs(60), ..Limits::default() };
    let server = Server::limited(limits, Shown { after: Duration::from_secs(60), ..Shown::default() });
    let mut asking = server.connect();
    asking.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    sleep(MS(100));
    let begun = clock::now();
    server.stop();
    let took = clock::now().since(begun);
    assert!(took >= MS(190) && took < Duration::from_secs(5), "{took:?}");
    assert!(closed(&mut asking));
}

/// From here on, this thread's call `number` with `condition` fails with `errno`.
pub(super) fn refuse(number: i64, condition: Option<SeccompCondition>, errno: i32) {
    let rules = condition.map(|c| SeccompRule::new(vec![c]).unwrap()).into_iter().collect();
    let filter = SeccompFilter::new(
        BTreeMap::from([(number, rules)]),
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

#[test]
fn no_descriptor_left_is_waited_out_not_spun_on() {
    let out_of_files = || refuse(libc::SYS_accept4, None, libc::EMFILE);
    let server = Server::start_with(Config::default(), Shown::default(), out_of_files);
    let _waiting = server.connect();
    sleep(Duration::from_secs(1));
    let used = server.stop();
    assert!(used < MS(200), "{used:?} of CPU in a second of failing accepts");
}

#[test]
fn who_does_not_answer_in_time_is_not_healthy() {
    let limits = Limits { content_within: MS(50), ..Limits::default() };
    let server =
        Server::limited(limits, Shown { healthy_after: Duration::from_secs(3600), ..Shown::default() });
    let reply = server.get("/-/healthy");
    assert_eq!(reply.status, 503);
    assert!(reply.body.starts_with("Unhealthy: ") && reply.body.contains("within 0.05 s"), "{}", reply.body);
    server.stop();
}
