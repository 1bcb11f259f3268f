//! Error numbers with the names that people search for.

use std::fmt;

/// An error number of the kernel. Prints as its name and meaning: `EIO (Input/output error)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(i32);

macro_rules! names {
    ($($name:ident)*) => {
        const NAMES: &[(i32, &str)] = &[$((libc::$name, stringify!($name))),*];
        impl Errno {
            $(#[doc = concat!("`", stringify!($name), "` of errno(3)")] pub const $name: Self = Self(libc::$name);)*
        }
    };
}

names! {
    EPERM ENOENT EINTR EIO ENXIO E2BIG EBADF EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST EXDEV ENODEV ENOTDIR
    EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE ENOSYS ELOOP ENODATA
    ENOLINK EREMOTEIO EPROTO EOVERFLOW EUCLEAN EOPNOTSUPP ENOTCONN ETIMEDOUT EALREADY ESTALE EDQUOT
    ENOMEDIUM EBADMSG ECANCELED ENOTBLK ENOTEMPTY EBADFD EMEDIUMTYPE EREMOTE EHOSTDOWN ECONNABORTED ENOKEY ENAMETOOLONG
}

impl Errno {
    /// From the kernel's number (positive).
    pub const fn from_raw(number: i32) -> Self {
        Self(number)
    }

    /// The kernel's number (positive).
    pub const fn raw(self) -> i32 {
        self.0
    }

    /// `"EIO"`; `"E?"` for a number without a name here.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(number, _)| *number == self.0).map_or("E?", |(_, name)| name)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::io::Error::from_raw_os_error(self.0).to_string();
        let meaning = text.split(" (os error").next().unwrap_or(&text);
        write!(f, "{} ({meaning})", self.name())
    }
}

impl std::error::Error for Errno {}

impl From<rustix::io::Errno> for Errno {
    fn from(e: rustix::io::Errno) -> Self {
        Self(e.raw_os_error())
    }
}

impl From<std::io::Error> for Errno {
    fn from(e: std::io::Error) -> Self {
        Self(e.raw_os_error().unwrap_or(libc::EIO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_name_and_meaning() {
        assert_eq!(Errno::EIO.to_string(), "EIO (Input/output error)");
        assert_eq!(Errno::from_raw(9999).name(), "E?");
    }
}
