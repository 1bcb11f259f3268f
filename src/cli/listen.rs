//! Where to listen: `:9100`, `127.0.0.1:9100`, `[::1]:9100`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// An address to listen on. Without a host it means every address of the machine, IPv6 and IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenAddress {
    host: Option<IpAddr>,
    port: u16,
}

impl ListenAddress {
    /// What to bind: the first of these that can be bound. `[::]` takes IPv4 too, and is missing where IPv6 is off.
    pub fn candidates(self) -> Vec<SocketAddr> {
        match self.host {
            Some(host) => vec![SocketAddr::new(host, self.port)],
            None => [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)]
                .map(|host| SocketAddr::new(host, self.port))
                .to_vec(),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port =
            |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
        match text.strip_prefix(':') {
            Some(digits) => port(digits).map(|port| Self { host: None, port }),
            None => text
                .parse::<SocketAddr>()
                .ok()
                .map(|address| Self { host: Some(address.ip()), port: address.port() }),
        }
        .ok_or_else(|| {
            "write `:9100`, `127.0.0.1:9100` or `[::1]:9100`; names of hosts are not looked up".to_owned()
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Some(host) => SocketAddr::new(host, self.port).fmt(f),
            None => write!(f, ":{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints() {
        for text in [":9100", "127.0.0.1:9100", "[::1]:9100", ":0"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        let all = ":9100".parse::<ListenAddress>().unwrap().candidates();
        assert_eq!(all.iter().map(ToString::to_string).collect::<Vec<_>>(), ["[::]:9100", "0.0.0.0:9100"]);
    }

    #[test]
    fn anything_else_says_what_to_write() {
        for text in ["", "9100", ":", ":+1", ":65536", "localhost:9100", "127.0.0.1", "::1:9100x"] {
            assert!(text.parse::<ListenAddress>().unwrap_err().contains("`:9100`"), "{text}");
        }
    }
}
