//! The types to write, as data.

use std::collections::BTreeSet;

use super::Object;
use crate::crd::types::Names;

/// A Rust type of a field.
#[derive(Debug, Clone)]
pub struct Type {
    /// As it is written, such as `Vec<String>`.
    pub name: String,
    /// Whether it implements `Default`.
    pub has_default: bool,
    /// Whether an empty value of it can stand for one that is left out: lists and maps.
    pub is_collection: bool,
    /// The keywords of the schema that follow from the type.
    pub native: Vec<&'static str>,
    /// The attributes for the items of a list.
    pub items: Items,
}

/// How the constraints of a list's items, or of a map's values, are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Items {
    /// There are none besides those of the type.
    Plain,
    /// As the arguments of `schemars(inner(...))`.
    Inner(Vec<String>),
    /// As the whole schema.
    Whole,
}

impl Type {
    /// A type with a default, from which the keyword `type` follows.
    pub fn plain(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            has_default: true,
            is_collection: false,
            native: vec!["type"],
            items: Items::Plain,
        }
    }

    /// The type with more keywords that follow from it.
    pub fn with(mut self, native: &[&'static str]) -> Self {
        self.native.extend(native);
        self
    }
}

/// A type or a function to write.
#[derive(Debug)]
pub enum Definition {
    Struct(Struct),
    Enum(Enum),
    /// A function, as text.
    Function(String),
}

#[derive(Debug, Default)]
pub struct Struct {
    pub name: String,
    pub docs: String,
    /// The attributes, each on lines of its own.
    pub attributes: Vec<String>,
    pub fields: Vec<Field>,
    pub has_default: bool,
}

#[derive(Debug)]
pub struct Enum {
    pub name: String,
    pub docs: String,
    /// The identifiers, and the values if serde does not derive them.
    pub variants: Vec<(String, Option<String>)>,
    /// The variant that is the default.
    pub default: Option<usize>,
}

#[derive(Debug)]
pub struct Field {
    pub ident: String,
    pub docs: String,
    pub attributes: Vec<String>,
    pub type_: String,
}

/// All types of a version.
#[derive(Debug, Default)]
pub struct Types {
    /// What the names begin with: the kind.
    pub prefix: String,
    pub names: Names,
    pub functions: Names,
    pub with_default: BTreeSet<String>,
    /// The enums with a default variant.
    pub definitions: Vec<Definition>,
    /// What cannot be written, each with its place.
    pub notes: Vec<String>,
    /// The properties from the root to the current one.
    pub path: Vec<String>,
}

impl Types {
    /// No types yet; `taken` are the names that are not available.
    pub fn new(prefix: &str, taken: impl IntoIterator<Item = String>) -> Self {
        Self { prefix: prefix.to_owned(), names: Names::new(taken), ..Self::default() }
    }

    /// The place of the current property, such as `spec.ports[]`.
    pub fn place(&self) -> String {
        self.path.join(".").replace(".[]", "[]")
    }

    /// Adds the type of `spec` or `status`.
    pub fn root(&mut self, name: &str, part: &str, schema: &Object) {
        self.path.push(part.to_owned());
        self.structure(name.to_owned(), schema);
        self.path.pop();
    }
}
