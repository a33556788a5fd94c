//! Who an agent is, in files beside its spec.

/// The identity files, in the order in which the model reads them. Each is optional.
pub const IDENTITY_FILES: [&str; 6] =
    ["SOUL.md", "IDENTITY.md", "USER.md", "MEMORY.md", "AGENTS.md", "TOOLS.md"];
