//! What stands at which path.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::command::{Verb, from_a_page, from_here};
use super::{Command, Config, NoTarget, TelemetryPath};

const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// Why there is no content now: one sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An answer on its way.
pub type Pending<T> = Pin<Box<dyn Future<Output = Result<T, Unavailable>> + Send>>;

/// What is shown. Nothing here may touch a disk or wait for a lane.
pub trait Content: Send + Sync {
    /// The exposition, text format 0.0.4.
    fn metrics(&self) -> Pending<String>;

    /// The status page, HTML.
    fn page(&self) -> Pending<String>;

    /// Whether whoever decides in the daemon is there and answers.
    fn healthy(&self) -> Pending<()>;

    /// Whether the daemon does its work; why not, where it does not.
    fn ready(&self) -> Pending<()>;

    /// Does what is asked.
    fn command(&self, command: Command) -> Pending<Result<(), NoTarget>>;
}

/// The routes, and what they need.
pub(super) struct Site {
    telemetry_path: TelemetryPath,
    content: Arc<dyn Content>,
    content_within: Duration,
    answers: Arc<Semaphore>,
}

pub(super) type Answer = Response<Full<Bytes>>;

#[derive(Clone, Copy)]
enum Route {
    Page,
    Metrics,
    Healthy,
    Ready,
    Command(Verb),
}

impl Route {
    /// The methods, as an `Allow` header lists them.
    const fn allows(self) -> &'static str {
        match self {
            Self::Page | Self::Metrics | Self::Healthy | Self::Ready => "GET, HEAD",
            Self::Command(_) => "POST",
        }
    }

    fn takes(self, method: &Method) -> bool {
        self.allows().split(", ").any(|allowed| allowed == method.as_str())
    }
}

impl Site {
    pub(super) fn new(config: &Config, content: Arc<dyn Content>) -> Self {
        Self {
            telemetry_path: config.telemetry_path.clone(),
            content,
            content_within: config.limits.content_within,
            answers: Arc::new(Semaphore::new(config.limits.answers)),
        }
    }

    /// `peer` is who asks, as the kernel says.
    pub(super) async fn answer<B>(&self, request: &Request<B>, peer: IpAddr) -> Answer {
        let (method, path) = (request.method(), request.uri().path());
        let Some((_, route)) = self.routes().into_iter().find(|(at, _)| *at == path) else {
            return plain(StatusCode::NOT_FOUND, self.directions());
        };
        if !route.takes(method) {
            let text = format!("{path} answers {} only\n", route.allows().replace(", ", " and "));
            let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, text);
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static(route.allows()));
            return answer;
        }
        match route {
            Route::Page => self.content(HTML, self.content.page()).await,
            Route::Metrics => self.content(METRICS, self.content.metrics()).await,
            Route::Healthy => match self.within(self.content.healthy()).await {
                Ok(()) => plain(StatusCode::OK, "Healthy\n"),
                Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("Unhealthy: {why}\n")),
            },
            Route::Ready => match self.within(self.content.ready()).await {
                Ok(()) => plain(StatusCode::OK, "Ready\n"),
                Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("Not ready: {why}\n")),
            },
            Route::Command(_) if from_a_page(request.headers()) => {
                refusal(StatusCode::FORBIDDEN, "commands are not taken from a page in a browser")
            }
            Route::Command(_) if !from_here(peer) => {
                let why = "commands are taken over the loopback of the daemon's own machine only; run `diskcanary` there";
                refusal(StatusCode::FORBIDDEN, why)
            }
            Route::Command(verb) => self.command(verb, request.uri().query().unwrap_or_default()).await,
        }
    }

    /// What came of it, as JSON.
    async fn command(&self, verb: Verb, query: &str) -> Answer {
        let command = match verb.command(query) {
            Ok(command) => command,
            Err(why) => return refusal(StatusCode::BAD_REQUEST, &why),
        };
        let (name, seconds) = match &command {
            Command::Pause { target, length } => (target.clone(), length.as_secs_f64()),
            Command::Resume { target } => (target.clone(), 0.0),
        };
        match self.within(self.content.command(command)).await {
            Ok(Ok(())) => {
                json(StatusCode::OK, &serde_json::json!({ "target": name, "paused_for_seconds": seconds }))
            }
            Ok(Err(NoTarget(known))) => {
                let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                let why = format!("there is no target `{name}`; there are {}", known.join(", "));
                refusal(StatusCode::NOT_FOUND, &why)
            }
            Err(why) => refusal(StatusCode::SERVICE_UNAVAILABLE, &why.0),
        }
    }

    fn routes(&self) -> [(&str, Route); 6] {
        [
            ("/", Route::Page),
            (self.telemetry_path.as_str(), Route::Metrics),
            ("/-/healthy", Route::Healthy),
            ("/-/ready", Route::Ready),
            (Verb::Pause.path(), Route::Command(Verb::Pause)),
            (Verb::Resume.path(), Route::Command(Verb::Resume)),
        ]
    }

    fn directions(&self) -> String {
        let paths = self.routes().map(|(path, _)| path).join("\n");
        format!("nothing is here; there are\n{paths}\n")
    }

    async fn content(&self, kind: &'static str, pending: Pending<String>) -> Answer {
        let Ok(permit) = Arc::clone(&self.answers).try_acquire_owned() else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "too many requests at once; try again\n");
        };
        match self.within(pending).await {
            Ok(text) => answer(StatusCode::OK, kind, Bytes::from_owner(Held { text, _permit: permit })),
            Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        }
    }

    async fn within<T>(&self, pending: Pending<T>) -> Result<T, Unavailable> {
        match timeout(self.content_within, pending).await {
            Ok(content) => content,
            Err(_) => {
                let seconds = self.content_within.as_secs_f64();
                tracing::error!(seconds, "the daemon's control thread does not answer");
                Err(Unavailable(format!("the daemon's control thread did not answer within {seconds} s")))
            }
        }
    }
}

/// An answer counts as one until the client has taken it, and its memory is freed.
struct Held {
    text: String,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    answer(status, TEXT, text.into())
}

fn refusal(status: StatusCode, why: &str) -> Answer {
    json(status, &serde_json::json!({ "error": why }))
}

fn json(status: StatusCode, value: &serde_json::Value) -> Answer {
    answer(status, JSON, format!("{value}\n").into())
}

fn answer(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    // Said by us, since there is no body to measure in the answer to a HEAD.
    let length = body.len();
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
