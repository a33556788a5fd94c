//! URLs as scripts have them, by the same rules as those of requests.

use rquickjs::{Ctx, Function, IntoJs, Object, Result, Value};
use url::{Url, form_urlencoded, quirks};

/// The parts of a URL that can be set.
const PARTS: [&str; 10] =
    ["href", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];

/// The parts of a URL.
struct Parts(Url);

impl<'js> IntoJs<'js> for Parts {
    fn into_js(self, ctx: &Ctx<'js>) -> Result<Value<'js>> {
        let (url, object) = (&self.0, Object::new(ctx.clone())?);
        object.set("href", quirks::href(url))?;
        object.set("origin", quirks::origin(url))?;
        object.set("protocol", quirks::protocol(url))?;
        object.set("username", quirks::username(url))?;
        object.set("password", quirks::password(url))?;
        object.set("host", quirks::host(url))?;
        object.set("hostname", quirks::hostname(url))?;
        object.set("port", quirks::port(url))?;
        object.set("pathname", quirks::pathname(url))?;
        object.set("search", quirks::search(url))?;
        object.set("hash", quirks::hash(url))?;
        Ok(object.into_value())
    }
}

pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>) -> Result<()> {
    host.set("urlParts", PARTS.to_vec())?;
    let url = |text: String, base: Option<String>| match base {
        Some(base) => Url::parse(&base).and_then(|base| base.join(&text)).ok().map(Parts),
        None => Url::parse(&text).ok().map(Parts),
    };
    host.set("url", Function::new(ctx.clone(), url)?)?;
    let with = |href: String, part: String, value: String| with(&href, &part, &value).map(Parts);
    host.set("urlWith", Function::new(ctx.clone(), with)?)?;
    let parse_query = |text: String| {
        let pairs = form_urlencoded::parse(text.as_bytes());
        pairs.map(|(name, value)| vec![name.into_owned(), value.into_owned()]).collect::<Vec<_>>()
    };
    host.set("parseQuery", Function::new(ctx.clone(), parse_query)?)?;
    let write_query = |lists: Vec<Vec<String>>| {
        form_urlencoded::Serializer::new(String::new()).extend_pairs(super::host::pairs(lists)).finish()
    };
    host.set("writeQuery", Function::new(ctx.clone(), write_query)?)
}

/// A URL with one part changed; `None` if that part cannot be this.
fn with(href: &str, part: &str, value: &str) -> Option<Url> {
    let mut url = Url::parse(href).ok()?;
    match part {
        "href" => quirks::set_href(&mut url, value).ok()?,
        "protocol" => quirks::set_protocol(&mut url, value).ok()?,
        "username" => quirks::set_username(&mut url, value).ok()?,
        "password" => quirks::set_password(&mut url, value).ok()?,
        "host" => quirks::set_host(&mut url, value).ok()?,
        "hostname" => quirks::set_hostname(&mut url, value).ok()?,
        "port" => quirks::set_port(&mut url, value).ok()?,
        "pathname" => quirks::set_pathname(&mut url, value),
        "search" => quirks::set_search(&mut url, value),
        "hash" => quirks::set_hash(&mut url, value),
        _ => return None,
    }
    Some(url)
}
