//! Who asks: `user:ada`, `group:engineering`, `serviceaccount:digest-bot`.

/// A person, a group of them, or an identity that is nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Principal<'a> {
    User(&'a str),
    Group(&'a str),
    ServiceAccount(&'a str),
}

impl<'a> Principal<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (kind, name) = text.split_once(':')?;
        match kind {
            _ if name.is_empty() => None,
            "user" => Some(Self::User(name)),
            "group" => Some(Self::Group(name)),
            "serviceaccount" => Some(Self::ServiceAccount(name)),
            _ => None,
        }
    }
}
