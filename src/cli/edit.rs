//! `opctl edit` and `opctl edit api`.

use anyhow::Result;
use clap::{ArgAction, Args, Subcommand};

use super::change::Flags;
use crate::error::UserError;
use crate::project::{Feature, KindRequest, License, Project, Settings, check_value, names};
use crate::render::TemplateSet;
use crate::sync::Workspace;
use crate::ui::Ui;

/// Change the settings of a project
///
/// The change is merged with your edits. Parts of config/default that you have switched on or off by hand
/// stay as they are.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Examples:\n  opctl edit --enable prometheus,grafana\n  opctl edit --owner 'Acme Inc.' --license mit"
)]
pub(super) struct EditArgs {
    #[command(subcommand)]
    command: Option<EditCommand>,
    #[command(flatten)]
    settings: SettingsFlags,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Debug, Args)]
struct SettingsFlags {
    /// Domain of the API groups
    #[arg(long)]
    domain: Option<String>,
    /// License of the project
    #[arg(long, value_enum)]
    license: Option<License>,
    /// Copyright holder
    #[arg(long)]
    owner: Option<String>,
    /// Restrict the operator to its own namespace
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    namespaced: Option<bool>,
    /// Optional parts to add
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    enable: Vec<Feature>,
    /// Optional parts to leave out
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    disable: Vec<Feature>,
}

#[derive(Debug, Subcommand)]
enum EditCommand {
    Api(EditApiArgs),
}

/// Change the plural or the scope of a kind
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  opctl edit api --group cache --kind Memcached --plural memcaches"
)]
struct EditApiArgs {
    /// API group, without the project's domain
    #[arg(long)]
    group: String,
    /// Kind of the resource
    #[arg(long)]
    kind: String,
    /// Plural name of the resource
    #[arg(long, required_unless_present = "namespaced")]
    plural: Option<String>,
    /// Scope of the resource; `false` for objects outside of namespaces
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    namespaced: Option<bool>,
    #[command(flatten)]
    flags: Flags,
}

impl EditArgs {
    pub fn run(self, ui: Ui) -> Result<()> {
        let directory = super::directory()?;
        let workspace = Workspace::open(&directory)?;
        let old = super::model(&workspace)?;
        match self.command {
            Some(EditCommand::Api(args)) => args.run(&workspace, old, ui),
            None => {
                let new = old.with_settings(self.settings.request(&workspace, old)?)?;
                if self.flags.apply(
                    &workspace,
                    |options| workspace.plan(Some(old), &new, options),
                    ui,
                )? && new.domain != old.domain
                    && old.resources.iter().any(|resource| resource.api.is_some())
                {
                    ui.warning(format!(
                        "clusters keep the CRDs and objects of {}: migrate the objects, then delete the CRDs",
                        old.domain
                    ));
                }
                Ok(())
            }
        }
    }
}

impl SettingsFlags {
    fn request(self, workspace: &Workspace, project: &Project) -> Result<Settings> {
        if let Some(domain) = &self.domain {
            check_value("--domain <DOMAIN>", domain, names::domain)?;
        }
        if let Some(owner) = &self.owner {
            check_value("--owner <OWNER>", owner, names::owner)?;
        }
        if let Some(both) = self.enable.iter().find(|feature| self.disable.contains(feature)) {
            let message = format!("'--enable' and '--disable' both name {both:?}");
            return Err(UserError::usage(message.to_lowercase()).into());
        }
        let changes_features = !self.enable.is_empty() || !self.disable.is_empty();
        let features = if changes_features {
            let mut features = workspace.features(project)?;
            features.extend(self.enable);
            features.retain(|feature| !self.disable.contains(feature));
            Some(features)
        } else {
            None
        };
        let Self { domain, license, owner, namespaced, .. } = self;
        let is_empty = domain.is_none() && license.is_none() && owner.is_none();
        if is_empty && namespaced.is_none() && features.is_none() {
            return Err(UserError::usage("no setting to change")
                .with_hint("name one, such as `--enable prometheus`: see `opctl edit --help`")
                .into());
        }
        Ok(Settings { name: None, domain, license, owner, namespaced, features })
    }
}

impl EditApiArgs {
    fn run(self, workspace: &Workspace, old: &Project, ui: Ui) -> Result<()> {
        let Self { group, kind, plural, namespaced, flags } = self;
        let request = KindRequest { group, kind, plural, namespaced };
        let new = old.with_kind(&request)?;
        let set = TemplateSet::current();
        for resource in new.versions(&request.group, &request.kind) {
            if let Some(recipe) = set.find_recipe(new.recipe(resource))? {
                recipe.check_scope(resource.namespaced())?;
            }
        }
        if !flags.apply(workspace, |options| workspace.plan(Some(old), &new, options), ui)? {
            return Ok(());
        }
        let KindRequest { group, kind, .. } = &request;
        let (Some(before), Some(after)) = (old.storage(group, kind), new.storage(group, kind))
        else {
            return Ok(());
        };
        if before.plural() != after.plural() {
            ui.warning(format!(
                "clusters keep the CRD {}.{} with its objects: migrate them, then delete it",
                before.plural(),
                before.api_group()
            ));
        } else if before.namespaced() != after.namespaced() {
            ui.warning(format!(
                "the scope of a CRD is immutable: save the objects of {kind}, delete the CRD, and create both again"
            ));
        }
        Ok(())
    }
}
