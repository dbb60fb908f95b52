//! The tests of operator-sdk's scorecard that need nothing but the bundle: its suites basic and olm
//! (<https://sdk.operatorframework.io/docs/testing-operators/scorecard/>).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::directory::BundleDirectory;
use super::object::Object;
use super::selector::Selector;
use super::validate::{self, Level};
use crate::error::UserError;
use crate::text::one_line;

/// The version of the API of the results.
const API_VERSION: &str = "scorecard.operatorframework.io/v1alpha3";

/// The tests that opctl runs itself: their suites, names and checks.
const TESTS: [(&str, &str, Check); 6] = [
    ("basic", "basic-check-spec", check_spec),
    ("olm", "olm-bundle-validation", bundle_validation),
    ("olm", "olm-crds-have-validation", crds_have_validation),
    ("olm", "olm-crds-have-resources", crds_have_resources),
    ("olm", "olm-spec-descriptors", spec_descriptors),
    ("olm", "olm-status-descriptors", status_descriptors),
];

type Check = fn(&BundleDirectory, &[Object], &mut TestResult);

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The bundle is good.
    Pass,
    /// The bundle is not.
    Fail,
    /// The test could not be run.
    Error,
}

/// The result of a test.
#[derive(Debug, Clone, Serialize)]
pub struct TestResult {
    /// The name of the test.
    pub name: String,
    /// How it ended.
    pub state: State,
    /// What is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// What could be better.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<String>,
}

/// What a test is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TestSpec {
    /// The image that operator-sdk runs.
    #[serde(default)]
    pub image: String,
    /// Its command; the last word is the name of the test.
    #[serde(default)]
    pub entrypoint: Vec<String>,
    /// What the test is selected by.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A test with its result.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Test {
    kind: &'static str,
    api_version: &'static str,
    /// What the test is.
    pub spec: TestSpec,
    status: Status,
}

#[derive(Debug, Clone, Default, Serialize)]
struct Status {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    results: Vec<TestResult>,
}

/// The tests of a bundle.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestList {
    kind: &'static str,
    api_version: &'static str,
    /// The tests.
    pub items: Vec<Test>,
}

#[derive(Debug, Deserialize)]
struct Configuration {
    #[serde(default)]
    stages: Vec<Stage>,
}

#[derive(Debug, Deserialize)]
struct Stage {
    #[serde(default)]
    tests: Vec<TestSpec>,
}

/// The selected tests of a configuration, which by default is that of the bundle, without results.
///
/// # Errors
/// If the configuration cannot be read.
pub fn list(
    bundle: &BundleDirectory,
    file: Option<&Path>,
    selector: &Selector,
) -> Result<TestList> {
    let specs = match file.or(bundle.tests.as_deref()) {
        Some(file) => read(file)?,
        None => TESTS.iter().map(|(suite, name, _)| TestSpec::own(suite, name)).collect(),
    };
    let selected = specs
        .into_iter()
        .filter(|spec| selector.matches(|label| spec.labels.get(label).map(String::as_str)));
    let items = selected.map(|spec| Test {
        kind: "Test",
        api_version: API_VERSION,
        spec,
        status: Status::default(),
    });
    Ok(TestList { kind: "TestList", api_version: API_VERSION, items: items.collect() })
}

fn read(file: &Path) -> Result<Vec<TestSpec>> {
    let name = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    let configuration: Configuration = serde_yaml::from_str(&text).map_err(|error| {
        let error = error.to_string();
        UserError::failure(format!("invalid {name}: {}", one_line(&error)))
    })?;
    Ok(configuration.stages.into_iter().flat_map(|stage| stage.tests).collect())
}

impl TestSpec {
    fn own(suite: &str, name: &str) -> Self {
        let labels = [("suite", suite.to_owned()), ("test", format!("{name}-test"))];
        Self {
            image: String::new(),
            entrypoint: vec!["scorecard-test".to_owned(), name.to_owned()],
            labels: labels.into_iter().map(|(label, value)| (label.to_owned(), value)).collect(),
        }
    }

    /// The name of the test.
    pub fn name(&self) -> &str {
        self.entrypoint.last().map(String::as_str).unwrap_or_default()
    }
}

impl Test {
    /// The results, once the test was run.
    pub fn results(&self) -> &[TestResult] {
        &self.status.results
    }
}

impl TestList {
    /// Runs all tests.
    pub fn run(&mut self, bundle: &BundleDirectory) {
        for test in &mut self.items {
            test.status.results = vec![run(&test.spec, bundle)];
        }
    }

    /// Whether all tests have passed.
    pub fn passed(&self) -> bool {
        self.items.iter().flat_map(Test::results).all(|result| result.state == State::Pass)
    }
}

fn run(spec: &TestSpec, bundle: &BundleDirectory) -> TestResult {
    let mut result = TestResult {
        name: spec.name().to_owned(),
        state: State::Pass,
        errors: Vec::new(),
        suggestions: Vec::new(),
    };
    let known = TESTS.iter().find(|(_, name, _)| *name == spec.name());
    match (known, examples(bundle)) {
        (Some((.., check)), Ok(examples)) => check(bundle, &examples, &mut result),
        (Some(_), Err(error)) => result.fail(error),
        (None, _) => {
            result.state = State::Error;
            result.errors = vec![format!(
                "the image {} runs in a cluster only with operator-sdk: opctl runs the suites basic and olm",
                spec.image
            )];
        }
    }
    result
}

impl TestResult {
    fn fail(&mut self, error: impl Into<String>) {
        self.state = State::Fail;
        self.errors.push(error.into());
    }
}

/// The examples of a bundle.
fn examples(bundle: &BundleDirectory) -> Result<Vec<Object>, String> {
    let examples = bundle.csv.as_ref().and_then(|csv| csv.annotation("alm-examples"));
    match examples.unwrap_or_default() {
        "" => Ok(Vec::new()),
        text => serde_json::from_str::<Vec<Value>>(text)
            .map(|examples| examples.into_iter().map(Object::new).collect())
            .map_err(|error| format!("the annotation alm-examples is invalid: {error}")),
    }
}

fn check_spec(_: &BundleDirectory, examples: &[Object], result: &mut TestResult) {
    for example in examples.iter().filter(|example| example.value().get("spec").is_none()) {
        result.suggestions.push(format!("the example {} has no spec", example.title()));
    }
}

fn bundle_validation(bundle: &BundleDirectory, _: &[Object], result: &mut TestResult) {
    for problem in validate::required(bundle) {
        match problem.level {
            Level::Error => result.fail(problem.message),
            Level::Warning => result.suggestions.push(problem.message),
        }
    }
}

fn crds_have_validation(bundle: &BundleDirectory, examples: &[Object], result: &mut TestResult) {
    for example in examples {
        let crd = bundle
            .crds
            .iter()
            .find(|crd| example.is(crd.text("/spec/group"), crd.text("/spec/names/kind")));
        let versions = crd.into_iter().flat_map(|crd| crd.items("/spec/versions"));
        for version in versions.filter(|version| version["name"] == example.version()) {
            for part in ["spec", "status"] {
                let properties = &version["schema"]["openAPIV3Schema"]["properties"][part];
                for field in keys(example, part) {
                    if properties["properties"].get(field).is_none() {
                        let title = example.title();
                        result.fail(format!(
                            "{title}: {part}.{field} is not in the schema of its CRD"
                        ));
                    }
                }
            }
        }
    }
}

fn crds_have_resources(bundle: &BundleDirectory, _: &[Object], result: &mut TestResult) {
    for entry in owned(bundle) {
        if entry["resources"].as_array().is_none_or(Vec::is_empty) {
            let name = entry["name"].as_str().unwrap_or_default();
            result.fail(format!("the owned CRD {name} has no resources"));
        }
    }
}

fn spec_descriptors(bundle: &BundleDirectory, examples: &[Object], result: &mut TestResult) {
    for example in examples {
        let title = example.title();
        if example.value().get("spec").is_none() {
            result.fail(format!("the example {title} has no spec"));
        } else if let Some(entry) = entry(bundle, example) {
            for field in keys(example, "spec") {
                if !describes(entry, "specDescriptors", field) {
                    result.fail(format!("{title}: spec.{field} has no descriptor"));
                }
            }
        } else {
            result.fail(format!("the operator does not own the kind of the example {title}"));
        }
    }
}

fn status_descriptors(bundle: &BundleDirectory, examples: &[Object], result: &mut TestResult) {
    for example in examples {
        let title = example.title();
        let Some(entry) = entry(bundle, example) else {
            result.fail(format!("the operator does not own the kind of the example {title}"));
            continue;
        };
        if keys(example, "status").next().is_none() {
            result.suggestions.push(format!("the example {title} has no status"));
        } else if entry["statusDescriptors"].as_array().is_none_or(Vec::is_empty) {
            result.fail(format!("{title}: status has no descriptor"));
        }
    }
}

fn owned(bundle: &BundleDirectory) -> &[Value] {
    bundle.csv.as_ref().map_or(&[], |csv| csv.items("/spec/customresourcedefinitions/owned"))
}

/// What the operator says of the kind of an example.
fn entry<'a>(bundle: &'a BundleDirectory, example: &Object) -> Option<&'a Value> {
    owned(bundle)
        .iter()
        .find(|entry| entry["kind"] == example.kind() && entry["version"] == example.version())
}

fn describes(entry: &Value, list: &str, field: &str) -> bool {
    entry[list].as_array().is_some_and(|list| list.iter().any(|item| item["path"] == field))
}

/// The fields of a part of an object.
fn keys<'a>(object: &'a Object, part: &str) -> impl Iterator<Item = &'a String> {
    object.value().get(part).and_then(Value::as_object).into_iter().flat_map(Map::keys)
}
