//! Derives Rust types from a schema.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use heck::{ToSnakeCase, ToUpperCamelCase};

use super::core_types;
use super::schema::{Additional, Schema};
use crate::project::names;

/// The maximum length of a name; rustfmt could not break lines with longer ones.
const LONGEST_NAME: usize = 60;

/// The type of a field.
#[derive(Debug, Clone)]
pub enum Type {
    /// A type of the standard library or of a crate, and whether it implements `Default`.
    Plain(&'static str, bool),
    Array(Box<Type>),
    Map(Box<Type>),
    /// One of the definitions in [`Types`].
    Named(String),
}

/// A type to write.
#[derive(Debug)]
pub struct Definition {
    pub name: String,
    pub docs: String,
    pub shape: Shape,
    pub has_default: bool,
}

#[derive(Debug)]
pub enum Shape {
    Struct { fields: Vec<Field>, is_open: Option<String> },
    Enum { variants: Vec<Variant>, other: &'static str },
}

#[derive(Debug)]
pub struct Field {
    pub ident: String,
    /// The name in manifests, if serde does not derive it from the identifier.
    pub rename: Option<String>,
    pub docs: String,
    pub type_: Type,
    pub is_option: bool,
    /// Whether a field without a value is omitted.
    pub may_be_absent: bool,
}

#[derive(Debug)]
pub struct Variant {
    pub ident: String,
    pub rename: Option<String>,
}

const VALUE: Type = Type::Plain("serde_json::Value", true);

/// The names of the properties of each shape, with how often each is used.
type Uses = HashMap<String, BTreeMap<String, usize>>;

/// All types of a kind; each comes before the types of its fields.
#[derive(Debug, Default)]
pub struct Types {
    /// The prefix of all names.
    prefix: String,
    names: Names,
    /// The names of the definitions that implement `Default`.
    with_default: BTreeSet<String>,
    uses: Uses,
    /// The place of the definition of each shape.
    shared: HashMap<String, usize>,
    pub definitions: Vec<Definition>,
}

impl Types {
    /// An empty list; `taken` are the names that are not available.
    pub fn new(taken: impl IntoIterator<Item = String>) -> Self {
        Self { names: Names::new(taken), ..Self::default() }
    }

    /// Adds the type with this name and the types of its fields, with names that begin with `prefix`. No
    /// field gets one of the identifiers `taken`.
    pub fn root(&mut self, name: &str, prefix: &str, schema: &Schema, taken: &[&str]) {
        prefix.clone_into(&mut self.prefix);
        schema.properties.iter().for_each(|(name, schema)| count(name, schema, &mut self.uses));
        self.names.taken.insert(name.to_owned());
        self.structure(name.to_owned(), prefix, schema, taken);
    }

    fn type_of(&mut self, prefix: &str, property: &str, schema: &Schema) -> Type {
        if schema.int_or_string {
            return Type::Plain("intstr::IntOrString", true);
        }
        if schema.strings().is_some() {
            return self.definition(prefix, property, schema);
        }
        if let Some(path) = core_types::find_readable(schema) {
            return Type::Plain(path, path != core_types::CONDITION);
        }
        let format = schema.format.as_deref();
        match schema.type_.as_deref() {
            Some("boolean") => Type::Plain("bool", true),
            Some("integer") if format == Some("int32") => Type::Plain("i32", true),
            Some("integer") => Type::Plain("i64", true),
            Some("number") => Type::Plain("f64", true),
            Some("string") => match format {
                Some("date-time") => Type::Plain("meta::Time", false),
                Some("byte") => Type::Plain("k8s_openapi::ByteString", true),
                _ => Type::Plain("String", true),
            },
            Some("array") => {
                let items = schema.items.as_deref();
                Type::Array(Box::new(
                    items.map_or(VALUE, |items| self.type_of(prefix, property, items)),
                ))
            }
            Some("object") => match &schema.additional_properties {
                Additional::Of(values) => {
                    Type::Map(Box::new(self.type_of(prefix, property, values)))
                }
                Additional::Any(true) => Type::Map(Box::new(VALUE)),
                Additional::Any(false)
                    if schema.properties.is_empty() && schema.preserves_unknown_fields =>
                {
                    Type::Map(Box::new(VALUE))
                }
                Additional::Any(false) => self.definition(prefix, property, schema),
            },
            _ => VALUE,
        }
    }

    /// The definition of an object or an enum. Those of the same shape share one, which is named after the
    /// property that most of them have.
    fn definition(&mut self, path: &str, property: &str, schema: &Schema) -> Type {
        let shape = schema.shape();
        if let Some(place) = self.shared.get(&shape) {
            let name = self.definitions[*place].name.clone();
            self.keep_common_docs(schema);
            return Type::Named(name);
        }
        let uses = self.uses.get(&shape).filter(|uses| uses.values().sum::<usize>() > 1);
        let usual = uses.and_then(|uses| uses.iter().rev().max_by_key(|(_, count)| **count));
        let name = match usual {
            Some((usual, _)) => self.free_name(&self.prefix.clone(), &usual.clone()),
            None => self.free_name(path, property),
        };
        let place = self.definitions.len();
        match schema.strings() {
            Some(values) => {
                if self.string_enum(name.clone(), &values, schema).is_none() {
                    return Type::Plain("String", true);
                }
            }
            None => self.structure(name.clone(), &name, schema, &[]),
        }
        if has_definition(schema) {
            self.shared.insert(shape, place);
        }
        Type::Named(name)
    }

    /// Drops the descriptions of shared types that are about one of the places where they are used.
    fn keep_common_docs(&mut self, schema: &Schema) {
        if let Some(place) = self.shared.get(&schema.shape()) {
            let definition = &mut self.definitions[*place];
            if definition.docs != schema.description {
                definition.docs.clear();
            }
            if let Shape::Struct { fields, .. } = &mut definition.shape {
                for (field, property) in fields.iter_mut().zip(schema.properties.values()) {
                    if field.docs != property.description {
                        field.docs.clear();
                    }
                }
            }
        }
        let values = match &schema.additional_properties {
            Additional::Of(values) => Some(values.as_ref()),
            Additional::Any(_) => None,
        };
        for part in schema.properties.values().chain(schema.items.as_deref()).chain(values) {
            self.keep_common_docs(part);
        }
    }

    fn structure(&mut self, name: String, prefix: &str, schema: &Schema, taken: &[&str]) {
        // The definition comes before those of its fields, on which it depends.
        let place = self.definitions.len();
        self.definitions.push(Definition::empty());
        let numbered = |ident: &str, n| {
            format!("{}_{n}", ident.trim_start_matches("r#").trim_end_matches('_'))
        };
        let mut idents = Names::new(taken.iter().map(|ident| (*ident).to_owned()));
        let mut fields = Vec::new();
        for (property, property_schema) in &schema.properties {
            let ident = idents.unique(ident_of(property), numbered);
            let type_ = self.type_of(prefix, property, property_schema);
            let is_required = schema.is_required(property);
            fields.push(Field {
                rename: (camel_case(&ident) != *property).then(|| property.clone()),
                ident,
                docs: property_schema.description.clone(),
                type_,
                is_option: !is_required || property_schema.nullable,
                may_be_absent: !is_required,
            });
        }
        let is_open = schema
            .preserves_unknown_fields
            .then(|| idents.unique("unknown_fields".to_owned(), numbered));
        let has_default =
            fields.iter().all(|field| field.is_option || self.has_default(&field.type_));
        if has_default {
            self.with_default.insert(name.clone());
        }
        self.definitions[place] = Definition {
            name,
            docs: schema.description.clone(),
            shape: Shape::Struct { fields, is_open },
            has_default,
        };
    }

    /// Adds an enum, if each of the values can be a variant.
    fn string_enum(&mut self, name: String, values: &[&str], schema: &Schema) -> Option<Type> {
        let mut idents = BTreeSet::new();
        let mut variants = Vec::new();
        for value in values {
            let ident = value.to_upper_camel_case();
            let is_ident = ident.starts_with(|c: char| c.is_ascii_alphabetic())
                && ident.chars().all(|c| c.is_ascii_alphanumeric())
                && ident != "Self";
            if !is_ident {
                return None;
            }
            if !idents.insert(ident.clone()) {
                return None;
            }
            let rename = (ident != **value).then(|| (*value).to_owned());
            variants.push(Variant { ident, rename });
        }
        let other =
            ["Other", "Unknown", "Unlisted"].into_iter().find(|name| !idents.contains(*name))?;
        self.definitions.push(Definition {
            name: name.clone(),
            docs: schema.description.clone(),
            shape: Shape::Enum { variants, other },
            has_default: false,
        });
        Some(Type::Named(name))
    }

    fn has_default(&self, type_: &Type) -> bool {
        match type_ {
            Type::Plain(_, has_default) => *has_default,
            Type::Array(_) | Type::Map(_) => true,
            Type::Named(name) => self.with_default.contains(name),
        }
    }

    /// A name that is not taken: from the path of the property or, if that is too long, from the property
    /// alone, or else from the prefix.
    fn free_name(&mut self, path: &str, property: &str) -> String {
        let property = words(property).to_upper_camel_case();
        let names = [path, &self.prefix].map(|prefix| format!("{prefix}{property}"));
        let name = names.into_iter().find(|name| name.len() <= LONGEST_NAME);
        let name = name.unwrap_or_else(|| self.prefix.clone());
        self.names.unique(name, |name, n| format!("{name}{n}"))
    }
}

impl Definition {
    fn empty() -> Self {
        Self {
            name: String::new(),
            docs: String::new(),
            shape: Shape::Struct { fields: Vec::new(), is_open: None },
            has_default: false,
        }
    }
}

/// Counts the names of the properties that have each shape, of those that have definitions.
fn count(property: &str, schema: &Schema, uses: &mut Uses) {
    if core_types::find_readable(schema).is_some() {
        return;
    }
    if has_definition(schema) {
        *uses.entry(schema.shape()).or_default().entry(property.to_owned()).or_default() += 1;
    }
    for (property, schema) in &schema.properties {
        count(property, schema, uses);
    }
    if let Additional::Of(values) = &schema.additional_properties {
        count(property, values, uses);
    }
    if let Some(items) = &schema.items {
        count(property, items, uses);
    }
}

/// Whether a schema may share its definition: an object without properties says too little to be the same as
/// another one.
fn has_definition(schema: &Schema) -> bool {
    schema.strings().is_some() || !schema.properties.is_empty()
}

/// Names that are distinct.
#[derive(Debug, Default)]
pub struct Names {
    taken: BTreeSet<String>,
    /// The lowest number that may be free, of names that were taken.
    numbers: BTreeMap<String, usize>,
}

impl Names {
    /// All names but these are free.
    pub fn new(taken: impl IntoIterator<Item = String>) -> Self {
        Self { taken: taken.into_iter().collect(), numbers: BTreeMap::new() }
    }

    /// Whether a name is taken.
    pub fn contains(&self, name: &str) -> bool {
        self.taken.contains(name)
    }

    /// The name, or if it is taken the first one with a number that is not.
    pub fn unique(&mut self, name: String, number: fn(&str, usize) -> String) -> String {
        if self.taken.insert(name.clone()) {
            return name;
        }
        let next = self.numbers.entry(name.clone()).or_insert(2);
        loop {
            let numbered = number(&name, *next);
            *next += 1;
            if self.taken.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}

/// A property name that can be split into words: an acronym keeps the `s` of its plural, as in `podIPs`.
pub fn words(property: &str) -> String {
    let mut chars: Vec<char> =
        property.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    for i in 2..chars.len() {
        let ends_word = chars.get(i + 1).is_none_or(|next| !next.is_ascii_lowercase());
        if chars[i] == 's' && ends_word && chars[i - 2..i].iter().all(char::is_ascii_uppercase) {
            chars[i] = 'S';
        }
    }
    chars.into_iter().collect()
}

/// The identifier of a field, which can be raw.
pub fn ident_of(property: &str) -> String {
    let name = words(property).to_snake_case();
    match name.chars().next() {
        None => "field".to_owned(),
        Some('0'..='9') => format!("_{name}"),
        Some(_) => names::ident(&name),
    }
}

/// The name that serde's `rename_all = "camelCase"` derives from an identifier.
pub fn camel_case(ident: &str) -> String {
    let ident = ident.strip_prefix("r#").unwrap_or(ident);
    let mut camel = String::new();
    let mut starts_word = false;
    for c in ident.chars() {
        match c {
            '_' => starts_word = !camel.is_empty(),
            c if starts_word => {
                camel.push(c.to_ascii_uppercase());
                starts_word = false;
            }
            c => camel.push(c),
        }
    }
    camel
}
