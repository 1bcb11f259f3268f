//! A machine made of plain files, from a few lines of text.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::Roots;

pub(crate) struct Machine {
    folder: tempfile::TempDir,
    pub(crate) roots: Roots,
}

impl Machine {
    /// Each line is `path = text` (a file; `\\n` and `\\0` stand for what they mean in C), `path -> goal` (a link, its goal relative to its directory, or to the
    /// machine's root when it starts with `/`), or `path/` (a directory). `block PATH M:m` makes a block device's directory
    /// with its `dev`, and the links of `dev/block`, `class/block` and, for whole disks, `block`; `hidden PATH`
    /// makes one without a number.
    #[allow(clippy::disallowed_methods, reason = "a fixture")]
    pub(crate) fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["block", path, number] = words[..] {
                block(&root, path, Some(number));
            } else if let ["hidden", path] = words[..] {
                block(&root, path, None);
            } else if let Some((path, text)) = line.split_once(" = ") {
                let file = parented(&root, path);
                fs::write(file, text.replace("\\0", "\0").replace("\\n", "\n")).unwrap();
            } else if let Some((path, goal)) = line.split_once(" -> ") {
                let goal = goal.strip_prefix('/').map_or_else(|| goal.into(), |goal| root.join(goal));
                symlink(goal, parented(&root, path)).unwrap();
            } else {
                fs::create_dir_all(root.join(line)).unwrap();
            }
        }
        let roots = Roots { proc: root.join("proc"), sys: root.join("sys"), dev: root.join("dev") };
        Self { folder, roots }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn parented(root: &Path, path: &str) -> std::path::PathBuf {
    let full = root.join(path);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    full
}

#[allow(clippy::disallowed_methods, reason = "a fixture")]
fn block(root: &Path, path: &str, number: Option<&str>) {
    let dir = root.join("sys/devices").join(path);
    fs::create_dir_all(&dir).unwrap();
    let name = dir.file_name().unwrap().to_str().unwrap();
    symlink(&dir, parented(root, &format!("sys/class/block/{name}"))).unwrap();
    let is_partition = dir.parent().unwrap().join("dev").exists();
    match number {
        Some(number) => {
            fs::write(dir.join("dev"), format!("{number}\n")).unwrap();
            symlink(&dir, parented(root, &format!("sys/dev/block/{number}"))).unwrap();
        }
        None => fs::write(dir.join("hidden"), "1\n").unwrap(),
    }
    if is_partition {
        fs::write(dir.join("partition"), "1\n").unwrap();
    } else {
        symlink(&dir, parented(root, &format!("sys/block/{name}"))).unwrap();
    }
}

/// Makes the calling thread, and only that one, a user without rights.
pub(super) fn drop_privileges() {
    use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    if crate::sys::is_root() {
        let (gid, uid) = (Gid::from_raw(65_534), Uid::from_raw(65_534));
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(gid, gid, gid).unwrap();
        set_thread_res_uid(uid, uid, uid).unwrap();
    }
}
