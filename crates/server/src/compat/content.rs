//! Pictures and documents that clients send: in base64, or where a provider can fetch them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_types::{Block, Source, View};

use super::fields::Field;
use super::refused::Refused;

/// Pictures that models take.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Documents that models take as they are.
const PDF: &str = "application/pdf";

/// A picture at a `data:` URL, or at one that a provider can fetch.
pub(super) fn image_at(url: &Field<'_>) -> Result<Block, Refused> {
    match data_url(url)? {
        Some((media_type, data)) => image(url, &media_type, data),
        None => Ok(View::Image { media_type: guessed(url.text()?).to_owned(), source: link(url)? }.into()),
    }
}

/// What is at a link, as its name says; nobody goes there to look.
fn guessed(url: &str) -> &'static str {
    let path = url.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let named = IMAGES.into_iter().find(|image| path.ends_with(&image.replace("image/", ".")));
    named.unwrap_or("image/jpeg")
}

/// A picture in base64.
pub(super) fn image(place: &Field<'_>, media_type: &str, data: &str) -> Result<Block, Refused> {
    if !IMAGES.contains(&media_type) {
        return Err(place.refuse(format!("is no picture that models take ({})", IMAGES.join(", "))));
    }
    Ok(View::Image { media_type: media_type.to_owned(), source: base64(place, data)? }.into())
}

/// A document at a `data:` URL, or in base64 and then a PDF.
pub(super) fn document_in(data: &Field<'_>, title: Option<&str>) -> Result<Block, Refused> {
    match data_url(data)? {
        Some((media_type, data_in)) => document(data, &media_type, data_in, title),
        None => document(data, PDF, data.text()?, title),
    }
}

/// A document in base64.
pub(super) fn document(
    place: &Field<'_>,
    media_type: &str,
    data: &str,
    title: Option<&str>,
) -> Result<Block, Refused> {
    if media_type == "text/plain" {
        let bytes = STANDARD.decode(data).map_err(|_| not_base64(place))?;
        let text = String::from_utf8(bytes).map_err(|_| place.refuse("is not UTF-8 text"))?;
        return Ok(text_document(&text, title));
    }
    if media_type != PDF {
        return Err(place.refuse(format!("is no document that models take ({PDF}, text/plain)")));
    }
    let (media_type, title) = (media_type.to_owned(), title.map(str::to_owned));
    Ok(View::Document { media_type, title, source: base64(place, data)? }.into())
}

/// A document that a provider can fetch.
pub(super) fn document_at(url: &Field<'_>, title: Option<&str>) -> Result<Block, Refused> {
    let (media_type, title) = (PDF.to_owned(), title.map(str::to_owned));
    Ok(View::Document { media_type, title, source: link(url)? }.into())
}

/// A document that is nothing but words.
pub(super) fn text_document(text: &str, title: Option<&str>) -> Block {
    let title = title.map(|title| format!(" title={title:?}")).unwrap_or_default();
    Block::text(format!("<document{title}>\n{text}\n</document>"))
}

/// Media type and base64 of a `data:` URL; nothing, if it is none.
fn data_url<'a>(url: &Field<'a>) -> Result<Option<(String, &'a str)>, Refused> {
    let Some(rest) = url.text()?.strip_prefix("data:") else { return Ok(None) };
    let parts = rest.split_once(',').and_then(|(about, data)| Some((about.strip_suffix(";base64")?, data)));
    let (about, data) = parts.ok_or_else(|| url.refuse("is no `data:` URL in base64"))?;
    let media_type = about.split(';').next().unwrap_or_default().to_ascii_lowercase();
    Ok(Some((media_type, data)))
}

/// Only the provider ever goes there.
fn link(url: &Field<'_>) -> Result<Source, Refused> {
    let text = url.text()?;
    let is_link = text.starts_with("https://") || text.starts_with("http://");
    if !is_link || text.len() > 2_048 || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(url.refuse("must be a `data:` URL in base64, or a link that begins with `https://`"));
    }
    Ok(Source::Url(text.to_owned()))
}

fn base64(place: &Field<'_>, data: &str) -> Result<Source, Refused> {
    match STANDARD.decode(data) {
        Ok(bytes) if !bytes.is_empty() => Ok(Source::Base64(data.to_owned())),
        Ok(_) => Err(place.refuse("is empty")),
        Err(_) => Err(not_base64(place)),
    }
}

fn not_base64(place: &Field<'_>) -> Refused {
    place.refuse("is not base64")
}
