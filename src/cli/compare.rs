//! `diskcanary compare A B`.

use std::path::{Path, PathBuf};

use super::{BAD_CONFIG, Ending};
use crate::report::compare::{Side, compare, read, table};
use crate::sys;
use crate::units::Bytes;

/// Far above any result: the longest sweep of all comes to a few MiB.
const LARGEST: u64 = 64 << 20;

/// Arguments of `compare`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The result that is compared with: of `diskcanary sweep --json`, or of `fio --output-format=json` (or json+).
    #[arg(value_name = "A")]
    a: PathBuf,

    /// The result that is judged.
    #[arg(value_name = "B")]
    b: PathBuf,

    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
}

/// 0 when nothing is worse, 1 when something is, 2 when the two cannot be compared.
pub(super) fn command(args: &Args) -> Ending {
    let compared = side(&args.a).and_then(|a| Ok((a, side(&args.b)?))).and_then(|(a, b)| compare(&a, &b));
    match compared {
        Ok(comparison) => {
            let text = match args.json {
                true => serde_json::to_string_pretty(&comparison).map(|text| text + "\n").unwrap_or_default(),
                false => table(&comparison),
            };
            Ending { text, error: None, code: u8::from(comparison.is_worse()) }
        }
        Err(error) => Ending { text: String::new(), error: Some(error), code: BAD_CONFIG },
    }
}

fn side(file: &Path) -> Result<Side, String> {
    let name = file.display().to_string();
    let bytes =
        sys::read_bounded(file, LARGEST).map_err(|errno| format!("{name} cannot be read: {errno}"))?;
    let Some(bytes) = bytes else {
        return Err(format!("{name} is larger than {}, so it is no result of a sweep", Bytes::new(LARGEST)));
    };
    let text = String::from_utf8(bytes).map_err(|_| format!("{name} is no text, so it is no JSON"))?;
    read(&name, &text)
}
