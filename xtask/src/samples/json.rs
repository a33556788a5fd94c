//! JSON whose members keep the order they were written in, as the runtime's own events do.

use std::fmt;

pub(super) enum Json {
    Raw(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// An object; members that are `None` are left out.
macro_rules! object {
    ($($key:ident: $value:expr),* $(,)?) => {
        Json::members([$((stringify!($key), Json::from($value))),*])
    };
}
pub(super) use object;

impl Json {
    pub(super) fn members<const N: usize>(members: [(&str, Json); N]) -> Self {
        let present =
            members.into_iter().filter(|(_, value)| !matches!(value, Json::Raw(raw) if raw.is_empty()));
        Self::Object(present.map(|(key, value)| (key.trim_start_matches("r#").to_owned(), value)).collect())
    }

    pub(super) fn null() -> Self {
        Self::Raw("null".to_owned())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raw(raw) => f.write_str(raw),
            Self::Text(text) => write!(f, "{}", serde_json::Value::from(text.as_str())),
            Self::List(items) => {
                f.write_str("[")?;
                for (n, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if n == 0 { "" } else { "," })?;
                }
                f.write_str("]")
            }
            Self::Object(members) => {
                f.write_str("{")?;
                for (n, (key, value)) in members.iter().enumerate() {
                    write!(f, "{}\"{key}\":{value}", if n == 0 { "" } else { "," })?;
                }
                f.write_str("}")
            }
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<usize> for Json {
    fn from(number: usize) -> Self {
        Self::Raw(number.to_string())
    }
}

impl From<bool> for Json {
    fn from(truth: bool) -> Self {
        Self::Raw(truth.to_string())
    }
}

impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Raw(String::new()), Into::into)
    }
}
