//! A disk in compressed RAM: the fastest that there is everywhere.

use std::fs;
use std::path::{Path, PathBuf};

/// A zram device; its memory is given back when it is dropped.
#[derive(Debug)]
pub struct Zram {
    number: u32,
    device: PathBuf,
}

impl Zram {
    /// A new one of so many bytes. What is never written takes no memory.
    pub fn new(size: u64) -> Self {
        let number = fs::read_to_string("/sys/class/zram-control/hot_add").expect("the kernel has zram");
        let number = number.trim().parse().unwrap();
        let zram = Self { number, device: format!("/dev/zram{number}").into() };
        fs::write(format!("/sys/block/zram{number}/disksize"), size.to_string()).unwrap();
        zram
    }

    /// The block device.
    pub fn device(&self) -> &Path {
        &self.device
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = fs::write(format!("/sys/block/zram{}/reset", self.number), "1");
        let _ = fs::write("/sys/class/zram-control/hot_remove", self.number.to_string());
    }
}
