//! Requests, read field by field. Vendors' clients send more than anybody knows of, so unknown fields are passed over; what is
//! known and wrong is told by its place, as in `messages[2].content`.

use serde_json::Value;

use super::refused::Refused;

/// A value of a request, and where it is.
#[derive(Clone, Debug)]
pub(super) struct Field<'a> {
    value: &'a Value,
    place: String,
}

impl<'a> Field<'a> {
    /// The request itself.
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, place: String::new() }
    }

    /// A field of an object; `null` is as good as none.
    pub(super) fn get(&self, name: &str) -> Option<Self> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        let place = match self.place.as_str() {
            "" => name.to_owned(),
            place => format!("{place}.{name}"),
        };
        Some(Self { value, place })
    }

    /// A field that must be there.
    pub(super) fn need(&self, name: &str) -> Result<Self, Refused> {
        let place = if self.place.is_empty() { String::new() } else { format!("{}.", self.place) };
        self.get(name).ok_or_else(|| Refused::field(format!("{place}{name}"), "is missing"))
    }

    /// What is wrong with it.
    pub(super) fn refuse(&self, why: impl std::fmt::Display) -> Refused {
        Refused::field(self.place.clone(), why)
    }

    pub(super) fn as_text(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    pub(super) fn text(&self) -> Result<&'a str, Refused> {
        self.value.as_str().ok_or_else(|| self.refuse("must be text"))
    }

    pub(super) fn object(&self) -> Result<(), Refused> {
        if self.value.is_object() { Ok(()) } else { Err(self.refuse("must be an object")) }
    }

    pub(super) fn as_list(&self) -> Option<Vec<Self>> {
        let item = |(at, value)| Self { value, place: format!("{}[{at}]", self.place) };
        self.value.as_array().map(|items| items.iter().enumerate().map(item).collect())
    }

    pub(super) fn list(&self) -> Result<Vec<Self>, Refused> {
        self.as_list().ok_or_else(|| self.refuse("must be a list"))
    }

    /// Whether there is nothing in it: no items, no fields, no words.
    pub(super) fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::String(text) => text.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// The value as JSON.
    pub(super) fn json(&self) -> String {
        self.value.to_string()
    }

    /// A flag, off if absent.
    pub(super) fn flag(&self, name: &str) -> Result<bool, Refused> {
        let Some(field) = self.get(name) else { return Ok(false) };
        field.value.as_bool().ok_or_else(|| field.refuse("must be true or false"))
    }

    /// Checks fields that are heard and not obeyed: a client that means something else by them had better know.
    pub(super) fn numbers(&self, names: &[&str]) -> Result<(), Refused> {
        for field in names.iter().filter_map(|name| self.get(name)) {
            if !field.value.is_number() {
                return Err(field.refuse("must be a number"));
            }
        }
        Ok(())
    }

    /// The same for numbers that count something.
    pub(super) fn counts(&self, names: &[&str]) -> Result<(), Refused> {
        for field in names.iter().filter_map(|name| self.get(name)) {
            if field.value.as_u64().is_none_or(|count| count == 0) {
                return Err(field.refuse("must be a whole number above 0"));
            }
        }
        Ok(())
    }

    /// Refuses fields that ask for what no agent does, unless they say nothing.
    pub(super) fn none_of(&self, names: &[&str], why: &str) -> Result<(), Refused> {
        let said = names.iter().filter_map(|name| self.get(name)).find(|field| !field.is_empty());
        said.map_or(Ok(()), |field| Err(field.refuse(why)))
    }
}
