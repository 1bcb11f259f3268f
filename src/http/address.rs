//! Where to listen, and the path of the metrics, as people write them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// An address to listen on: `:10074`, `127.0.0.1:10074` or `[::1]:10074`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// Every address of the machine: IPv6 and IPv4, or IPv4 alone where the machine has no IPv6.
    Any(u16),
    /// This one. `[::]` means IPv6 and IPv4, whatever the system's default for that is.
    One(SocketAddr),
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(port) = text.strip_prefix(':')
            && let Ok(port) = port.parse()
        {
            return Ok(Self::Any(port));
        }
        text.parse().map(Self::One).map_err(|_| refusal(text))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(port) => write!(f, ":{port}"),
            Self::One(address) => write!(f, "{address}"),
        }
    }
}

/// Says what is wrong with `text`, as near to what was meant as can be told.
fn refusal(text: &str) -> String {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        let meant = SocketAddr::new(ip, super::DEFAULT_PORT);
        return format!("the address `{text}` has no port; write `{meant}`");
    }
    if text.parse::<u16>().is_ok() {
        return format!("the address `{text}` is a bare port; write `:{text}` to listen on every address");
    }
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    if !host.is_empty() && host.parse::<Ipv4Addr>().is_err() && port.parse::<u16>().is_ok() {
        return format!(
            "`{host}` in `{text}` is no IP address; write one, such as `127.0.0.1:{port}` or `[::1]:{port}`, \
             or `:{port}` to listen on every address"
        );
    }
    let port = super::DEFAULT_PORT;
    format!(
        "`{text}` is no address to listen on; write one such as `:{port}`, `127.0.0.1:{port}` or `[::1]:{port}`, \
         with a port from 0 to 65535"
    )
}

/// The path of the metrics: begins with `/`, is plain, and is not one that we use otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TelemetryPath(String);

impl TelemetryPath {
    /// As it stands in a request.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for TelemetryPath {
    fn default() -> Self {
        Self("/metrics".to_owned())
    }
}

impl FromStr for TelemetryPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"/-._~".contains(&b);
        if !text.starts_with('/') || !text.bytes().all(plain) {
            return Err(format!(
                "`{text}` is no path for the metrics; write one such as `/metrics`: it begins with `/` and holds \
                 letters, digits, `/`, `-`, `.`, `_` and `~`"
            ));
        }
        if text == "/" || text.starts_with("/-/") || text.starts_with("/api/") {
            return Err(format!("the path `{text}` has another use here; write one such as `/metrics`"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for TelemetryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<ListenAddress>().unwrap_err()
    }

    #[test]
    fn the_forms_that_exporters_take() {
        assert_eq!(":9100".parse(), Ok(ListenAddress::Any(9100)));
        assert_eq!("127.0.0.1:9100".parse(), Ok(ListenAddress::One(([127, 0, 0, 1], 9100).into())));
        let six = ListenAddress::One(SocketAddr::new("::1".parse().unwrap(), 9100));
        assert_eq!("[::1]:9100".parse(), Ok(six));
    }

    #[test]
    fn a_refusal_says_what_would_be_right() {
        assert!(refused("127.0.0.1").ends_with("has no port; write `127.0.0.1:10074`"));
        assert!(refused("::1").ends_with("has no port; write `[::1]:10074`"));
        assert!(refused("[::1]").ends_with("has no port; write `[::1]:10074`"));
        assert!(refused("9100").contains("write `:9100`"));
        assert!(refused("localhost:9100").contains("`localhost` in `localhost:9100` is no IP address"));
        for wrong in ["", ":", ":70000", "127.0.0.1:70000", ":http", "1.2.3:x"] {
            assert!(refused(wrong).contains("is no address to listen on"), "{wrong}: {}", refused(wrong));
        }
    }

    #[test]
    fn a_path_is_plain_and_free() {
        assert_eq!("/a/b.c".parse::<TelemetryPath>().unwrap().as_str(), "/a/b.c");
        for wrong in ["", "metrics", "/a b", "/a?b", "/a#b", "/ä", "/", "/-/ready", "/api/v1/status"] {
            assert!(wrong.parse::<TelemetryPath>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(ip in any::<IpAddr>(), port: u16) {
            for address in [ListenAddress::Any(port), ListenAddress::One(SocketAddr::new(ip, port))] {
                prop_assert_eq!(address.to_string().parse(), Ok(address));
            }
        }

        #[test]
        fn any_text_is_answered(text: String) {
            if let Err(message) = text.parse::<ListenAddress>() {
                assert!(message.contains('`'));
            }
        }
    }
}
