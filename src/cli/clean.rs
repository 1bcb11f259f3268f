//! `diskcanary clean PATH`.

use std::fmt::Write;
use std::path::PathBuf;

use super::look::{self, Look};
use super::{BAD_CONFIG, Ending};
use crate::probe::home;
use crate::sys;

/// Arguments of `clean`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The directory that was probed.
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// The target's `probe_dir`, if it has one.
    #[arg(long, value_name = "DIRECTORY")]
    probe_dir: Option<PathBuf>,
}

pub(super) fn command(args: &Args) -> Ending {
    let shown = args.path.display();
    let places = match look::at_path(&args.path, args.probe_dir.as_deref()) {
        Look::Device(_) => {
            return Ending::good(format!(
                "{shown} is a block device: no file of ours is on it, and none is removed\n"
            ));
        }
        // The path itself too: a database may have come to be there after our files.
        Look::Files(target, place) => vec![place.dir, target.path],
        Look::Down(why) => return Ending::failed(why),
        Look::Refused(why) => match sys::resolve_links(&args.path) {
            Ok(path) if args.probe_dir.is_none() && home_exists(&path) => vec![path],
            _ => return Ending { code: BAD_CONFIG, ..Ending::failed(why) },
        },
    };
    remove(places)
}

fn home_exists(parent: &std::path::Path) -> bool {
    sys::metadata(&parent.join(home::NAME)).is_ok()
}

/// Cleans each place once and says what went.
fn remove(mut places: Vec<PathBuf>) -> Ending {
    places.dedup();
    let mut text = String::new();
    for place in &places {
        match home::clean(place) {
            Ok(removed) => {
                for path in removed {
                    let _ = writeln!(text, "removed {}", path.display());
                }
            }
            Err(error) => return Ending { text, ..Ending::failed(error) },
        }
    }
    if text.is_empty() {
        let all: Vec<_> = places.iter().map(|place| place.join(home::NAME).display().to_string()).collect();
        let _ = writeln!(text, "nothing to remove: there is no {}", all.join(" and no "));
    }
    Ending::good(text)
}
