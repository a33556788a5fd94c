//! Pictures and documents that vendors' clients send, where they send them.

use weir_types::Block;

use super::fields::Field;
use super::refused::Refused;
use crate::media::{self, IMAGES, PDF, Sent};

pub(super) use crate::media::text_document;

/// A picture at a `data:` URL, or at one that a provider can fetch.
pub(super) fn image_at(url: &Field<'_>) -> Result<Block, Refused> {
    let text = url.text()?;
    match media::data_url(text).map_err(|unfit| url.refuse(unfit))? {
        Some((media_type, data)) => image(url, &media_type, data),
        None => media::image(guessed(text), Sent::Link(text)).map_err(|unfit| url.refuse(unfit)),
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
    media::image(media_type, Sent::Base64(data)).map_err(|unfit| place.refuse(unfit))
}

/// A document at a `data:` URL, or in base64 and then a PDF.
pub(super) fn document_in(data: &Field<'_>, title: Option<&str>) -> Result<Block, Refused> {
    let text = data.text()?;
    match media::data_url(text).map_err(|unfit| data.refuse(unfit))? {
        Some((media_type, data_in)) => document(data, &media_type, data_in, title),
        None => document(data, PDF, text, title),
    }
}

/// A document in base64.
pub(super) fn document(
    place: &Field<'_>,
    media_type: &str,
    data: &str,
    title: Option<&str>,
) -> Result<Block, Refused> {
    media::document(media_type, title, Sent::Base64(data)).map_err(|unfit| place.refuse(unfit))
}

/// A document that a provider can fetch.
pub(super) fn document_at(url: &Field<'_>, title: Option<&str>) -> Result<Block, Refused> {
    media::document(PDF, title, Sent::Link(url.text()?)).map_err(|unfit| url.refuse(unfit))
}
