//! A JSON object whose values are left as they were written: what a gateway passes on, it need not understand.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Names and unread values, in their order.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// A string, without a copy where it has no escape.
#[derive(serde::Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

impl<'a> Fields<'a> {
    /// The value of a name; `null` is as good as nothing. Of several under one name the last counts, as in most readers, and
    /// [`Fields::write_without`] writes only that one.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let found = self.0.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| *value).filter(|value| value.get() != "null")
    }

    /// The value of a name as a type.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Option<Result<T, serde_json::Error>> {
        self.get(name).map(|value| serde_json::from_str(value.get()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }

    /// Writes an object of all fields but these, without its end: whoever adds fields adds them there.
    pub(crate) fn write_without(&self, names: &[&str], capacity: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(capacity);
        out.push(b'{');
        for (place, (name, value)) in self.0.iter().enumerate() {
            let again = || self.0[place + 1..].iter().any(|(other, _)| other == name);
            if names.contains(&&**name) || again() {
                continue;
            }
            write_field(&mut out, name, value.get());
        }
        out
    }
}

/// Adds a field to an object that has no end yet. `value` is JSON.
pub(crate) fn write_field(object: &mut Vec<u8>, name: &str, value: &str) {
    if object.len() > 1 {
        object.push(b',');
    }
    object.extend_from_slice(quoted(name).as_bytes());
    object.push(b':');
    object.extend_from_slice(value.as_bytes());
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some((Text(name), value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_written_as_it_was_read() {
        let text = r#"{"model":"m", "x" : [1.50, {"y":null}],"caf\u00e9":"\u2028","z":null}"#;
        let fields: Fields<'_> = serde_json::from_str(text).unwrap();
        assert!(fields.get("z").is_none());
        let mut out = fields.write_without(&["model"], 0);
        write_field(&mut out, "model", "\"n\"");
        out.push(b'}');
        let expected = "{\"x\":[1.50, {\"y\":null}],\"café\":\"\\u2028\",\"z\":null,\"model\":\"n\"}";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn of_two_fields_of_one_name_the_upstream_sees_the_one_that_was_judged() {
        let fields: Fields<'_> = serde_json::from_str(r#"{"n":1,"n":2}"#).unwrap();
        assert_eq!(fields.get("n").unwrap().get(), "2");
        assert_eq!(fields.write_without(&[], 0), br#"{"n":2"#);
    }

    #[test]
    fn an_empty_object_is_one_and_other_values_are_none() {
        assert_eq!(serde_json::from_str::<Fields<'_>>("{}").unwrap().write_without(&[], 0), b"{");
        assert!(serde_json::from_str::<Fields<'_>>("[]").is_err());
    }
}
