//! The daemon: start order, the control loop, signals, drain.
//!
//! Three kinds of thread: the control thread, which decides and keeps the books and never touches a disk; the lanes, which
//! do what may never return; and the main thread, which serves HTTP. A ticker beats beside them, so that a long sample
//! can be told from a daemon that was stopped, and a sampler looks at the machine once a second.

mod about;
mod budget;
mod content;
mod control;
mod discovery;
mod facts;
mod footing;
mod forecast;
mod inbox;
mod keep;
mod lanes;
mod once;
mod reload;
mod sampler;
mod seats;
mod standstill;
mod sweep_once;
mod sweeping;
mod sweeps;
mod target;
mod wanted;
mod watch;
mod work;

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::clock;
use crate::config::Plan;
use crate::expose::OwnCounters;
use crate::http;
use crate::probe::heartbeat::{Heartbeat, PERIOD};
use crate::sys::{self, Errno};
use crate::target::Roots;
pub use forecast::{series, sweep_series};
pub use once::{Ended, Halt, Once, Step, once};
pub use reload::Load;
pub use sweep_once::{SweepOnce, SweepStep, Swept, sweep_once};
pub use sweeping::next_sweeps;

use content::FromControl;
use control::{Control, Message};
use footing::Footing;
use inbox::Outbox;
use keep::Keeper;
use reload::Reloader;

/// How long a run that is out may go on after we were told to end. A lane that is stuck is not waited for any longer.
const GRACE: Duration = Duration::from_secs(5);
/// How long the end waits for the state to be on the disk.
const LAST_STATE: Duration = Duration::from_secs(1);
/// A minute, in beats of the ticker.
const MINUTE: u32 = 600;

/// Why the daemon did not start, or ended.
#[derive(Debug)]
pub enum Error {
    /// Listening failed, or serving did.
    Http(http::Error),
    /// A thread, runtime or signal handler could not be had.
    Start(&'static str, Errno),
    /// The control thread is gone, though nobody told it to end.
    ControlEnded,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(error) => error.fmt(f),
            Self::Start(what, errno) => write!(f, "cannot start {what}: {errno}"),
            Self::ControlEnded => f.write_str(
                "the control thread ended unasked, so nothing would be probed any more; this is a bug: please report it",
            ),
        }
    }
}

impl std::error::Error for Error {}

/// Probes what the plan says and serves what was found, until SIGTERM or SIGINT. On SIGHUP `load` reads the config anew; a bad one
/// changes nothing. `own` is shown too, and counts. What is to outlive a restart is kept in `state`; without that directory it
/// is not.
pub fn run(
    plan: &Plan,
    load: Box<Load>,
    web: http::Config,
    own: &OwnCounters,
    state: Option<PathBuf>,
) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::Start("the runtime", e.into()))?;
    // First of all: a SIGHUP while we start must not end us.
    let signals = runtime.block_on(async { take_signals() })?;
    let listeners = http::bind(&web.addresses).map_err(Error::Http)?;
    let addresses: Vec<String> = listeners.addresses().iter().map(ToString::to_string).collect();
    let heart = Arc::new(Heartbeat::new(clock::now()));
    let (stops, footing) = (own.prober_stops.clone(), Footing::take(own));
    let keeper = Keeper::open(state, own);
    let kept = keeper.handle();
    let (messages, inbox) = inbox::inbox();
    let control = Control::new(plan, &heart, &Arc::new(Roots::default()), &messages, keeper, own)?;
    let ended = start_control(move || control.run(&inbox))?;
    start_ticker(Arc::clone(&heart), move || footing.renew(), move || stops.inc())?;
    let reloader = Reloader::start(load, messages.clone(), own.clone())?;
    own.reloaded(true, clock::wall());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        targets = plan.targets.len(),
        addresses = addresses.join(" "),
        "probing"
    );
    let result = runtime.block_on(async {
        let told = told_to_end(signals, reloader);
        let content = FromControl::new(messages.clone(), own.clone());
        serve_while(ended, serve(listeners, web, content, told, &messages)).await
    });
    if !kept.flush(LAST_STATE) {
        tracing::warn!("ended with the last state not on the disk");
    }
    result
}

/// Starts the control thread. What is returned is ready when that thread ends, also by a panic.
fn start_control(work: impl FnOnce() + Send + 'static) -> Result<oneshot::Receiver<Infallible>, Error> {
    let (alive, ended) = oneshot::channel();
    let thread = thread::Builder::new().name("control".into()).spawn(move || {
        let _alive = alive;
        work();
    });
    thread.map(|_| ended).map_err(|e| Error::Start("the control thread", e.into()))
}

/// Without the control thread nothing is probed, and serving on would hide that.
async fn serve_while(
    ended: oneshot::Receiver<Infallible>,
    served: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    tokio::select! {
        biased;
        result = served => result,
        _ = ended => Err(Error::ControlEnded),
    }
}

/// Until told to end; then what is out may finish.
async fn serve(
    listeners: http::Listeners,
    web: http::Config,
    content: FromControl,
    told: impl Future<Output = ()>,
    messages: &Outbox,
) -> Result<(), Error> {
    http::serve(listeners, web, Arc::new(content), told).await.map_err(Error::Http)?;
    drain(messages).await
}

/// The signals that we take.
struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
}

/// Takes the signals, so that from now on none of them ends us. Within the runtime.
fn take_signals() -> Result<Signals, Error> {
    let on = |kind| signal(kind).map_err(|e| Error::Start("a signal handler", e.into()));
    Ok(Signals {
        term: on(SignalKind::terminate())?,
        int: on(SignalKind::interrupt())?,
        hup: on(SignalKind::hangup())?,
    })
}

/// Ends when a signal says so. SIGHUP reloads.
async fn told_to_end(mut signals: Signals, reloader: Reloader) {
    loop {
        let name = tokio::select! {
            _ = signals.term.recv() => "SIGTERM",
            _ = signals.int.recv() => "SIGINT",
            _ = signals.hup.recv() => {
                reloader.ask();
                continue;
            }
        };
        tracing::info!(signal = name, "ending");
        return;
    }
}

/// Starts nothing more and waits for what is out, at most for the grace.
async fn drain(messages: &Outbox) -> Result<(), Error> {
    let (tell, told) = oneshot::channel();
    messages.send(Message::Drain(tell)).map_err(|_| Error::ControlEnded)?;
    match tokio::time::timeout(GRACE, told).await {
        Ok(Ok(())) => tracing::info!("ended; nothing was out"),
        Ok(Err(_)) => return Err(Error::ControlEnded),
        Err(_) => tracing::warn!(
            grace_seconds = GRACE.as_secs(),
            "ended with operations still out; the kernel keeps them"
        ),
    }
    Ok(())
}

/// Calls `late` after each gap, and `each_minute` at once and then every minute.
fn start_ticker(
    heart: Arc<Heartbeat>,
    each_minute: impl Fn() + Send + 'static,
    late: impl Fn() + Send + 'static,
) -> Result<(), Error> {
    let beat = move || {
        for beat in (0..MINUTE).cycle() {
            if heart.beat(clock::now()) {
                late();
            }
            if beat == 0 {
                each_minute();
            }
            thread::sleep(PERIOD);
        }
    };
    let thread = thread::Builder::new().name("ticker".into()).stack_size(64 << 10).spawn(beat);
    thread.map(drop).map_err(|e| Error::Start("the ticker", e.into()))
}

/// Makes the state directory, the one directory beside our own that is ever made.
pub fn make_state_directory(path: &std::path::Path) -> Result<(), Errno> {
    sys::make_directories(path)
}

#[cfg(test)]
mod tests;
