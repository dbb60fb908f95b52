//! The common part of the commands that change a project: show the plan, then apply it.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::Serialize;

use super::Format;
use crate::error::UserError;
use crate::render::RUNTIME;
use crate::sync::{Action, Codemod, Conflicts, Plan, PlanOptions, Reason, Step, Workspace};
use crate::ui::Ui;

/// The flags of all commands that change a project.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Flags {
    /// Print the changes without making them
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Overwrite these files if they are in a conflict, after copying them to FILE.orig; without a path,
    /// ask on a terminal
    #[arg(short, long, value_name = "PATH", num_args = 0.., require_equals = true, value_delimiter = ',')]
    force: Option<Vec<String>>,
    /// How to handle conflicts with your edits
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    conflicts: Conflicts,
    /// Output format of the changes; `json` prints them on stdout
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// A change, as JSON.
#[derive(Serialize)]
struct Change<'a> {
    action: &'static str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    adapted: Vec<String>,
}

impl Flags {
    /// Whether there is `--force`, with or without paths.
    pub fn force(&self) -> bool {
        self.force.is_some()
    }

    /// Whether nothing is to be written.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Prints a plan and, unless it is a dry run, applies it. Returns whether the plan was applied.
    ///
    /// # Errors
    /// If the plan has conflicts, or if a file cannot be written.
    pub fn apply(
        &self,
        workspace: &Workspace,
        plan: impl Fn(&PlanOptions) -> Result<Plan>,
        ui: Ui,
    ) -> Result<bool> {
        self.apply_after(workspace, plan, |_| Ok(()), ui)
    }

    /// Like [`Flags::apply`], but does something `before` a plan without conflicts is applied.
    ///
    /// # Errors
    /// If the plan has conflicts, or if a file cannot be written.
    pub fn apply_after(
        &self,
        workspace: &Workspace,
        plan: impl Fn(&PlanOptions) -> Result<Plan>,
        before: impl FnOnce(&Plan) -> Result<()>,
        ui: Ui,
    ) -> Result<bool> {
        self.apply_plan(workspace, &self.plan(plan, ui)?, before, ui)
    }

    /// Like [`Flags::apply_after`], with a plan that is made already.
    ///
    /// # Errors
    /// If the plan has conflicts, or if a file cannot be written.
    pub fn apply_plan(
        &self,
        workspace: &Workspace,
        plan: &Plan,
        before: impl FnOnce(&Plan) -> Result<()>,
        ui: Ui,
    ) -> Result<bool> {
        if workspace.was_restored() {
            ui.attention("undo", "an opctl command that was interrupted");
        }
        let conflicts = plan.conflicts().count();
        if conflicts == 0 {
            before(plan)?;
        }
        if conflicts == 0 && !self.dry_run {
            workspace.apply(plan)?;
        }
        self.print(plan, ui)?;
        if conflicts > 0 {
            return Err(conflict_error(plan, conflicts).into());
        }
        if self.dry_run {
            return Ok(false);
        }
        warn_of_new_uncompiled(workspace, plan, ui)?;
        match marked(plan) {
            None => Ok(true),
            Some(error) => Err(error.into()),
        }
    }

    /// Prints what was done or, of a dry run, what would be done. Of a command that stops, it prints the
    /// conflicts.
    fn print(&self, plan: &Plan, ui: Ui) -> Result<()> {
        if self.output == Format::Json {
            return ui.data(format!("{:#}", json(plan)?));
        }
        let has_conflicts = plan.conflicts().next().is_some();
        let is_printed = |step: &&Step| {
            self.dry_run || !has_conflicts || matches!(step.action, Action::Conflict(_))
        };
        for Line { action, file } in lines(plan.steps.iter().filter(is_printed)) {
            if self.dry_run {
                ui.data(format!("{:>12} {file}", action.verb()))?;
            } else if action.reason().is_none() && action != Action::Overwrite {
                ui.status(action.verb(), file);
            } else {
                ui.attention(action.verb(), file);
            }
        }
        for (path, codemod) in plan.steps.iter().filter(is_printed).flat_map(adapted) {
            if self.dry_run {
                ui.data(format!("{:>12} {path}: {codemod}", "adapt"))?;
            } else {
                ui.attention("adapt", format!("{path}: {codemod}"));
            }
        }
        for step in plan.conflicts() {
            for hunk in step.hunks() {
                ui.note(format!("{}:\n{}", step.path, shortened(&hunk)));
            }
        }
        Ok(())
    }

    /// The plan that overwrites what `--force` names or the user confirms.
    ///
    /// # Errors
    /// If it cannot be made, or if `--force` names a file that it does not write.
    pub fn plan(&self, plan: impl Fn(&PlanOptions) -> Result<Plan>, ui: Ui) -> Result<Plan> {
        let paths = self.force.iter().flatten();
        let paths = paths.map(|path| path.strip_prefix("./").unwrap_or(path).to_owned());
        let mut options = PlanOptions {
            overwrite: paths.collect(),
            conflicts: self.conflicts,
            ..PlanOptions::default()
        };
        let planned = plan(&options)?;
        let is_planned = |path: &String| planned.steps.iter().any(|step| step.path == *path);
        if let Some(path) = options.overwrite.iter().find(|path| !is_planned(path)) {
            let reason = "the command writes no file at this path";
            return Err(UserError::invalid_value("--force[=<PATH>...]", path, reason).into());
        }
        if self.dry_run || !self.force() || !options.overwrite.is_empty() || !ui.is_interactive() {
            return Ok(planned);
        }
        for step in planned.conflicts() {
            let Step { path, action, .. } = step;
            let reason = action.reason().unwrap_or_default();
            if ui.confirm(&format!("Overwrite {path} ({reason})?"), false) {
                options.overwrite.insert(path.clone());
            }
        }
        plan(&options)
    }
}

/// The first lines of a conflict, as many as a person reads in a terminal.
fn shortened(hunk: &str) -> String {
    const LINES: usize = 20;
    let lines: Vec<&str> = hunk.lines().collect();
    match lines.len().checked_sub(LINES) {
        None | Some(0) => lines.join("\n"),
        Some(more) => format!("{}\n... ({more} more lines)", lines[..LINES].join("\n")),
    }
}

/// What is printed for a step, or for several that do the same with files of the runtime: nobody
/// reads the names of them all.
struct Line {
    action: Action,
    file: String,
}

/// The steps that tell a user what changes: not those that leave a file as it is, and of a move only one.
fn shown<'a>(steps: impl IntoIterator<Item = &'a Step>) -> Vec<&'a Step> {
    let mut steps: Vec<&Step> = steps.into_iter().collect();
    let moved: BTreeSet<&String> = steps.iter().filter_map(|step| step.from.as_ref()).collect();
    steps.retain(|step| step.action != Action::Identical && !moved.contains(&step.path));
    steps
}

fn lines<'a>(steps: impl IntoIterator<Item = &'a Step>) -> Vec<Line> {
    let steps = shown(steps);
    let is_runtime = |step: &Step| step.path.starts_with(RUNTIME) && step.action.reason().is_none();
    let same = |a: &&Step, b: &&Step| is_runtime(a) && is_runtime(b) && a.action == b.action;
    let groups = steps.chunk_by(same);
    groups
        .map(|group| {
            let Step { action, path, from, .. } = group[0];
            let path = match from {
                Some(old) => format!("{old} -> {path}"),
                None => path.clone(),
            };
            let file = match (group.len(), action.reason()) {
                (1, Some(reason)) => format!("{path} ({reason})"),
                (1, None) => path,
                (files, _) => format!("{RUNTIME} ({files} files)"),
            };
            Line { action: *action, file }
        })
        .collect()
}

/// How the user's code follows the API of the runtime in a file.
fn adapted(step: &Step) -> impl Iterator<Item = (&str, &Codemod)> {
    step.codemods.iter().map(|codemod| (step.path.as_str(), codemod))
}

/// The changes of a plan.
fn json(plan: &Plan) -> Result<serde_json::Value> {
    let changes = shown(&plan.steps).into_iter().map(|step| Change {
        action: step.action.verb(),
        path: &step.path,
        from: step.from.as_deref(),
        reason: step.action.reason(),
        adapted: step.codemods.iter().map(ToString::to_string).collect(),
    });
    let changes: Vec<Change<'_>> = changes.collect();
    Ok(serde_json::json!({ "changes": serde_json::to_value(changes)? }))
}

/// Warns of new Rust files that nobody compiles, because the user has moved or deleted what declared them.
fn warn_of_new_uncompiled(workspace: &Workspace, plan: &Plan, ui: Ui) -> Result<()> {
    // In a new project, nothing of the user's is between opctl's files.
    if plan.steps.iter().all(|step| step.action == Action::Create) {
        return Ok(());
    }
    let is_new = |step: &&Step| step.action == Action::Create && step.path.ends_with(".rs");
    let new: BTreeSet<&str> = plan.steps.iter().filter(is_new).map(|it| it.path.as_str()).collect();
    if new.is_empty() {
        return Ok(());
    }
    warn_of_uncompiled(workspace, |path| new.contains(path), ui)
}

/// Warns of those Rust files that are asked for and that nobody compiles.
///
/// # Errors
/// If a file cannot be read.
pub fn warn_of_uncompiled(
    workspace: &Workspace,
    is_asked_for: impl Fn(&str) -> bool,
    ui: Ui,
) -> Result<()> {
    for path in workspace.uncompiled(is_asked_for)? {
        ui.warning(format!("{path} is compiled by nobody: no `mod` leads to it"));
    }
    Ok(())
}

fn conflict_error(plan: &Plan, conflicts: usize) -> UserError {
    let noun = if conflicts == 1 { "conflict" } else { "conflicts" };
    let message = format!("{conflicts} {noun}: nothing was written");
    let has = |reason| plan.conflicts().any(|step| step.action == Action::Conflict(reason));
    // A user can resolve a conflict of edits; a file that opctl did not write can only be replaced.
    let is_replaceable =
        |step: &Step| matches!(step.action, Action::Conflict(Reason::Exists | Reason::ReadOnly));
    let error = if plan.conflicts().all(is_replaceable) {
        UserError::failure(message)
    } else {
        UserError::conflict(message)
    };
    let paths: Vec<&str> = plan.conflicts().map(|step| step.path.as_str()).collect();
    let force = match paths.len() {
        1..=3 => format!("`--force={}`", paths.join(",")),
        _ => "`--force=PATH,...`".to_owned(),
    };
    let hint = if plan.conflicts().all(|step| step.action.can_be_marked()) {
        "write both versions between conflict markers with `--conflicts inline`"
    } else if has(Reason::Markers) {
        "resolve the conflicts between the markers"
    } else if has(Reason::UnknownBase) {
        "restore PROJECT.lock, for example with `git checkout PROJECT.lock`"
    } else if has(Reason::ReadOnly) {
        "make the files writable with `chmod u+w`"
    } else if conflicts == 1 {
        "move the file away"
    } else {
        "move the files away"
    };
    error.with_hint(format!("{hint}, or overwrite your version with {force}"))
}

/// The error of a plan that has written conflict markers.
fn marked(plan: &Plan) -> Option<UserError> {
    let marked = plan.steps.iter().filter(|step| step.action == Action::Mark);
    let paths: Vec<&str> = marked.map(|step| step.path.as_str()).collect();
    let message = match paths.len() {
        0 => return None,
        1 => "1 conflict is between markers".to_owned(),
        conflicts => format!("{conflicts} conflicts are between markers"),
    };
    let hint = format!("resolve the conflicts in {}: everything else is done", paths.join(", "));
    Some(UserError::conflict(message).with_hint(hint))
}
