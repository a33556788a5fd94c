//! Pictures and documents that clients send, by whichever route: in base64, or where a provider can fetch them. Nobody here goes there to look.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_types::{Block, Source, View};

/// Pictures that models take.
pub(crate) const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Documents that models take as they are.
pub(crate) const PDF: &str = "application/pdf";

/// Documents that are nothing but words.
const PLAIN: &str = "text/plain";

/// The longest link.
const LINK_BYTES_MAX: usize = 2_048;

/// Where a medium is, as a client says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sent<'a> {
    /// In the request, in base64.
    Base64(&'a str),
    /// At a link.
    Link(&'a str),
}

/// Why a medium is not taken, in words that follow the name of where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    Image,
    Document,
    Base64,
    Empty,
    Text,
    Link,
    DataUrl,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image => write!(f, "is no picture that models take ({})", IMAGES.join(", ")),
            Self::Document => write!(f, "is no document that models take ({PDF}, {PLAIN})"),
            Self::Base64 => f.write_str("is not base64"),
            Self::Empty => f.write_str("is empty"),
            Self::Text => f.write_str("is not UTF-8 text"),
            Self::Link => {
                f.write_str("must be a `data:` URL in base64, or a link that begins with `https://`")
            }
            Self::DataUrl => f.write_str("is no `data:` URL in base64"),
        }
    }
}

/// A picture.
pub(crate) fn image(media_type: &str, sent: Sent<'_>) -> Result<Block, Unfit> {
    let media_type = essence(media_type);
    if !IMAGES.contains(&media_type.as_str()) {
        return Err(Unfit::Image);
    }
    let source = match sent {
        Sent::Base64(data) => base64(data)?,
        Sent::Link(url) => link(url)?,
    };
    Ok(View::Image { media_type, source }.into())
}

/// A document.
pub(crate) fn document(media_type: &str, title: Option<&str>, sent: Sent<'_>) -> Result<Block, Unfit> {
    let media_type = essence(media_type);
    let source = match (media_type.as_str(), sent) {
        (PLAIN, Sent::Base64(data)) => {
            let bytes = STANDARD.decode(data).map_err(|_| Unfit::Base64)?;
            let text = String::from_utf8(bytes).map_err(|_| Unfit::Text)?;
            return Ok(text_document(&text, title));
        }
        (PDF, Sent::Base64(data)) => base64(data)?,
        (PDF, Sent::Link(url)) => link(url)?,
        _ => return Err(Unfit::Document),
    };
    Ok(View::Document { media_type, title: title.map(str::to_owned), source }.into())
}

/// A document that is nothing but words.
pub(crate) fn text_document(text: &str, title: Option<&str>) -> Block {
    let title = title.map(|title| format!(" title={title:?}")).unwrap_or_default();
    Block::text(format!("<document{title}>\n{text}\n</document>"))
}

/// Media type and base64 of a `data:` URL; nothing, if it is none.
pub(crate) fn data_url(url: &str) -> Result<Option<(String, &str)>, Unfit> {
    let Some(rest) = url.strip_prefix("data:") else { return Ok(None) };
    let parts = rest.split_once(',').and_then(|(about, data)| Some((about.strip_suffix(";base64")?, data)));
    let (about, data) = parts.ok_or(Unfit::DataUrl)?;
    Ok(Some((essence(about), data)))
}

/// A media type without its parameters.
fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Only the provider ever goes there.
fn link(url: &str) -> Result<Source, Unfit> {
    let is_link = url.starts_with("https://") || url.starts_with("http://");
    if !is_link || url.len() > LINK_BYTES_MAX || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Unfit::Link);
    }
    Ok(Source::Url(url.to_owned()))
}

fn base64(data: &str) -> Result<Source, Unfit> {
    match STANDARD.decode(data) {
        Ok(bytes) if !bytes.is_empty() => Ok(Source::Base64(data.to_owned())),
        Ok(_) => Err(Unfit::Empty),
        Err(_) => Err(Unfit::Base64),
    }
}
