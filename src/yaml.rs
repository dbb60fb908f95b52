//! YAML from outside: limited in size and in depth, and to the values that JSON has.

mod depth;

use std::io::{self, Read};

use serde_yaml::{Number, Value};

use crate::text::one_line;

/// The maximum depth. The parser has a limit too, but applies it after the scan of the whole text, for which
/// it needs quadratic time if `[` and `{` are nested.
const MAX_DEPTH: usize = 100;

/// A maximum size of a text.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// In megabytes, of a million bytes.
    pub megabytes: usize,
}

impl Limit {
    fn bytes(self) -> usize {
        self.megabytes * 1_000_000
    }

    /// The reason to refuse a larger text.
    fn exceeded(self) -> String {
        format!("larger than {} MB", self.megabytes)
    }

    /// Reads a text, which may come from a pipe or a device.
    ///
    /// # Errors
    /// If it cannot be read, or if it is larger.
    pub fn read(self, source: impl Read) -> io::Result<String> {
        let mut text = String::new();
        source.take(self.bytes() as u64 + 1).read_to_string(&mut text)?;
        if text.len() > self.bytes() {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, self.exceeded()));
        }
        Ok(text)
    }

    /// Checks a text before it is parsed.
    ///
    /// # Errors
    /// If the text is larger or nested too deeply.
    pub fn check(self, text: &str) -> Result<(), String> {
        if text.len() > self.bytes() {
            return Err(self.exceeded());
        }
        match depth::find_deeper(text, MAX_DEPTH) {
            None => Ok(()),
            Some(line) => Err(format!("nested more than {MAX_DEPTH} levels deep at line {line}")),
        }
    }

    /// Parses a document.
    ///
    /// # Errors
    /// If the text is larger or nested too deeply, or if it is not YAML.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        self.check(text)?;
        serde_yaml::from_str(text).map_err(|error| one_line(&error.to_string()).into_owned())
    }
}

/// The largest integer. The parser reads some larger ones as floats, which are rounded.
pub const MAX_INTEGER: f64 = u64::MAX as f64;

/// Checks that a value is one of JSON: that it has no tags, that keys are strings, and that numbers are
/// finite and at most `max`.
///
/// # Errors
/// A phrase that begins with the path of another value.
pub fn check_json(value: &Value, max: f64) -> Result<(), String> {
    Check { max, path: Vec::new() }.value(value)
}

struct Check<'a> {
    max: f64,
    path: Vec<Step<'a>>,
}

/// A step of the path of a value.
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl<'a> Check<'a> {
    fn value(&mut self, value: &'a Value) -> Result<(), String> {
        match value {
            Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
            Value::Number(number) => self.number(number),
            Value::Sequence(items) => {
                let steps = items.iter().enumerate();
                steps.map(|(i, item)| (Step::Index(i), item)).try_for_each(|(s, v)| self.step(s, v))
            }
            Value::Mapping(fields) => fields.iter().try_for_each(|(key, value)| {
                let key =
                    key.as_str().ok_or_else(|| self.error("has a key that is not a string"))?;
                self.step(Step::Key(key), value)
            }),
            Value::Tagged(tagged) => {
                let tag = tagged.tag.to_string();
                let tag = one_line(&tag);
                Err(self.error(format!("has the YAML tag `{tag}`, which opctl does not support")))
            }
        }
    }

    fn step(&mut self, step: Step<'a>, value: &'a Value) -> Result<(), String> {
        self.path.push(step);
        self.value(value)?;
        self.path.pop();
        Ok(())
    }

    fn number(&self, number: &Number) -> Result<(), String> {
        match number.as_f64().map(f64::abs) {
            Some(size) if !size.is_finite() => Err(self.error("is not a finite number")),
            Some(size) if size > self.max => {
                Err(self.error("is a number of more than 64 bits, which opctl does not support"))
            }
            _ => Ok(()),
        }
    }

    fn error(&self, reason: impl std::fmt::Display) -> String {
        let mut title = String::new();
        for step in &self.path {
            title += &match step {
                Step::Key(key) if title.is_empty() => one_line(key).into_owned(),
                Step::Key(key) => format!(".{}", one_line(key)),
                Step::Index(i) => format!("[{i}]"),
            };
        }
        if title.is_empty() {
            format!("the document {reason}")
        } else {
            format!("`{title}` {reason}")
        }
    }
}
