//! Our files and directory, touched by others: found after the next run, since each looks whether its file is still in its place.

use super::case::{Acted, Case};
use super::room::Room;
use super::sign::Sign::{Error, GoesOn, Skipped, State};
use super::table::Scenario;
use crate::lab;
use crate::targets::{BOTH, COMMITS, READS};
use rustix::fs::{FlockOperation, flock};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// A target's directory, and room for what a case remembers.
struct Place {
    path: PathBuf,
    kept: Option<fs::File>,
}

impl Place {
    fn ours(&self) -> PathBuf {
        self.path.join(".diskcanary")
    }

    fn commits(&self) -> PathBuf {
        self.ours().join("commits")
    }

    fn reads(&self) -> PathBuf {
        self.ours().join("reads")
    }
}

fn at(room: &Room, name: &str, keys: &'static str) -> Acted<Place> {
    let path = room.directory(name);
    Acted::on(Place { path: path.clone(), kept: None }, &path, keys)
}

/// Something that is not ours lies where our file was, and stays as it is until somebody takes it away.
fn replaced(room: &Room, name: &str, put: fn(&mut Place, u32), take: fn(&mut Place, u32)) -> Box<dyn Case> {
    at(room, name, COMMITS).struck(put).lifted(take).boxed()
}

fn remove(place: &mut Place, _: u32) {
    fs::remove_file(place.commits()).unwrap();
}

fn is_dear(file: &Path) {
    assert_eq!(fs::read_to_string(file).unwrap(), "dear", "somebody's file was touched");
}

const FOREIGN: &str = "it is refused and left as it is; when it is taken away the file is laid out anew";
const ANEW: &str = "the file is laid out anew";

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "commit_file_deleted",
        kind: "probe file deleted",
        made: "the commit file is removed under the running daemon",
        seen: &[Error("commit", "open", "ENOENT")],
        recovers: ANEW,
        after: &[GoesOn("commit")],
        make: |room| at(room, "commit_file_deleted", COMMITS).struck(remove).boxed(),
    },
    Scenario {
        name: "read_file_deleted",
        kind: "probe file deleted",
        made: "the read file is removed under the running daemon",
        seen: &[Error("read", "open", "ENOENT"), GoesOn("commit")],
        recovers: ANEW,
        after: &[GoesOn("read")],
        make: |room| {
            at(room, "read_file_deleted", BOTH).struck(|p, _| fs::remove_file(p.reads()).unwrap()).boxed()
        },
    },
    Scenario {
        name: "commit_file_cut",
        kind: "probe file truncated",
        made: "the commit file is cut to half its size and 100 bytes",
        seen: &[Error("commit", "open", "EBADMSG")],
        recovers: ANEW,
        after: &[GoesOn("commit")],
        make: |room| {
            at(room, "commit_file_cut", COMMITS)
                .struck(|p, _| {
                    let file = fs::OpenOptions::new().write(true).open(p.commits()).unwrap();
                    file.set_len((2 << 20) + 100).unwrap();
                })
                .judged(|p, _| assert_eq!(fs::metadata(p.commits()).unwrap().len(), 4 << 20))
                .boxed()
        },
    },
    Scenario {
        name: "read_file_cut",
        kind: "probe file truncated",
        made: "the read file is cut to half its size and 100 bytes",
        seen: &[State("gone")],
        recovers: ANEW,
        after: &[GoesOn("read")],
        make: |room| {
            at(room, "read_file_cut", READS)
                .struck(|p, _| {
                    let file = fs::OpenOptions::new().write(true).open(p.reads()).unwrap();
                    file.set_len((32 << 20) + 100).unwrap();
                })
                .judged(|p, patient| {
                    assert_eq!(fs::metadata(p.reads()).unwrap().len(), 64 << 20);
                    let short = patient.more("samples_invalid_total", &[("reason", "short_io")]);
                    let moved = patient.more("probe_errors_total", &[("errno", "EBADMSG")]);
                    assert!(short + moved >= 1.0, "{short} {moved}");
                })
                .boxed()
        },
    },
    Scenario {
        name: "file_in_its_place",
        kind: "probe file replaced",
        made: "somebody's file is moved over the commit file",
        seen: &[Error("commit", "open", "EBADMSG"), State("unsupported"), Skipped("commit", "unsupported")],
        recovers: FOREIGN,
        after: &[],
        make: |room| {
            replaced(
                room,
                "file_in_its_place",
                |p, _| {
                    fs::write(p.path.join("letter"), "dear").unwrap();
                    fs::rename(p.path.join("letter"), p.commits()).unwrap();
                },
                |p, pid| {
                    is_dear(&p.commits());
                    remove(p, pid);
                },
            )
        },
    },
    Scenario {
        name: "directory_in_its_place",
        kind: "probe file replaced",
        made: "a directory stands where the commit file was",
        seen: &[State("unsupported"), Error("commit", "open", "EEXIST")],
        recovers: FOREIGN,
        after: &[],
        make: |room| {
            replaced(
                room,
                "directory_in_its_place",
                |p, pid| {
                    remove(p, pid);
                    fs::create_dir(p.commits()).unwrap();
                },
                |p, _| fs::remove_dir(p.commits()).unwrap(),
            )
        },
    },
    Scenario {
        name: "link_in_its_place",
        kind: "probe file replaced",
        made: "a link to somebody's file stands where the commit file was",
        seen: &[State("unsupported"), Error("commit", "open", "EEXIST")],
        recovers: FOREIGN,
        after: &[],
        make: |room| {
            replaced(
                room,
                "link_in_its_place",
                |p, pid| {
                    fs::write(p.path.join("letter"), "dear").unwrap();
                    remove(p, pid);
                    symlink(p.path.join("letter"), p.commits()).unwrap();
                },
                |p, pid| {
                    is_dear(&p.path.join("letter"));
                    remove(p, pid);
                },
            )
        },
    },
    Scenario {
        name: "pipe_in_its_place",
        kind: "probe file replaced",
        made: "a FIFO, which an open would wait for, stands where the commit file was",
        seen: &[State("unsupported"), Error("commit", "open", "EEXIST")],
        recovers: FOREIGN,
        after: &[],
        make: |room| {
            replaced(
                room,
                "pipe_in_its_place",
                |p, pid| {
                    remove(p, pid);
                    lab::run("mkfifo", &[p.commits()]);
                },
                |p, pid| {
                    assert!(fs::symlink_metadata(p.commits()).unwrap().file_type().is_fifo());
                    remove(p, pid);
                },
            )
        },
    },
    Scenario {
        name: "our_directory_removed",
        kind: "our directory removed",
        made: "`rm -r .diskcanary` under the running daemon",
        seen: &[Error("commit", "open", "ENOENT"), Error("read", "open", "ENOENT")],
        recovers: "directory, mark, lock and files are made anew",
        after: &[GoesOn("commit"), GoesOn("read")],
        make: |room| {
            at(room, "our_directory_removed", BOTH)
                .struck(|p, _| fs::remove_dir_all(p.ours()).unwrap())
                .judged(|p, _| assert!(p.ours().join("CACHEDIR.TAG").exists()))
                .boxed()
        },
    },
    Scenario {
        name: "our_directory_moved",
        kind: "our directory renamed",
        made: "`.diskcanary` gets another name, and later its own again",
        seen: &[Error("commit", "open", "ENOENT"), GoesOn("commit")],
        recovers: "a new one is made; when the old one is back in its place its files are used again",
        after: &[GoesOn("commit")],
        make: |room| {
            at(room, "our_directory_moved", COMMITS)
                .struck(|p, _| {
                    p.kept = Some(fs::File::open(p.commits()).unwrap());
                    fs::rename(p.ours(), p.path.join("away")).unwrap();
                })
                .lifted(|p, _| {
                    fs::rename(p.ours(), p.path.join("newer")).unwrap();
                    fs::rename(p.path.join("away"), p.ours()).unwrap();
                })
                .judged(|p, _| {
                    let first = p.kept.as_ref().unwrap().metadata().unwrap().ino();
                    assert_eq!(fs::metadata(p.commits()).unwrap().ino(), first);
                })
                .boxed()
        },
    },
    Scenario {
        name: "our_directory_replaced",
        kind: "our directory replaced by another's",
        made: "a directory with somebody's file stands where `.diskcanary` was",
        seen: &[State("unsupported"), Error("commit", "open", "EEXIST"), Skipped("commit", "unsupported")],
        recovers: "it is refused and left as it is; when the right one is back its files are used again",
        after: &[],
        make: |room| {
            at(room, "our_directory_replaced", COMMITS)
                .struck(|p, _| {
                    fs::rename(p.ours(), p.path.join("away")).unwrap();
                    fs::create_dir(p.ours()).unwrap();
                    fs::write(p.ours().join("letter"), "dear").unwrap();
                })
                .lifted(|p, _| {
                    is_dear(&p.ours().join("letter"));
                    fs::remove_dir_all(p.ours()).unwrap();
                    fs::rename(p.path.join("away"), p.ours()).unwrap();
                })
                .boxed()
        },
    },
    Scenario {
        name: "tag_gone",
        kind: "our mark removed",
        made: "CACHEDIR.TAG is removed under the running daemon",
        seen: &[State("ready"), GoesOn("commit")],
        recovers: "no harm: the open directory is locked, and known by its identity",
        after: &[],
        make: |room| {
            at(room, "tag_gone", COMMITS)
                .struck(|p, _| fs::remove_file(p.ours().join("CACHEDIR.TAG")).unwrap())
                .boxed()
        },
    },
    Scenario {
        name: "made_immutable",
        kind: "immutable flag",
        made: "`chattr +i` on the commit file",
        seen: &[State("permission"), Error("commit", "write", "EPERM"), Skipped("commit", "permission")],
        recovers: "found at the next look after `chattr -i`",
        after: &[],
        make: |room| {
            at(room, "made_immutable", COMMITS)
                .struck(|p, _| drop(lab::run("chattr", &["+i".as_ref(), p.commits().as_os_str()])))
                .lifted(|p, _| drop(lab::run("chattr", &["-i".as_ref(), p.commits().as_os_str()])))
                .boxed()
        },
    },
    Scenario {
        name: "locked_by_another",
        kind: "another process has the lock",
        made: "the lock in `.diskcanary` is held when the daemon starts",
        seen: &[State("unsupported"), Error("commit", "open", "EBUSY")],
        recovers: "when the lock is given up",
        after: &[],
        make: |room| {
            let mut place = Place { path: room.directory("locked_by_another"), kept: None };
            fs::create_dir(place.ours()).unwrap();
            let lock = fs::File::create(place.ours().join("lock")).unwrap();
            flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
            place.kept = Some(lock);
            let path = place.path.clone();
            Acted::on(place, &path, COMMITS).ill().lifted(|p, _| p.kept = None).boxed()
        },
    },
    Scenario {
        name: "path_becomes_a_file",
        kind: "path that cannot be resolved",
        made: "the target's directory is moved away, and a file has its name",
        seen: &[State("unsupported"), Error("commit", "open", "ENOTDIR")],
        recovers: "when the directory is back",
        after: &[],
        make: |room| {
            at(room, "path_becomes_a_file", COMMITS)
                .struck(|p, _| {
                    fs::rename(&p.path, p.path.with_extension("away")).unwrap();
                    fs::write(&p.path, "dear").unwrap();
                })
                .lifted(|p, _| {
                    is_dear(&p.path);
                    fs::remove_file(&p.path).unwrap();
                    fs::rename(p.path.with_extension("away"), &p.path).unwrap();
                })
                .boxed()
        },
    },
    Scenario {
        name: "links_in_a_circle",
        kind: "path that cannot be resolved",
        made: "the path is a link to itself; later to a directory",
        seen: &[State("gone"), Error("commit", "open", "ELOOP")],
        recovers: "when the link is mended",
        after: &[],
        make: |room| linked(room, "links_in_a_circle", "circle".into()),
    },
    Scenario {
        name: "name_too_long",
        kind: "path that cannot be resolved",
        made: "the path is a link to a name of 300 bytes; later to a directory",
        seen: &[State("gone"), Error("commit", "open", "ENAMETOOLONG")],
        recovers: "when the link is mended",
        after: &[],
        make: |room| linked(room, "name_too_long", "x".repeat(300).into()),
    },
    Scenario {
        name: "very_deep",
        kind: "path that is missing",
        made: "a directory 400 levels down, moved away and back",
        seen: &[State("gone"), Error("commit", "open", "ENOENT")],
        recovers: "when it is back",
        after: &[],
        make: |room| {
            let top = room.directory("very_deep");
            let path = top.join("d/e/e/p".repeat(100));
            fs::create_dir_all(&path).unwrap();
            Acted::on(top, &path, COMMITS)
                .struck(|top, _| fs::rename(&top, top.with_extension("away")).unwrap())
                .lifted(|top, _| fs::rename(top.with_extension("away"), &top).unwrap())
                .boxed()
        },
    },
];

/// A link that leads nowhere from the start, and to a directory when it is mended.
fn linked(room: &Room, name: &'static str, to: PathBuf) -> Box<dyn Case> {
    let goal = room.directory(name);
    let corner = room.corner(name);
    // A link of this name in this place leads to itself when that is what it says.
    let link = corner.join("circle");
    symlink(to, &link).unwrap();
    Acted::on((link.clone(), goal), &link, COMMITS)
        .ill()
        .lifted(|(link, goal), _| {
            fs::remove_file(&link).unwrap();
            symlink(goal, link).unwrap();
        })
        .boxed()
}
