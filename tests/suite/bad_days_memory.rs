//! A file system in memory is refused by what it says of itself, where no mount tells: as in a sandbox without `/proc`.

use diskcanary::io::{Inflight, Wish};
use diskcanary::probe::heartbeat::Heartbeat;
use diskcanary::probe::{Method, Profile, State};
use diskcanary::schedule::{CommitSpec, Context, Job, Report, Spec, writer};
use diskcanary::target::Roots;
use diskcanary::units::Bytes;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::lab::{self, Mounted, Need};

#[test]
fn memory_is_refused_by_what_it_is_not_by_its_mount() {
    if lab::lacks(&[Need::Root]) {
        return;
    }
    let memory = Mounted::tmpfs(1 << 30);
    let nothing = lab::Scratch::new();
    let commit =
        CommitSpec { profile: Profile::Overwrite, method: Method::Fdatasync, file_size: Bytes::mib(4) };
    let context = Context {
        spec: Arc::new(Spec {
            path: memory.path().to_owned(),
            probe_dir: None,
            engine: Wish::Auto,
            commit: Some(commit),
            read: None,
            reserve: None,
        }),
        inflight: Arc::new(Inflight::default()),
        heart: Arc::new(Heartbeat::new(diskcanary::clock::now())),
        roots: Arc::new(Roots { proc: nothing.path().to_owned(), ..Roots::default() }),
        seed: 1,
    };
    let (tell, told) = mpsc::channel();
    let lane = writer::spawn(context, move |report, _| drop(tell.send(report))).unwrap();
    assert!(lane.give(None, Job::Prepare { was: None }));
    match told.recv_timeout(Duration::from_secs(30)).unwrap() {
        Report::Failed(trouble) => {
            assert_eq!(trouble.state, State::Unsupported);
            assert!(trouble.failure.message.contains("in memory"), "{}", trouble.failure.message);
        }
        other => panic!("{other:?}"),
    }
    assert!(!memory.path().join(".diskcanary").exists());
}
