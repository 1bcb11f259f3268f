//! Being told when something is mounted or unmounted.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{Mode, OFlags, open};

use super::Errno;

/// Waits for a change of the mounts that this process sees.
#[derive(Debug)]
pub struct MountWatch {
    mountinfo: Option<OwnedFd>,
    woken: Arc<OwnedFd>,
}

/// Ends a wait of another thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl MountWatch {
    /// Watches from here on. Where `mountinfo` cannot be opened, no change is ever told.
    pub fn new(mountinfo: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let woken = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { mountinfo: open(mountinfo, flags, Mode::empty()).ok(), woken: Arc::new(woken) })
    }

    /// What ends a wait at once.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.woken))
    }

    /// Until something was mounted or unmounted since the last call, the waker was used, or the time is over.
    pub fn wait(&self, most: Duration) {
        let mut all = vec![PollFd::new(&self.woken, PollFlags::IN)];
        all.extend(self.mountinfo.iter().map(|fd| PollFd::new(fd, PollFlags::PRI)));
        let most = Timespec::try_from(most).ok();
        // A signal or an error ends the wait early, which does no harm.
        let _ = poll(&mut all, most.as_ref());
        let _ = rustix::io::read(self.woken.as_fd(), &mut [0; 8]);
    }
}

impl Waker {
    /// Ends the wait that goes on, or the next one.
    pub fn wake(&self) {
        // It can only fail for too many wake-ups that were not seen yet.
        let _ = rustix::io::write(self.0.as_fd(), &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test measures how long it waited")]
    fn a_wait_ends_in_time_or_when_it_is_told_to() {
        let watch = MountWatch::new(Path::new("/proc/self/mountinfo")).unwrap();
        let begun = Instant::now();
        watch.waker().wake();
        watch.waker().wake();
        watch.wait(LONG);
        assert!(begun.elapsed() < LONG);
        // Mounts of other tests may come and go meanwhile, which ends it too.
        watch.wait(Duration::from_millis(20));
        let blind = MountWatch::new(Path::new("/no/such/file")).unwrap();
        let begun = Instant::now();
        blind.wait(Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20));
    }
}
