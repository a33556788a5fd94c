//! Who asks, what whoever vouched for them says about them, and whose the things are that they ask for.

/// Someone, with the groups that the proof of who they are came with. What a project says about groups counts besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who<'a> {
    /// `user:…` or `serviceaccount:…`.
    pub principal: &'a str,
    /// `group:…`, as a token or a trusted proxy says.
    pub groups: &'a [String],
}

/// Whose something is that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<'a> {
    /// This one's.
    Someone(&'a str),
    /// Nobody's: it is there for everybody who may see what is shared.
    Nobody,
    /// The runtime's, or that of somebody who is not known here. To whoever asks it is neither theirs nor shared.
    Unsaid,
}

impl<'a> Who<'a> {
    /// Someone, and the groups they come with.
    pub const fn new(principal: &'a str, groups: &'a [String]) -> Self {
        Self { principal, groups }
    }
}

impl<'a> From<&'a str> for Who<'a> {
    fn from(principal: &'a str) -> Self {
        Self { principal, groups: &[] }
    }
}

impl<'a> From<&'a String> for Who<'a> {
    fn from(principal: &'a String) -> Self {
        Self::from(principal.as_str())
    }
}
