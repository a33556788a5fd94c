//! The owner of a stream is in its name: `notes` of `user:ada` is `user:ada/notes` in the journal, and she never sees the
//! difference. So names of two people cannot meet, and whose a stream is costs nothing to know.

use weir_types::StreamName;

use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;
use crate::percent::decoded;

/// What holds the blobs that somebody has stored.
const BLOBS: &str = "engine:blobs/";

/// The kinds of those who can own something.
const OWNERS: [&str; 2] = ["user:", "serviceaccount:"];

/// The longest name of someone, in bytes: it has to fit into the names of streams and into an index.
const PRINCIPAL_BYTES_MAX: usize = 128;

/// Whether a text is the name of someone who can ask for something: a user or a service account, and no group.
pub(crate) fn is_principal(text: &str) -> bool {
    let name = OWNERS.iter().find_map(|kind| text.strip_prefix(kind));
    let is_odd = |c: char| c.is_control() || c.is_whitespace();
    name.is_some_and(|name| !name.is_empty() && !name.contains(is_odd)) && text.len() <= PRINCIPAL_BYTES_MAX
}

/// What the names of someone's streams begin with.
pub(super) fn namespace(principal: &str) -> String {
    format!("{}/", escaped(principal))
}

/// The stream that keeps what somebody has stored.
pub(super) fn blobs_of(principal: &str) -> Option<StreamName> {
    format!("{BLOBS}{}", namespace(principal)).parse().ok()
}

/// The journal's name for a stream of someone's own.
pub(super) fn own(caller: &Caller, name: &StreamName) -> Result<StreamName, Error> {
    let prefix = namespace(&caller.principal);
    let room = StreamName::BYTES_MAX.saturating_sub(prefix.len());
    if name.as_str().len() > room {
        return Err(Error::bad(
            format!(
                "the name of a stream has at most {room} bytes here, this one has {}",
                name.as_str().len()
            ),
            "choose a shorter one",
        ));
    }
    format!("{prefix}{name}")
        .parse()
        .map_err(|error: weir_types::NameError| Error::bad(error.to_string(), "give the stream another name"))
}

/// A stream's name, as whoever asks knows it.
pub(crate) fn shown<'a>(app: &App, caller: &Caller, stream: &'a StreamName) -> &'a str {
    if super::is_admin(app, caller) {
        return stream.as_str();
    }
    stream.as_str().strip_prefix(&namespace(&caller.principal)).unwrap_or(stream.as_str())
}

/// Whose a stream is, by its name.
pub(super) fn owner(stream: &StreamName) -> Option<String> {
    let name = stream.as_str().strip_prefix(BLOBS).unwrap_or(stream.as_str());
    let (owner, _) = name.split_once('/')?;
    OWNERS.iter().any(|kind| owner.starts_with(kind)).then(|| unescaped(owner)).flatten()
}

/// Without `/`, so that it ends where a name begins, and without what no name may hold.
fn escaped(principal: &str) -> String {
    let mut text = String::with_capacity(principal.len());
    for byte in principal.bytes() {
        match byte {
            b'%' | b'/' | ..=b' ' | 0x7f.. => text.push_str(&format!("%{byte:02X}")),
            _ => text.push(char::from(byte)),
        }
    }
    text
}

fn unescaped(text: &str) -> Option<String> {
    let principal = decoded(text)?;
    // Only one spelling of a name is that name.
    (escaped(&principal) == text).then_some(principal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(name: &str) -> StreamName {
        name.parse().unwrap()
    }

    #[test]
    fn whose_a_stream_is() {
        for (name, expected) in [
            ("user:ada/notes", Some("user:ada")),
            ("user:ada/", Some("user:ada")),
            ("serviceaccount:bot/a/b", Some("serviceaccount:bot")),
            ("engine:blobs/user:ada/", Some("user:ada")),
            ("user:a%2Fb/x", Some("user:a/b")),
            ("user:%C3%A9/x", Some("user:é")),
            ("user:a%2fb/x", None),
            ("user:%61da/x", None),
            ("user:a%/x", None),
            ("user:ada", None),
            ("group:admin/x", None),
            ("notes", None),
            ("engine:tokens", None),
            ("/user:ada/x", None),
        ] {
            assert_eq!(owner(&stream(name)).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn nobody_can_be_called_like_the_streams_of_somebody_else() {
        let names = ["user:ada", "user:ada/x", "user:ada%2Fx", "user:", "user:a b", "user:日本"];
        for one in names {
            let own = own(&Caller { principal: one.to_owned(), groups: vec![] }, &stream("y/z")).unwrap();
            assert_eq!(owner(&own).as_deref(), Some(one));
            assert_eq!(names.iter().filter(|name| own.as_str().starts_with(&namespace(name))).count(), 1);
        }
        let long = Caller { principal: format!("user:{}", "é".repeat(60)), groups: vec![] };
        assert!(own(&long, &stream("y")).is_err());
        assert!(is_principal("user:ada") && is_principal("serviceaccount:a/b"));
        let odd = ["ada", "user:", "group:admin", "user:a b", "user:a\n", "User:a"];
        assert!(odd.iter().all(|text| !is_principal(text)));
        assert!(!is_principal(&format!("user:{}", "a".repeat(200))));
    }
}
