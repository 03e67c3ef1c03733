use std::fmt;

/// A kernel error number (errno(3), positive), with its Linux name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $value:literal),* $(,)?) => {
        impl Errno {
            $(#[doc = stringify!($name)] pub const $name: Errno = Errno($value);)*

            /// The name, such as `ENETUNREACH`; none for a number that no route request answers with.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, ENOENT = 2, ESRCH = 3, EINTR = 4, EIO = 5, ENXIO = 6, EBADF = 9, EAGAIN = 11, ENOMEM = 12,
    EACCES = 13, EFAULT = 14, EBUSY = 16, EEXIST = 17, ENODEV = 19, ENOTDIR = 20, EINVAL = 22, EMFILE = 24, ENOSPC = 28, EROFS = 30,
    ERANGE = 34, EMSGSIZE = 90, ENOPROTOOPT = 92, EOPNOTSUPP = 95, EAFNOSUPPORT = 97, EADDRINUSE = 98,
    EADDRNOTAVAIL = 99, ENETDOWN = 100, ENETUNREACH = 101, ENOBUFS = 105, ETIMEDOUT = 110, ECONNREFUSED = 111,
    EHOSTUNREACH = 113,
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}
