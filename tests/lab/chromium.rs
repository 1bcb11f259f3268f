//! Debian's Chromium without a screen: what a page looks like, and what it is after its scripts ran.

use super::command::{command, output_within};
use super::scratch::Scratch;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A browser with a profile of its own, which is removed when it is dropped.
#[derive(Debug)]
pub struct Chromium {
    scratch: Scratch,
}

impl Chromium {
    /// A fresh profile; nothing runs yet.
    pub fn new() -> Self {
        Self { scratch: Scratch::new() }
    }

    /// The document of this address as the browser has it after loading.
    pub fn dom(&self, url: &str) -> String {
        let mut command = self.command();
        command.args(["--dump-dom", url]);
        let output = output_within(Duration::from_secs(60), command);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What the page said on its console, errors and refused loads among it, a line each.
    pub fn console(&self, url: &str) -> Vec<String> {
        let mut command = self.command();
        command.args(["--enable-logging=stderr", "--v=0", "--dump-dom", url]);
        let output = output_within(Duration::from_secs(60), command);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        said.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned).collect()
    }

    /// A picture of the page in a window of this size, written as PNG to `file`.
    pub fn screenshot(&self, url: &str, (width, height): (u32, u32), file: &Path) {
        let mut command = self.command();
        command.arg(format!("--window-size={width},{height}"));
        command.arg(format!("--screenshot={}", file.display())).arg(url);
        let output = output_within(Duration::from_secs(60), command);
        assert!(file.exists(), "no picture of {url}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Chromium's own calls home are switched off: a closed network refuses them by the dozen.
    fn command(&self) -> Command {
        let mut command = command("chromium");
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        command.arg("--hide-scrollbars");
        command.arg(format!("--user-data-dir={}", self.scratch.dir("profile").display()));
        command.env("HOME", self.scratch.path()).current_dir(self.scratch.path());
        command
    }
}

impl Default for Chromium {
    fn default() -> Self {
        Self::new()
    }
}
