//! Listening sockets. They are bound before any runtime is there, so that a taken port ends the start at once.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind as bind_socket, listen, socket_with, sockopt,
};

use super::ListenAddress;

/// Connections that the kernel keeps until we accept them.
const BACKLOG: i32 = 1024;

/// Why the server cannot be started.
#[derive(Debug)]
pub enum Error {
    /// Nothing to listen on.
    NoAddress,
    /// An address cannot be listened on.
    Bind {
        /// Which one.
        address: ListenAddress,
        /// What the kernel said.
        source: io::Error,
    },
    /// The runtime does not take a socket that was bound.
    Runtime(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("no address to listen on; give at least one, such as `:10074`"),
            Self::Bind { address, source } => {
                write!(f, "cannot listen on {address}: {}", explain(source))
            }
            Self::Runtime(source) => write!(f, "cannot serve HTTP: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoAddress => None,
            Self::Bind { source, .. } | Self::Runtime(source) => Some(source),
        }
    }
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "the port is in use by another process; stop it or choose another port".into()
        }
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address".into(),
        io::ErrorKind::PermissionDenied => {
            "not permitted; ports below 1024 need a privilege, choose a higher one".into()
        }
        _ => error.to_string(),
    }
}

/// Sockets that listen, one for each address.
#[derive(Debug)]
pub struct Listeners(pub(super) Vec<TcpListener>);

impl Listeners {
    /// Where they listen, with the port that the kernel chose where 0 was asked for.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().filter_map(|l| l.local_addr().ok()).collect()
    }
}

/// Listens on all of `addresses`; the first that fails is the error. Needs no runtime.
pub fn bind(addresses: &[ListenAddress]) -> Result<Listeners, Error> {
    if addresses.is_empty() {
        return Err(Error::NoAddress);
    }
    let one = |address: &ListenAddress| {
        let socket = match address {
            ListenAddress::Any(port) => open_any(*port),
            ListenAddress::One(address) => open(*address),
        };
        socket.map_err(|source| Error::Bind { address: *address, source })
    };
    addresses.iter().map(one).collect::<Result<_, _>>().map(Listeners)
}

fn open_any(port: u16) -> io::Result<TcpListener> {
    match open(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))) {
        Err(e) if no_ipv6(&e) => open(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
        other => other,
    }
}

/// A kernel without IPv6 does not know the family; one with IPv6 switched off has no address of it.
fn no_ipv6(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    // A restarted daemon must not wait for the old one's connections to time out.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    bind_socket(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition};

    use super::super::tests::refuse;
    use super::*;

    #[test]
    fn a_taken_port_is_named() {
        let first = bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let taken = ListenAddress::One(first.addresses()[0]);
        let message = bind(&[taken]).unwrap_err().to_string();
        assert_eq!(
            message,
            format!(
                "cannot listen on {taken}: the port is in use by another process; stop it or choose another port"
            )
        );
        assert!(bind(&[]).unwrap_err().to_string().contains("at least one"));
        let elsewhere = bind(&["192.0.2.1:0".parse().unwrap()]).unwrap_err().to_string();
        assert!(elsewhere.ends_with("this machine does not have that address"), "{elsewhere}");
    }

    #[test]
    fn any_means_both_families() {
        let listeners = bind(&[ListenAddress::Any(0)]).unwrap();
        let port = listeners.addresses()[0].port();
        TcpStream::connect(("127.0.0.1", port)).unwrap();
        if std::net::TcpListener::bind("[::1]:0").is_ok() {
            TcpStream::connect(("::1", port)).unwrap();
        }
    }

    #[test]
    fn without_ipv6_any_means_ipv4() {
        let bound = std::thread::spawn(|| {
            let six = libc::AF_INET6 as u64;
            let family = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, six).unwrap();
            refuse(libc::SYS_socket, Some(family), libc::EAFNOSUPPORT);
            bind(&[ListenAddress::Any(0)])
        });
        let address = bound.join().unwrap().unwrap().addresses()[0];
        assert!(address.is_ipv4() && address.ip().is_unspecified(), "{address}");
    }
}
