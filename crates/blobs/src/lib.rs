//! Content-addressed blobs, behind a port.

mod error;
mod port;

pub use error::{GetError, PutError, SweepError};
pub use port::{Blobs, Live, Reader, Source, Stored, Sweep, Swept};
