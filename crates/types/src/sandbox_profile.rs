//! How much a program of a project is confined.

use serde::{Deserialize, Serialize};

/// What a program that a project starts may not do. Whatever the profile, an approval is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxProfile {
    /// Nothing is confined: all rights of the user.
    #[default]
    Off,
    /// Files are confined: it reads programs and its own code, and writes a temporary directory of its own. The network is open.
    Files,
    /// The network is closed. Files are those of the user.
    Network,
    /// Both.
    Full,
}

impl SandboxProfile {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Off, Self::Files, Self::Network, Self::Full];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Files => "files",
            Self::Network => "network",
            Self::Full => "full",
        }
    }

    /// Whether nothing is confined.
    pub const fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }

    /// Whether files are confined.
    pub const fn confines_files(self) -> bool {
        matches!(self, Self::Files | Self::Full)
    }

    /// Whether the network is closed.
    pub const fn closes_network(self) -> bool {
        matches!(self, Self::Network | Self::Full)
    }

    /// Whether it confines all that another one does.
    pub const fn covers(self, other: Self) -> bool {
        (self.confines_files() || !other.confines_files())
            && (self.closes_network() || !other.closes_network())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_covers_what_it_confines() {
        let covered =
            |profile: SandboxProfile| SandboxProfile::ALL.map(|other| u8::from(profile.covers(other)));
        assert_eq!(
            SandboxProfile::ALL.map(covered),
            [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]]
        );
        for profile in SandboxProfile::ALL {
            assert_eq!(serde_json::to_value(profile).unwrap(), profile.as_str());
        }
    }
}
