use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;

use super::super::{ErrorKind, resolve};
use super::*;

struct Disk {
    folder: tempfile::TempDir,
    roots: Roots,
}

impl Disk {
    /// A real directory tree; a path with a slash at its end is a directory, another one a file.
    #[allow(clippy::disallowed_methods, reason = "a fixture")]
    fn with(paths: &[&str]) -> Self {
        let disk = Self { folder: tempfile::tempdir_in("/var/tmp").unwrap(), roots: Roots::default() };
        for path in paths {
            let full = disk.at(path);
            std::fs::create_dir_all(if path.ends_with('/') { &full } else { full.parent().unwrap() })
                .unwrap();
            if !path.ends_with('/') {
                std::fs::File::create(full).unwrap();
            }
        }
        disk
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    fn target(&self, path: &str) -> Target {
        resolve(&self.at(path), &self.roots).unwrap()
    }

    fn place(&self, path: &str) -> Result<Place, Refusal> {
        place(&self.target(path), None, &self.roots)
    }

    /// As if the disk were mounted at `point`.
    fn mounted_at(&mut self, point: &str) {
        let proc = self.at("proc-fixture");
        std::fs::create_dir_all(proc.join("self")).unwrap();
        let text = format!(
            "1 0 0:90 / / rw - ext4 /dev/sda1 rw\n2 1 0:91 / {} rw - ext4 /dev/sdb1 rw\n",
            self.at(point).display()
        );
        #[allow(clippy::disallowed_methods, reason = "a fixture")]
        std::fs::write(proc.join("self/mountinfo"), text).unwrap();
        self.roots.proc = proc;
    }
}

#[test]
fn without_a_mark_the_path_itself() {
    let disk = Disk::with(&["data/some/file", "data/data/", "other/commitlog/"]);
    for path in ["data", "data/some", "other"] {
        assert_eq!(disk.place(path).unwrap(), Place { dir: disk.at(path), note: None });
    }
}

#[test]
fn in_or_below_a_mark_the_nearest_directory_above() {
    for (mark, below) in [
        ("PG_VERSION", "base/1"),
        ("ibdata1", "shop"),
        ("mysql.ibd", "shop"),
        ("meta.properties", "topic-0"),
        ("WiredTiger", "journal"),
        ("appendonlydir/x", "appendonlydir"),
        ("nodes/0/x", "nodes/0/indices"),
        ("archive_status/x", "archive_status"),
        ("000000010000000A000000FF", "any"),
        ("PG_15_202209061/5/1", "PG_15_202209061/5"),
    ] {
        let disk = Disk::with(&[&format!("srv/db/{mark}"), &format!("srv/db/{below}/"), "srv/free/"]);
        for path in ["srv/db".to_owned(), format!("srv/db/{below}")] {
            let place = disk.place(&path).unwrap();
            assert_eq!(place.dir, disk.at("srv"), "{mark} {path}");
            assert!(place.note.unwrap().contains(&disk.at("srv/db").display().to_string()));
        }
        assert_eq!(disk.place("srv").unwrap().note, None);
        assert_eq!(disk.place("srv/free").unwrap().note, None);
    }
}

#[test]
fn commitlog_marks_only_beside_data() {
    let disk = Disk::with(&["cassandra/commitlog/", "cassandra/data/ks/"]);
    assert_eq!(disk.place("cassandra/data/ks").unwrap().dir, disk.at(""));
    assert_eq!(disk.place("cassandra/commitlog").unwrap().dir, disk.at(""));
    assert_eq!(disk.place("cassandra").unwrap().dir, disk.at(""));
    let disk = Disk::with(&["mnt/commitlog/", "mnt/data/", "mnt/other/"]);
    assert_eq!(disk.place("mnt/other").unwrap().note, None);
}

#[test]
fn the_outermost_mark_counts() {
    let disk = Disk::with(&["a/meta.properties", "a/b/pg/PG_VERSION"]);
    assert_eq!(disk.place("a/b/pg").unwrap().dir, disk.at(""));
}

#[test]
fn a_pg_wal_link_to_another_directory_is_followed_first() {
    let disk = Disk::with(&["pg/PG_VERSION", "wal/real/archive_status/"]);
    symlink(disk.at("wal/real"), disk.at("pg/pg_wal")).unwrap();
    assert_eq!(disk.place("pg/pg_wal").unwrap().dir, disk.at("wal"));
}

#[test]
fn a_disk_that_is_only_named_pg_wal_is_free() {
    let disk = Disk::with(&["pg_wal/main/archive_status/", "pg_wal/lost+found/"]);
    assert_eq!(disk.place("pg_wal").unwrap(), Place { dir: disk.at("pg_wal"), note: None });
    assert_eq!(disk.place("pg_wal/main").unwrap().dir, disk.at("pg_wal"));
}

#[test]
fn what_we_cannot_look_into_may_be_a_database() {
    let disk = Disk::with(&["srv/db/PG_VERSION", "passed/free/"]);
    let mode = |path: &str, mode| {
        std::fs::set_permissions(disk.at(path), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for open in ["", "srv", "passed/free"] {
        mode(open, 0o755);
    }
    mode("srv/db", 0o000);
    mode("passed", 0o711);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            crate::target::fixture::drop_privileges();
            let place = disk.place("srv/db").unwrap();
            assert_eq!(place.dir, disk.at("srv"));
            assert!(place.note.unwrap().contains("EACCES"));
            assert_eq!(disk.place("passed/free").unwrap().note, None);
            let error = resolve(&disk.at("srv/db/base"), &disk.roots).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Permission);
            assert!(error.to_string().contains(&format!("{} belongs to uid", disk.at("srv/db").display())));
            assert!(error.to_string().contains("mode 0000"), "{error}");
        });
    });
    mode("srv/db", 0o700);
}

#[test]
fn a_mark_at_the_mount_root_leaves_no_place() {
    for mark in ["PG_VERSION", "meta.properties"] {
        let mut disk = Disk::with(&[&format!("mnt/{mark}"), "mnt/base/"]);
        disk.mounted_at("mnt");
        for path in ["mnt", "mnt/base"] {
            let refusal = disk.place(path).unwrap_err();
            assert!(matches!(refusal, Refusal::Database { .. }));
            let text = refusal.to_string();
            assert!(text.contains("probe_dir") && text.contains(mark), "{text}");
        }
    }
}

#[test]
fn a_disk_mounted_inside_a_database_is_the_database_s() {
    let mut disk = Disk::with(&["pg/PG_VERSION", "pg/base/1/"]);
    disk.mounted_at("pg/base");
    assert!(matches!(disk.place("pg/base/1"), Err(Refusal::Database { .. })));
}

#[test]
fn probe_dir_on_the_same_file_system_outside_of_databases() {
    let disk = Disk::with(&["db/PG_VERSION", "db/base/", "free/", "file"]);
    let target = disk.target("db");
    let try_dir = |dir: &str| place(&target, Some(&disk.at(dir)), &disk.roots);
    assert_eq!(try_dir("free").unwrap().dir, disk.at("free"));
    assert!(matches!(try_dir("db/base"), Err(Refusal::ProbeDirInDatabase { .. })));
    assert!(try_dir("none").unwrap_err().to_string().contains("does not exist"));
    assert!(try_dir("file").unwrap_err().to_string().contains("not a directory"));
    let elsewhere = place(&target, Some(Path::new("/dev/shm")), &disk.roots).unwrap_err();
    assert!(matches!(elsewhere, Refusal::ProbeDirElsewhere { .. }));
}

#[test]
fn a_directory_that_went_is_not_replaced_by_the_one_above() {
    let disk = Disk::with(&["data/"]);
    let target = disk.target("data");
    std::fs::remove_dir(disk.at("data")).unwrap();
    let refusal = place(&target, None, &disk.roots).unwrap_err();
    assert_eq!(refusal, Refusal::Unreadable { dir: disk.at("data"), errno: Errno::ENOENT });
}

#[test]
fn memory_and_raw_devices_have_no_place() {
    let roots = Roots::default();
    let shm = resolve(Path::new("/dev/shm"), &roots).unwrap();
    let refusal = place(&shm, None, &roots).unwrap_err().to_string();
    assert!(refusal.contains("tmpfs") && refusal.contains("memory"), "{refusal}");
    let raw = Target { memory_only: None, kind: Kind::BlockDevice, ..shm };
    assert!(matches!(place(&raw, None, &roots), Err(Refusal::OnlyRead(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// On a path of six directories, some of them marked and one of them the mount's root, our files go to the
    /// deepest one above all marks, or nowhere when that is above the mount.
    #[test]
    fn never_in_nor_below_a_mark(
        marks in prop::collection::vec(prop::option::weighted(0.3, 0usize..5), 6),
        mount in 0usize..6,
    ) {
        const NAMES: [&str; 5] = ["PG_VERSION", "meta.properties", "mysql.ibd", "PG_16_202307071", "ibdata1"];
        let level = |n: usize| ["a", "b", "c", "d", "e", "f"][..=n].join("/");
        let files: Vec<String> = marks
            .iter()
            .enumerate()
            .filter_map(|(n, mark)| Some(format!("{}/{}", level(n), NAMES[(*mark)?])))
            .chain([format!("{}/", level(5))])
            .collect();
        let mut disk = Disk::with(&files.iter().map(String::as_str).collect::<Vec<_>>());
        disk.mounted_at(&level(mount));
        let topmost = marks.iter().position(Option::is_some).unwrap_or(6);
        match disk.place(&level(5)) {
            Ok(place) => {
                prop_assert!(topmost > mount);
                prop_assert_eq!(place.dir, disk.at(&level(topmost - 1)));
            }
            Err(refusal) => prop_assert!(topmost <= mount, "{refusal}"),
        }
    }
}
