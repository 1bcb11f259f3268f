//! Accepts, serves within the limits, and ends when told to.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::deadline::TakenWithin;
use super::site::{Content, Site};
use super::{Config, Error, Limits, Listeners};

/// hyper takes no smaller bound.
const LEAST_HEAD: usize = 8192;
/// Rest after an accept that failed: with no descriptor left, the next one would fail as quickly.
const REST: Duration = Duration::from_millis(100);

/// Answers on all of `listeners` until `shutdown` is done; then accepts nothing more, closes idle connections, and
/// returns when the answers in flight are taken or the grace is over. Needs a Tokio runtime with I/O and time, of
/// which it starts no thread. What it starts ends with it, also when this future is dropped.
pub async fn serve(
    listeners: Listeners,
    config: Config,
    content: Arc<dyn Content>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let listeners: Vec<TcpListener> = listeners
        .0
        .into_iter()
        .map(TcpListener::from_std)
        .collect::<Result<_, _>>()
        .map_err(Error::Runtime)?;
    let site = Arc::new(Site::new(&config, content));
    let limits = config.limits;
    let room = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut troubles = Troubles::default();
    let mut shutdown = pin!(shutdown);
    while let Some(accepted) = poll_fn(|cx| next(&listeners, shutdown.as_mut(), cx)).await {
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, peer)) => {
                troubles.accepts(None);
                let permit = Arc::clone(&room).try_acquire_owned();
                troubles.room(room.available_permits(), limits.connections);
                if let Ok(permit) = permit {
                    let _ = stream.set_nodelay(true);
                    let served = connection(stream, peer.ip(), limits, Arc::clone(&site), graceful.watcher());
                    connections.spawn(async move {
                        served.await;
                        drop(permit);
                    });
                }
            }
            Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(e) => {
                troubles.accepts(Some(&e));
                sleep(REST).await;
            }
        }
    }
    drop(listeners);
    if timeout(limits.grace, graceful.shutdown()).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "connections cut: their answers were not taken in time"
        );
    }
    Ok(())
}

/// The next connection, or `None` when it is time to end.
fn next(
    listeners: &[TcpListener],
    shutdown: Pin<&mut impl Future<Output = ()>>,
    cx: &mut Context<'_>,
) -> Poll<Option<io::Result<(TcpStream, SocketAddr)>>> {
    if shutdown.poll(cx).is_ready() {
        return Poll::Ready(None);
    }
    for listener in listeners {
        if let Poll::Ready(accepted) = listener.poll_accept(cx) {
            return Poll::Ready(Some(accepted));
        }
    }
    Poll::Pending
}

async fn connection<S>(stream: S, peer: IpAddr, limits: Limits, site: Arc<Site>, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answer = service_fn(move |request: Request<Incoming>| {
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(site.answer(&request, peer).await) }
    });
    let io = TokioIo::new(TakenWithin::new(limits.taken_within, stream));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_within)
        .max_buf_size(limits.head_bytes.max(LEAST_HEAD))
        .serve_connection(io, answer);
    if let Err(e) = watcher.watch(served).await {
        tracing::debug!(error = %e, "connection ended");
    }
}

/// Says each trouble once when it comes, not once for each connection.
#[derive(Default)]
struct Troubles {
    failing: bool,
    full: bool,
}

impl Troubles {
    fn accepts(&mut self, error: Option<&io::Error>) {
        if let (Some(error), false) = (error, self.failing) {
            tracing::warn!(%error, "cannot accept HTTP connections; trying on");
        }
        self.failing = error.is_some();
    }

    fn room(&mut self, free: usize, all: usize) {
        if free == 0 && !self.full {
            tracing::warn!(
                connections = all,
                "as many HTTP connections as allowed; more are closed as they come"
            );
            self.full = true;
        } else if free > all / 2 {
            self.full = false;
        }
    }
}
