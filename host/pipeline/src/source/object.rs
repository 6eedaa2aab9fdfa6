//! Parses a JSON object and keeps only the members that are wanted.

use crate::source::column_builder::Value;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The wanted members of one object at a time.
#[derive(Debug)]
pub(in crate::source) struct Object {
    names: Vec<String>,
    slots: Vec<Slot>,
}

/// A value that outlives the line it was read from. The text is kept for its capacity.
#[derive(Debug, Default)]
struct Slot {
    kind: Kind,
    text: String,
}

#[derive(Debug, Clone, Copy, Default)]
enum Kind {
    #[default]
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text,
    Nested,
}

impl Object {
    pub(in crate::source) fn new(names: Vec<String>) -> Self {
        let slots = names.iter().map(|_| Slot::default()).collect();
        Self { names, slots }
    }

    /// Reads a line. On an error the values are of no use.
    pub(in crate::source) fn parse(&mut self, line: &[u8]) -> Result<(), String> {
        for slot in &mut self.slots {
            slot.kind = Kind::Null;
        }
        let mut deserializer = serde_json::Deserializer::from_slice(line);
        deserializer
            .deserialize_map(Members { names: &self.names, slots: &mut self.slots })
            .and_then(|()| deserializer.end())
            .map_err(|error| format!("no JSON object: {}", without_line(&error)))
    }

    /// The value of the member with the name of this index.
    pub(in crate::source) fn value(&self, index: usize) -> Value<'_> {
        self.slots.get(index).map_or(Value::Null, Slot::value)
    }
}

/// Every member of an object, up to where it is malformed.
pub(in crate::source) fn for_each(line: &[u8], mut member: impl FnMut(&str, Value<'_>)) {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    // The caller wants what can be had: an error only ends it.
    let _ = deserializer.deserialize_map(Each { member: &mut member });
}

impl Slot {
    fn value(&self) -> Value<'_> {
        match self.kind {
            Kind::Null => Value::Null,
            Kind::Boolean(boolean) => Value::Boolean(boolean),
            Kind::Integer(integer) => Value::Integer(integer),
            Kind::Float(float) => Value::Float(float),
            Kind::Text => Value::Text(&self.text),
            Kind::Nested => Value::Nested,
        }
    }
}

/// The message of an error without its line, which is always 1.
fn without_line(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let cut = message.rfind(" at line ").and_then(|at| message.get(..at));
    match (cut, error.column()) {
        (Some(message), 0) => message.to_owned(),
        (Some(message), column) => format!("{message} at character {column}"),
        (None, _) => message,
    }
}

struct Members<'a> {
    names: &'a [String],
    slots: &'a mut [Slot],
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(wanted) = map.next_key_seed(Name { names: self.names })? {
            match wanted.and_then(|index| self.slots.get_mut(index)) {
                Some(slot) => map.next_value_seed(slot)?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct Each<'a, F> {
    member: &'a mut F,
}

impl<'de, F: FnMut(&str, Value<'_>)> Visitor<'de> for Each<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut slot = Slot::default();
        while let Some(name) = map.next_key::<String>()? {
            slot.kind = Kind::Null;
            map.next_value_seed(&mut slot)?;
            (self.member)(&name, slot.value());
        }
        Ok(())
    }
}

/// Finds the index of a name without copying it.
struct Name<'a> {
    names: &'a [String],
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.names.iter().position(|known| known == name))
    }
}

impl<'de> DeserializeSeed<'de> for &mut Slot {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Slot {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.kind = Kind::Null;
        Ok(())
    }

    fn visit_bool<E>(self, boolean: bool) -> Result<(), E> {
        self.kind = Kind::Boolean(boolean);
        Ok(())
    }

    fn visit_i64<E>(self, integer: i64) -> Result<(), E> {
        self.kind = Kind::Integer(integer);
        Ok(())
    }

    fn visit_u64<E>(self, integer: u64) -> Result<(), E> {
        #[expect(clippy::cast_precision_loss, reason = "too large for any integer column")]
        let float = integer as f64;
        self.kind = i64::try_from(integer).map_or(Kind::Float(float), Kind::Integer);
        Ok(())
    }

    fn visit_f64<E>(self, float: f64) -> Result<(), E> {
        self.kind = Kind::Float(float);
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.kind = Kind::Text;
        self.text.clear();
        self.text.push_str(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.kind = Kind::Nested;
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.kind = Kind::Nested;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(line: &str) -> Result<Object, String> {
        let mut object = Object::new(vec!["a".into(), "b".into()]);
        object.parse(line.as_bytes()).map(|()| object)
    }

    #[test]
    fn only_wanted_members_are_kept() {
        let object = object(r#"{"x": [1, {"a": 2}], "b": "text", "a": 5}"#).expect("an object");
        assert_eq!(object.value(0), Value::Integer(5));
        assert_eq!(object.value(1), Value::Text("text"));
    }

    #[test]
    fn a_member_of_the_line_before_is_forgotten() {
        let mut object = object(r#"{"a": 1, "b": 2}"#).expect("an object");
        object.parse(br#"{"b": true}"#).expect("an object");
        assert_eq!((object.value(0), object.value(1)), (Value::Null, Value::Boolean(true)));
    }

    #[test]
    fn what_is_no_object_is_refused_with_the_place() {
        let error = object(r#"{"a": 1"#).expect_err("cut off");
        assert_eq!(error, "no JSON object: EOF while parsing an object at character 7");
        assert!(object("[1]").is_err());
        assert!(object(r#"{"a": 1} {"b": 2}"#).is_err());
        assert!(object("{\"a\": \"\u{0}\"}").is_err());
    }

    #[test]
    fn a_nested_value_is_known_as_such() {
        let object = object(r#"{"a": {"b": 1}, "b": [[]]}"#).expect("an object");
        assert_eq!((object.value(0), object.value(1)), (Value::Nested, Value::Nested));
    }
}
