//! `opctl bundle`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};

use crate::error::UserError;
use crate::package::olm::Selector;
use crate::package::olm::validate::{self, Level, OPTIONAL, Problems, Values};
use crate::ui::Ui;

/// Check bundles for the Operator Lifecycle Manager
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  opctl bundle validate bundle")]
pub(super) enum BundleCommand {
    Validate(ValidateArgs),
}

/// Validate a bundle
///
/// The exit code is 1 if there are errors. What OLM v1 would refuse is a warning, and an error with
/// `--select-optional name=olmv1`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  opctl bundle validate bundle\n  \
                  opctl bundle validate bundle --select-optional suite=operatorframework")]
pub(super) struct ValidateArgs {
    /// Directory of the bundle
    #[arg(value_name = "DIRECTORY", default_value = "bundle")]
    directory: PathBuf,
    /// Labels of optional validators to run
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    select_optional: Selector,
    /// List the optional validators
    #[arg(long)]
    list_optional: bool,
    /// Values for optional validators, such as `k8s-version=1.34`
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = key_value)]
    optional_values: Vec<(String, String)>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// The format of the problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each problem
    Text,
    /// JSON, as operator-sdk prints it
    JsonAlpha1,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

impl BundleCommand {
    pub fn run(self, ui: Ui) -> Result<ExitCode> {
        match self {
            Self::Validate(args) => args.run(ui),
        }
    }
}

impl ValidateArgs {
    fn run(self, ui: Ui) -> Result<ExitCode> {
        if self.list_optional {
            return list(ui);
        }
        validate::check_selector(&self.select_optional)?;
        let values: BTreeMap<String, String> = self.optional_values.into_iter().collect();
        let values = Values::parse(&values)?;
        let problems = validate::validate(&self.directory, &self.select_optional, &values)?;
        let errors = problems.iter().filter(|problem| problem.level == Level::Error).count();
        print(&problems, errors == 0, self.output, ui)?;
        let directory = self.directory.display();
        match errors {
            0 => ui.note(format!("The bundle in {directory} is valid")),
            1 => return Err(UserError::failure(format!("{directory}: 1 error")).into()),
            _ => return Err(UserError::failure(format!("{directory}: {errors} errors")).into()),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(problems: &Problems, passed: bool, format: Format, ui: Ui) -> Result<()> {
    if format == Format::JsonAlpha1 {
        let report = serde_json::json!({ "passed": passed, "outputs": problems });
        return ui.data(format!("{report:#}"));
    }
    for problem in problems {
        ui.data(format!("{}: {}", problem.level, crate::text::visible(&problem.message)))?;
    }
    Ok(())
}

fn list(ui: Ui) -> Result<ExitCode> {
    for validator in &OPTIONAL {
        let suite = validator.suite.map(|suite| format!(",suite={suite}")).unwrap_or_default();
        let labels = format!("name={}{suite}", validator.name);
        ui.data(format!("{labels:<56}{}", validator.description))?;
    }
    Ok(ExitCode::SUCCESS)
}
