//! Where a file's bytes lie on the disk, so that a read can be known again in the block trace.

use std::fs;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::lab::Request;
use crate::loops::{BLOCK, Sample};

const SECTOR: u64 = 512;
/// How far ahead in the trace a read is looked for.
const AHEAD: usize = 64;

/// The device under a file, and the file's extents on it.
#[derive(Debug)]
pub struct Place {
    /// The whole disk's major and minor number, as the block trace names it.
    pub device: (u32, u32),
    extents: Vec<Extent>,
}

/// In sectors of 512 bytes.
#[derive(Debug)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
}

impl Place {
    /// Of a fully written file; why not, where the device cannot be traced.
    pub fn of(file: &Path) -> Result<Self, String> {
        let number = fs::metadata(file).map_err(|e| e.to_string())?.st_dev();
        let number = (libc::major(number), libc::minor(number));
        let sysfs = PathBuf::from(format!("/sys/dev/block/{}:{}", number.0, number.1));
        if !sysfs.exists() {
            return Err(format!("{}: no block device {number:?} below it", file.display()));
        }
        let partition = sysfs.join("partition").exists();
        let start = if partition { read(&sysfs.join("start"))?.parse().map_err(|_| "start")? } else { 0 };
        let disk =
            if partition { fs::canonicalize(&sysfs).map_err(|e| e.to_string())?.join("..") } else { sysfs };
        let dev = read(&disk.join("dev"))?;
        let (major, minor) = dev.split_once(':').ok_or("dev")?;
        let device = (major.parse().map_err(|_| "major")?, minor.parse().map_err(|_| "minor")?);
        Ok(Self { device, extents: extents(file, start)? })
    }

    fn sector(&self, offset: u64) -> Option<u64> {
        let logical = offset / SECTOR;
        let extent = self.extents.iter().find(|e| (e.logical..e.logical + e.length).contains(&logical))?;
        Some(extent.physical + logical - extent.logical)
    }

    /// Whether the sector is the file's: nobody else reads there, whatever goes on elsewhere on the disk.
    fn holds(&self, sector: u64) -> bool {
        self.extents.iter().any(|e| (e.physical..e.physical + e.length).contains(&sector))
    }

    /// Each sample with its device time in nanoseconds, paired by sector in order of time; samples whose request is
    /// not in the trace are left out.
    pub fn pair(&self, samples: &[Sample], requests: &[Request]) -> Vec<(Sample, u64)> {
        let sectors = u64::from(BLOCK) / SECTOR;
        let ours = |r: &&Request| r.is_read() && r.sectors == sectors && self.holds(r.sector);
        let reads: Vec<&Request> = requests.iter().filter(ours).collect();
        let mut next = 0;
        let mut pairs = Vec::with_capacity(samples.len());
        for sample in samples {
            let Some(sector) = self.sector(sample.offset) else { continue };
            if let Some(ahead) = reads[next..].iter().take(AHEAD).position(|r| r.sector == sector) {
                pairs.push((*sample, reads[next + ahead].duration()));
                next += ahead + 1;
            }
        }
        pairs
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map(|t| t.trim().to_owned()).map_err(|e| format!("{}: {e}", path.display()))
}

/// As `filefrag` (e2fsprogs) tells them, in blocks of 4096 bytes: `0: 0.. 1023: 4037376.. 4038399: 1024: flags`.
fn extents(file: &Path, start: u64) -> Result<Vec<Extent>, String> {
    let output = Command::new("/usr/sbin/filefrag").args(["-s", "-b4096", "-v"]).arg(file).output();
    let output = output.map_err(|e| format!("filefrag: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.contains("unwritten") {
        return Err(format!("{}: not fully written", file.display()));
    }
    let sectors = 4096 / SECTOR;
    let mut extents = Vec::new();
    for line in text.lines() {
        let numbers: Vec<u64> =
            line.split([':', '.', ' ']).filter(|w| !w.is_empty()).map_while(|w| w.parse().ok()).collect();
        if let [_, logical, _, physical, _, length, ..] = numbers[..] {
            extents.push(Extent {
                logical: logical * sectors,
                physical: start + physical * sectors,
                length: length * sectors,
            });
        }
    }
    if extents.is_empty() { Err(format!("filefrag shows no extents: {text}")) } else { Ok(extents) }
}
