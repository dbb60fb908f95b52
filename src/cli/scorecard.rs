//! `opctl scorecard`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::error::UserError;
use crate::package::olm::scorecard::{self, State, Test, TestList};
use crate::package::olm::{BundleDirectory, Selector};
use crate::text::visible;
use crate::ui::Ui;

/// Score a bundle with the tests of operator-sdk
///
/// opctl runs the suites basic and olm itself. They read nothing but the bundle, so no cluster is needed. The exit
/// code is 1 if a test does not pass.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  opctl scorecard bundle\n  opctl scorecard bundle --selector suite=olm --output json"
)]
pub(super) struct ScorecardArgs {
    /// Directory of the bundle
    #[arg(value_name = "DIRECTORY", default_value = "bundle")]
    directory: PathBuf,
    /// Configuration of the tests [default: that of the bundle, or all tests of the suites basic and olm]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Labels of the tests to run
    #[arg(short = 'l', long, default_value = "", hide_default_value = true)]
    selector: Selector,
    /// List the tests without running them
    #[arg(short = 'L', long)]
    list: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Flags of operator-sdk for the pods that it runs. opctl runs none, so that scripts may name them.
#[derive(Debug, Args)]
struct ClusterFlags {
    #[arg(short = 'x', long, hide = true)]
    skip_cleanup: bool,
    #[arg(short, long, hide = true)]
    wait_time: Option<String>,
    #[arg(short, long, hide = true)]
    namespace: Option<String>,
    #[arg(short, long, hide = true)]
    service_account: Option<String>,
    #[arg(long, hide = true)]
    kubeconfig: Option<PathBuf>,
    #[arg(long, hide = true)]
    pod_security: Option<String>,
}

/// The format of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each test, and what is wrong
    Text,
    /// A TestList, as operator-sdk prints it
    Json,
    /// A report for CI servers
    #[value(alias = "xml")]
    Xunit,
}

impl ScorecardArgs {
    pub fn run(self, ui: Ui) -> Result<ExitCode> {
        let bundle = BundleDirectory::read(&self.directory)?;
        let mut tests = scorecard::list(&bundle, self.config.as_deref(), &self.selector)?;
        if tests.items.is_empty() {
            return Err(UserError::failure("no test is selected")
                .with_hint("list the tests with `--list`, and select by their labels")
                .into());
        }
        if !self.list {
            tests.run(&bundle);
        }
        match self.output {
            Format::Text => tests.items.iter().try_for_each(|test| print(test, ui))?,
            Format::Json => ui.data(format!("{:#}", serde_json::to_value(&tests)?))?,
            Format::Xunit => ui.data(xunit(&tests))?,
        }
        Ok(if tests.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn print(test: &Test, ui: Ui) -> Result<()> {
    if test.results().is_empty() {
        let labels = test.spec.labels.iter().map(|(label, value)| format!("{label}={value}"));
        let labels = labels.collect::<Vec<_>>().join(",");
        return ui.data(format!("{:<28}{}", visible(test.spec.name()), visible(&labels)));
    }
    for result in test.results() {
        ui.data(format!("{:<6}{}", state(result.state), visible(&result.name)))?;
        for (kind, lines) in [("error", &result.errors), ("suggestion", &result.suggestions)] {
            for line in lines {
                ui.data(format!("      {kind}: {}", visible(line)))?;
            }
        }
    }
    Ok(())
}

fn state(state: State) -> &'static str {
    match state {
        State::Pass => "pass",
        State::Fail => "FAIL",
        State::Error => "ERROR",
    }
}

/// The results in the format of xUnit.
fn xunit(tests: &TestList) -> String {
    let mut text = "<testsuites name=\"scorecard\">\n".to_owned();
    for test in &tests.items {
        let name = escape(test.spec.labels.get("test").map_or(test.spec.name(), String::as_str));
        let count = |state| test.results().iter().filter(|result| result.state == state).count();
        let (all, failures, errors) =
            (test.results().len(), count(State::Fail), count(State::Error));
        text.push_str(&format!(
            "  <testsuite name=\"{name}\" tests=\"{all}\" failures=\"{failures}\" errors=\"{errors}\">\n"
        ));
        for result in test.results() {
            let name = escape(&result.name);
            text.push_str(&format!("    <testcase name=\"{name}\">"));
            let element = match result.state {
                State::Pass => None,
                State::Fail => Some("failure"),
                State::Error => Some("error"),
            };
            if let Some(element) = element {
                let message = escape(&result.errors.join("\n"));
                text.push_str(&format!("<{element}>{message}</{element}>"));
            }
            text.push_str("</testcase>\n");
        }
        text.push_str("  </testsuite>\n");
    }
    text + "</testsuites>"
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    visible(&text.replace('"', "&quot;")).into_owned()
}
