//! Why bytes are no manifest.

use std::borrow::Cow;

use weir_types::{Explain, Fault};

use super::{BYTES_MAX, VERSION};

/// Why a manifest cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// More bytes than any project needs.
    #[error("the manifest has {bytes} bytes; {BYTES_MAX} are the most")]
    TooLarge {
        /// How many.
        bytes: usize,
    },
    /// It was made by another version of this program.
    #[error("the manifest has version {found}; this program reads version {VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// It is no JSON, or not what a manifest looks like.
    #[error("this is not a manifest")]
    Unreadable(#[source] serde_json::Error),
    /// Something in it has no canonical form.
    #[error("the manifest cannot be written")]
    Unwritable(#[source] serde_json::Error),
}

impl Explain for ManifestError {
    fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "manifest::too-large",
            Self::Version { .. } => "manifest::version",
            Self::Unreadable(_) => "manifest::unreadable",
            Self::Unwritable(_) => "manifest::unwritable",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::TooLarge { .. } => "is it the right file? manifests are in `.weir/build`".into(),
            Self::Version { found } if *found > VERSION => {
                "use a newer `weir`, or run `weir build` with this one".into()
            }
            Self::Version { .. } => "run `weir build` to make it again".into(),
            Self::Unreadable(_) => "run `weir build` to make it again; manifests are not edited".into(),
            Self::Unwritable(_) => {
                "a tool's schema is nested too deep; leave that tool out with `only`".into()
            }
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::TooLarge { .. } | Self::Version { .. } | Self::Unwritable(_) => Fault::Input,
            Self::Unreadable(_) => Fault::Damaged,
        }
    }
}
