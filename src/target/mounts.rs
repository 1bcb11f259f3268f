//! `/proc/self/mountinfo`, and which of its mounts a path lies on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Roots;
use crate::sys;

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The kernel's number of this mount.
    pub id: u32,
    /// The mount that it is mounted on.
    pub parent: u32,
    /// Device of the file system, as (major, minor); major 0 where it is anonymous.
    pub device: (u32, u32),
    /// What part of the file system is mounted; not `/` for bind mounts and subvolumes.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Kind of file system: `ext4`, `xfs` …
    pub fstype: String,
    /// What was mounted: a device's path, or any text.
    pub source: String,
    /// The mount's and the file system's options, each once; `ro` when either is read-only.
    pub options: Vec<String>,
}

impl Mount {
    /// Whether an option is set, in its whole form: `barrier=0`.
    pub fn has_option(&self, option: &str) -> bool {
        self.options.iter().any(|o| o == option)
    }

    /// The value of an option: `upperdir` → `/upper`.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|o| o.strip_prefix(name)?.strip_prefix('='))
    }

    /// Whether it is mounted read-only.
    pub fn read_only(&self) -> bool {
        self.has_option("ro")
    }
}

/// The mounts that this process sees; none where they cannot be read.
pub(super) fn read(roots: &Roots) -> Vec<Mount> {
    sys::read_text(&roots.proc.join("self/mountinfo")).map(|text| parse(&text)).unwrap_or_default()
}

/// Reads mountinfo; a line that does not have its form is left out.
pub(super) fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(line).collect()
}

fn line(text: &str) -> Option<Mount> {
    // Between the mount's own fields and the separator stand any number of optional ones.
    let (own, of_super) = text.split_once(" - ")?;
    let mut own = own.split(' ');
    let (id, parent) = (own.next()?.parse().ok()?, own.next()?.parse().ok()?);
    let device = number(own.next()?)?;
    let (root, point, mine) = (own.next()?, own.next()?, own.next()?);
    let mut of_super = of_super.splitn(3, ' ');
    let (fstype, source) = (of_super.next()?, of_super.next()?);
    Some(Mount {
        id,
        parent,
        device,
        root: unescape(root).into(),
        point: unescape(point).into(),
        fstype: unescape(fstype),
        source: unescape(source),
        options: merge(mine, of_super.next().unwrap_or_default()),
    })
}

/// `8:17` → (8, 17).
pub(super) fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn merge(mine: &str, of_super: &str) -> Vec<String> {
    let read_only = [mine, of_super].iter().any(|list| list.split(',').any(|o| o == "ro"));
    let mut all = vec![if read_only { "ro" } else { "rw" }.to_owned()];
    for option in split_options(mine).into_iter().chain(split_options(of_super)) {
        if !option.is_empty() && option != "rw" && !all.contains(&option) {
            all.push(option);
        }
    }
    all
}

/// Splits at commas, but not at those that overlayfs escapes with a backslash.
fn split_options(list: &str) -> Vec<String> {
    let (mut options, mut current) = (Vec::new(), String::new());
    let text = unescape(list);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => current.extend(chars.next()),
            ',' => options.push(std::mem::take(&mut current)),
            c => current.push(c),
        }
    }
    options.push(current);
    options
}

/// Octal escapes (`\040` for a space) back to what they stand for.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if let (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) = (first, tail) {
            bytes.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
            rest = after;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The mount on which a path without links lies: down the tree of mounts as the kernel walks it, so that a
/// mount shadows what was mounted before it, at its own place and below.
pub(super) fn find<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let ids: BTreeSet<u32> = mounts.iter().map(|m| m.id).collect();
    let covering: Vec<&Mount> = mounts.iter().filter(|m| path.starts_with(&m.point)).collect();
    let mut at: Option<&Mount> = None;
    // Each step goes one mount deeper, so there are never more steps than mounts.
    for _ in 0..covering.len() {
        let next = covering
            .iter()
            .filter(|m| match at {
                None => m.parent == m.id || !ids.contains(&m.parent),
                Some(above) => m.parent == above.id && m.id != above.id,
            })
            .rev()
            .min_by_key(|m| m.point.components().count());
        match next {
            Some(next) => at = Some(next),
            None => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str, path: &str) -> Option<u32> {
        find(&parse(text), Path::new(path)).map(|m| m.id)
    }

    #[test]
    fn fields_escapes_and_optional_fields() {
        let text = "36 25 8:17 /sub\\040dir /mnt/a\\040b\\134c\\011\\012 rw,noatime shared:1 master:2 - ext4 /dev/sdb1 ro,barrier=0\n";
        let mount = parse(text).remove(0);
        assert_eq!((mount.id, mount.parent, mount.device), (36, 25, (8, 17)));
        assert_eq!(mount.root, Path::new("/sub dir"));
        assert_eq!(mount.point, Path::new("/mnt/a b\\c\t\n"));
        assert_eq!((mount.fstype.as_str(), mount.source.as_str()), ("ext4", "/dev/sdb1"));
        assert!(mount.read_only() && mount.has_option("barrier=0") && mount.has_option("noatime"));
        assert!(!mount.has_option("rw"));
    }

    #[test]
    fn an_empty_source_is_kept_and_other_lines_are_left_out() {
        let mounts = parse("20 1 0:5 / /x rw -  tmpfs rw\nnonsense\n21 1 0:6 / /y rw - tmpfs  rw,size=4k\n");
        assert_eq!(mounts.len(), 2);
        assert_eq!((mounts[1].fstype.as_str(), mounts[1].source.as_str()), ("tmpfs", ""));
        assert_eq!(mounts[1].option("size"), Some("4k"));
    }

    #[test]
    fn overlay_options_with_escaped_commas() {
        let mounts = parse("20 1 0:5 / /x rw - overlay o rw,lowerdir=/l,upperdir=/u\\134,v,workdir=/w");
        assert_eq!(mounts[0].option("upperdir"), Some("/u,v"));
    }

    #[test]
    fn the_longest_point_wins_and_whole_names_count() {
        let text =
            "1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /data rw - ext4 b rw\n3 2 8:3 / /data/pg rw - xfs c rw\n";
        assert_eq!(found(text, "/data/pg/base"), Some(3));
        assert_eq!(found(text, "/data/pgx"), Some(2));
        assert_eq!(found(text, "/database"), Some(1));
        assert_eq!(found(text, "/"), Some(1));
        assert_eq!(found("", "/"), None);
    }

    #[test]
    fn a_later_mount_shadows_what_lies_below() {
        let stacked =
            "1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /d rw - ext4 b rw\n3 2 8:3 / /d rw - ext4 c rw\n";
        assert_eq!(found(stacked, "/d/x"), Some(3));
        let covered =
            "1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /d/deep rw - ext4 b rw\n3 1 8:3 / /d rw - ext4 c rw\n";
        assert_eq!(found(covered, "/d/deep/x"), Some(3));
    }

    #[test]
    fn in_a_chroot_the_root_mount_is_not_listed() {
        assert_eq!(found("5 4 8:2 / /data rw - ext4 b rw\n", "/data/x"), Some(5));
        assert_eq!(found("5 4 8:2 / /data rw - ext4 b rw\n", "/etc"), None);
    }

    fn escape(text: &str) -> String {
        text.bytes().fold(String::new(), |mut out, b| {
            match b {
                b' ' | b'\t' | b'\n' | b'\\' => out.push_str(&format!("\\{b:03o}")),
                b => out.push(char::from(b)),
            }
            out
        })
    }

    proptest! {
        #[test]
        fn what_the_kernel_escapes_comes_back(name in "[ -~\t\n]{1,40}") {
            let line = format!("7 7 8:1 / /{} rw - ext4 {} rw", escape(&name), escape(&name));
            let mounts = parse(&line);
            prop_assert_eq!(&mounts[0].source, &name);
            prop_assert_eq!(mounts[0].point.to_str().unwrap(), format!("/{name}"));
        }

        #[test]
        fn any_text_is_parsed_and_searched_without_trouble(text in "([0-3] [0-3] 8:[0-9] / (/[ab]?){0,3} rw - x y rw\n|.{0,20}\n){0,8}") {
            let mounts = parse(&text);
            if let Some(mount) = find(&mounts, Path::new("/a/b/a")) {
                prop_assert!(Path::new("/a/b/a").starts_with(&mount.point));
            }
        }
    }
}
