//! What HTTP shows, asked of the control thread, which answers from memory.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::control::Message;
use super::inbox::Outbox;
use crate::clock;
use crate::expose::OwnCounters;
use crate::http::{Command, Content, NoTarget, Pending, Unavailable};
use crate::record::Snapshot;
use crate::sys::ProcessStats;
use crate::{expose, page};

/// The content of a running daemon.
pub(super) struct FromControl {
    messages: Outbox,
    own: OwnCounters,
}

impl FromControl {
    pub(super) fn new(messages: Outbox, own: OwnCounters) -> Self {
        Self { messages, own }
    }

    fn snapshot(&self) -> Pending<Arc<Snapshot>> {
        self.ask(Message::Snapshot)
    }

    fn ask<T: Send + 'static>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Message) -> Pending<T> {
        let (tell, told) = oneshot::channel();
        let sent = self.messages.send(question(tell));
        Box::pin(async move {
            let gone = || Unavailable("the daemon is ending".into());
            sent.map_err(|_| gone())?;
            told.await.map_err(|_| gone())
        })
    }
}

impl Content for FromControl {
    fn metrics(&self) -> Pending<String> {
        let (snapshot, own) = (self.snapshot(), self.own.clone());
        Box::pin(async move {
            let snapshot = snapshot.await?;
            let mut text = String::new();
            expose::text(&snapshot, clock::now(), &mut text);
            expose::append(&own.families(), &mut text);
            if let Some(stats) = ProcessStats::read() {
                expose::append(&expose::process(&stats), &mut text);
            }
            Ok(text)
        })
    }

    fn page(&self) -> Pending<String> {
        let snapshot = self.snapshot();
        Box::pin(async move { Ok(page::status(&*snapshot.await?, clock::now())) })
    }

    fn healthy(&self) -> Pending<()> {
        let answer = self.ask(Message::Ready);
        Box::pin(async move { answer.await.map(drop) })
    }

    fn ready(&self) -> Pending<()> {
        let ready = self.ask(Message::Ready);
        Box::pin(async move { ready.await?.map_err(Unavailable) })
    }

    fn command(&self, command: Command) -> Pending<Result<(), NoTarget>> {
        self.ask(|tell| Message::Command(command, tell))
    }
}
