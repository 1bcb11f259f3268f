//! A stream whose reader has to keep up: an answer that is not taken in time ends the connection.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The clock runs from the first write that the client's window does not take until all is flushed, not from one
/// taken byte to the next: a client that takes one byte now and then cannot hold an answer for ever.
#[derive(Debug)]
pub(super) struct TakenWithin<S> {
    stream: S,
    limit: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> TakenWithin<S> {
    pub(super) fn new(limit: Duration, stream: S) -> Self {
        Self { stream, limit, waiting: None }
    }

    fn guard<T>(&mut self, written: Poll<Result<T>>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        if written.is_ready() && self.waiting.is_none() {
            return written;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        if waiting.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client did not take its answer")));
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TakenWithin<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TakenWithin<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.guard(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.guard(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes once it has written all that it had.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        ready!(self.guard(flushed, cx))?;
        self.waiting = None;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.guard(shut, cx)
    }
}
