//! The other end: asks a daemon to do something. One request, one connection, bounded in time and size.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use hyper::Uri;

use super::command::{self, Command};

/// For the connection, and for each part of the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Far above any answer to a command.
const LONGEST: u64 = 1 << 20;

/// Where a daemon listens: `http://HOST[:PORT][/PATH]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    host: String,
    port: u16,
    path: String,
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let no_url = || format!("`{text}` is no URL of a daemon; write one such as `http://127.0.0.1:10074`");
        let uri: Uri = text.parse().map_err(|_| no_url())?;
        if uri.scheme_str() != Some("http") || uri.query().is_some() {
            return Err(no_url());
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(no_url)?.to_owned();
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { host, port: uri.port_u16().unwrap_or(80), path })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}{}", self.host, self.port, self.path)
    }
}

/// Asks the daemon at `url`. An error is one sentence: that nobody answers there, or what the daemon said.
pub fn ask(url: &Url, command: &Command) -> Result<(), String> {
    let (status, body) = exchange(url, command).map_err(|e| format!("no answer from {url}: {e}"))?;
    if status == 200 {
        return Ok(());
    }
    let said = serde_json::from_str::<serde_json::Value>(&body).ok();
    let said = said.as_ref().and_then(|v| v.get("error")?.as_str());
    Err(said.map_or_else(|| format!("{url} answered with status {status}"), str::to_owned))
}

fn exchange(url: &Url, command: &Command) -> io::Result<(u16, String)> {
    let mut stream = connect(url)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // 1.0: the answer comes in one piece and ends with the connection.
    let (target, Url { host, port, .. }) = (command::request(command), url);
    let head = format!(
        "POST {}{target} HTTP/1.0\r\nHost: {host}:{port}\r\nUser-Agent: diskcanary\r\nContent-Length: 0\r\n\r\n",
        url.path
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    parse(&String::from_utf8_lossy(&answer)).ok_or_else(|| io::Error::other("what answers is no HTTP server"))
}

fn connect(url: &Url) -> io::Result<TcpStream> {
    let bare = url.host.trim_start_matches('[').trim_end_matches(']');
    let mut last = io::Error::other("the host has no address");
    for address in (bare, url.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut words = head.lines().next()?.split(' ');
    let status = words.next().filter(|version| version.starts_with("HTTP/")).and(words.next())?;
    Some((status.parse().ok()?, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_people_write() {
        for (text, shown) in [
            ("http://127.0.0.1:10074", "http://127.0.0.1:10074"),
            ("http://[::1]:9/", "http://[::1]:9"),
            ("http://db1/disks/", "http://db1:80/disks"),
        ] {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), shown);
        }
        for wrong in ["", "127.0.0.1:10074", "https://db1", "db1", "http://", "http://db1/?x=y"] {
            let error = wrong.parse::<Url>().unwrap_err();
            assert!(error.contains("write one such as `http://127.0.0.1:10074`"), "{error}");
        }
    }

    #[test]
    fn who_is_not_there_or_no_server_is_said() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url: Url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let command = Command::Resume { target: "a".into() };
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"220 mail.example.org ESMTP\r\n").unwrap();
            let _ = stream.read(&mut [0; 1024]);
        });
        let error = ask(&url, &command).unwrap_err();
        assert!(error.contains("no HTTP server"), "{error}");
        other.join().unwrap();
        let error = ask(&url, &command).unwrap_err();
        assert!(error.starts_with(&format!("no answer from {url}: Connection refused")), "{error}");
    }
}
