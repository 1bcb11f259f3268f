//! File systems that turn read-only, fill up, are taken away, hidden and exchanged.

use super::case::Acted;
use super::room::Room;
use super::sign::Sign::{Error, Failed, GoesOn, NewDisks, Skipped, State};
use super::table::Scenario;
use crate::lab::{self, Loop, Mounted};
use crate::targets::{BOTH, COMMITS};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file system that is mounted at a place, and what else a case needs.
struct Shelf {
    disk: Mounted,
    other: Option<Mounted>,
    loops: Vec<Loop>,
}

impl Shelf {
    fn path(&self) -> &Path {
        self.disk.path()
    }

    fn mount(&self, device: &Path) {
        lab::run("mount", &[device, self.path()]);
    }

    fn mount_again(&self) {
        self.mount(self.disk.disk().device());
    }

    /// Off the name space, and then off the kernel: the file system ends when the daemon has closed what it had open there.
    fn unmount_wholly(&self, pid: u32) {
        if lab::is_mounted(self.path()) {
            self.disk.unmount_lazily();
        }
        let (major, minor) = self.disk.disk().number();
        let device = libc::makedev(major, minor);
        lab::eventually("the daemon has let go of the file system", || {
            let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
            !open.into_iter().any(|fd| fs::metadata(fd.path()).is_ok_and(|m| m.dev() == device))
        });
    }
}

fn on(disk: Mounted, keys: &'static str) -> Acted<Shelf> {
    let path = disk.path().to_owned();
    Acted::on(Shelf { disk, other: None, loops: Vec::new() }, &path, keys)
}

/// With another disk, which is mounted nowhere yet.
fn beside(room: &Room, keys: &'static str) -> Acted<Shelf> {
    let (disk, other) = (room.ext4(), room.ext4());
    other.unmount_lazily();
    let path = disk.path().to_owned();
    Acted::on(Shelf { disk, other: Some(other), loops: Vec::new() }, &path, keys)
}

fn nothing_was_made(shelf: &Shelf) {
    assert!(!lab::is_mounted(shelf.path()));
    assert!(!shelf.path().join(".diskcanary").exists(), "files on the disk below the mount point");
}

fn bulk(disk: &Mounted) -> PathBuf {
    disk.path().join("bulk")
}

/// Takes all the room there is.
fn fill(disk: &Mounted) {
    let file = fs::File::create(bulk(disk)).unwrap();
    let free = rustix::fs::statvfs(disk.path()).unwrap();
    let most = (free.f_bavail * free.f_frsize).saturating_sub(4 << 20);
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, most).unwrap();
    disk.fill();
}

fn free(disk: &Mounted) {
    fs::remove_file(bulk(disk)).unwrap();
    disk.free();
}

/// The file system forgets how to do anything, at once and for good (`FS_IOC_SHUTDOWN`, without writing its log).
fn shut_down(s: &mut Shelf, _: u32) {
    const SHUTDOWN: libc::Ioctl = 0x8004_587d;
    let (root, without_log) = (fs::File::open(s.path()).unwrap(), 2_u32);
    // SAFETY: this command reads one 32-bit number.
    let done = unsafe { libc::ioctl(root.as_raw_fd(), SHUTDOWN, &raw const without_log) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn mounted_anew(s: &mut Shelf, pid: u32) {
    s.unmount_wholly(pid);
    s.mount_again();
}

const NEXT_LOOK: &str = "found at the next look";

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "mounted_read_only",
        kind: "read-only",
        made: "ext4 mounted read-only before the start; `mount -o remount,rw` later",
        seen: &[State("read_only"), Error("commit", "open", "EROFS"), Skipped("commit", "read_only")],
        recovers: NEXT_LOOK,
        after: &[],
        make: |room| {
            let disk = room.ext4();
            disk.remount("ro");
            on(disk, BOTH).ill().lifted(|s, _| s.disk.remount("rw")).boxed()
        },
    },
    Scenario {
        name: "emergency_read_only",
        kind: "read-only after an error of the file system",
        made: "ext4 with errors=remount-ro, an error triggered in sysfs; later unmounted and mounted again",
        seen: &[State("read_only"), Failed("commit", "EROFS"), GoesOn("read")],
        recovers: "when it is mounted again",
        after: &[NewDisks(0)],
        make: |room| {
            on(room.ext4_with(&[], "errors=remount-ro"), BOTH)
                .struck(|s, _| {
                    let device = s.disk.disk().device().file_name().unwrap().to_str().unwrap().to_owned();
                    fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "1").unwrap();
                })
                .lifted(|s, pid| {
                    s.unmount_wholly(pid);
                    s.mount_again();
                })
                .boxed()
        },
    },
    Scenario {
        name: "ext4_shut_down",
        kind: "the file system has shut itself down",
        made: "ext4, FS_IOC_SHUTDOWN as after an error of the journal; later unmounted and mounted again",
        seen: &[State("gone"), Failed("commit", "EIO"), Failed("read", "EIO")],
        recovers: "when it is mounted again",
        after: &[NewDisks(0)],
        make: |room| on(room.ext4(), BOTH).struck(shut_down).lifted(mounted_anew).boxed(),
    },
    Scenario {
        name: "xfs_shut_down",
        kind: "the file system has shut itself down",
        made: "xfs, the same",
        seen: &[State("gone"), Failed("commit", "EIO"), Failed("read", "EIO")],
        recovers: "when it is mounted again",
        after: &[NewDisks(0)],
        make: |room| on(room.xfs(), BOTH).struck(shut_down).lifted(mounted_anew).boxed(),
    },
    Scenario {
        name: "unmounted",
        kind: "unmounted and mounted again",
        made: "`umount -l` under the running daemon; the bare mount point lies on another disk",
        seen: &[State("gone"), Error("commit", "open", "ENODEV"), Skipped("commit", "gone")],
        recovers: "when it is mounted again; nothing is made on the disk below the mount point",
        after: &[NewDisks(0)],
        make: |room| {
            on(room.ext4(), BOTH)
                .struck(|s, _| s.disk.unmount_lazily())
                .lifted(|s, pid| {
                    nothing_was_made(s);
                    s.unmount_wholly(pid);
                    s.mount_again();
                })
                .boxed()
        },
    },
    Scenario {
        name: "mount_point_removed",
        kind: "mount point removed",
        made: "`umount -l` and `rmdir`; later the directory and the mount are made again",
        seen: &[State("gone"), Error("commit", "open", "ENOENT")],
        recovers: "when it is mounted again",
        after: &[NewDisks(0)],
        make: |room| {
            on(room.ext4(), BOTH)
                .struck(|s, _| {
                    s.disk.unmount_lazily();
                    fs::remove_dir(s.path()).unwrap();
                })
                .lifted(|s, pid| {
                    s.unmount_wholly(pid);
                    fs::create_dir(s.path()).unwrap();
                    s.mount_again();
                })
                .boxed()
        },
    },
    Scenario {
        name: "mounted_over",
        kind: "another disk under an old name",
        made: "a second ext4 is mounted at the same place, and taken away later",
        seen: &[NewDisks(1), GoesOn("commit")],
        recovers: "what is in the place is measured: first the one, then the other disk",
        after: &[NewDisks(2)],
        make: |room| {
            beside(room, BOTH)
                .struck(|s, _| s.mount(s.other.as_ref().unwrap().disk().device()))
                .lifted(|s, _| s.disk.unmount_lazily())
                .boxed()
        },
    },
    Scenario {
        name: "exchanged_by_another",
        kind: "another disk under an old name",
        made: "unmounted, and another ext4 mounted there",
        seen: &[State("gone"), Error("commit", "open", "ENODEV")],
        recovers: "the new disk is measured, with files and windows that begin anew",
        after: &[NewDisks(1)],
        make: |room| {
            beside(room, COMMITS)
                .struck(|s, _| s.disk.unmount_lazily())
                .lifted(|s, _| s.mount(s.other.as_ref().unwrap().disk().device()))
                .boxed()
        },
    },
    Scenario {
        name: "back_under_another_name",
        kind: "a disk back under another name",
        made: "unmounted, its loop device detached and attached again as another /dev/loopN, and mounted",
        seen: &[State("gone")],
        recovers: "it is the same disk by what it is, so nothing begins anew and its files are used again",
        after: &[NewDisks(0)],
        make: |room| {
            on(room.ext4(), BOTH)
                .struck(|s, _| s.disk.unmount_lazily())
                .lifted(|s, pid| {
                    s.unmount_wholly(pid);
                    let old = s.disk.disk().device().to_owned();
                    s.disk.disk_mut().detach();
                    // Somebody else takes the old name: we, or a test beside us.
                    for _ in 0..16 {
                        s.loops.push(Loop::new(1 << 20));
                        if s.loops.iter().any(|other| other.device() == old) {
                            break;
                        }
                    }
                    s.disk.disk_mut().attach_again();
                    assert_ne!(s.disk.disk().device(), old);
                    s.mount_again();
                })
                .boxed()
        },
    },
    Scenario {
        name: "full_at_the_start",
        kind: "no room",
        made: "an ext4 that others have filled",
        seen: &[State("no_space"), Skipped("commit", "no_space")],
        recovers: "when there is room",
        after: &[],
        make: |room| {
            let disk = room.ext4_sized(512 << 20);
            fill(&disk);
            on(disk, COMMITS).ill().lifted(|s, _| free(&s.disk)).boxed()
        },
    },
    Scenario {
        name: "filled_up_later",
        kind: "a full disk under laid-out files",
        made: "others take every block of an ext4 after the layout",
        seen: &[State("ready"), GoesOn("commit"), GoesOn("read")],
        recovers: "no harm: a file that is laid out needs no more room",
        after: &[],
        make: |room| on(room.ext4(), BOTH).struck(|s, _| fill(&s.disk)).lifted(|s, _| free(&s.disk)).boxed(),
    },
    Scenario {
        name: "no_inodes",
        kind: "no inodes",
        made: "an ext4 with 16 inodes, all taken",
        seen: &[State("no_space"), Error("commit", "open", "ENOSPC")],
        recovers: "when some are free",
        after: &[],
        make: |room| {
            let disk = room.ext4_with(&["-N", "16"], "");
            let dir = disk.path().join("many");
            fs::create_dir(&dir).unwrap();
            let made = (0..).take_while(|n| fs::File::create(dir.join(n.to_string())).is_ok()).count();
            assert!(made < 1000);
            on(disk, COMMITS).ill().lifted(|s, _| fs::remove_dir_all(s.path().join("many")).unwrap()).boxed()
        },
    },
    Scenario {
        name: "overlay_full",
        kind: "no room",
        made: "an overlay on an ext4 that others have filled",
        seen: &[State("no_space"), Skipped("commit", "no_space")],
        recovers: "when there is room",
        after: &[],
        make: |room| {
            let overlay = Mounted::overlay(room.ext4_sized(512 << 20));
            fill(overlay.under().unwrap());
            on(overlay, COMMITS).ill().lifted(|s, _| free(s.disk.under().unwrap())).boxed()
        },
    },
];
