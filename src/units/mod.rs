//! Value types that parse and print themselves: sizes (`4KiB`) and spans of time (`500ms`).
//!
//! A bare number is refused where a unit belongs: `64` may mean bytes, KiB or MiB, and a wrong guess
//! here becomes a wrong number on a dashboard.

mod bytes;
mod escaped;
pub mod figures;
mod span;

pub use bytes::Bytes;
pub use escaped::Escaped;
pub use span::Span;
