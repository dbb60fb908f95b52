//! How the user's code follows the API of the runtime from one template set to the next.
//!
//! What opctl renders calls the new API anyway. A codemod adapts the user's files: those that are merged, and
//! those that opctl did not write. A merge sees the base and the user's version adapted, so that only real
//! edits are left to be merged. Comments, strings and format stay. What no codemod covers, cargo reports
//! before the update is written.

mod code;

use std::fmt;

use semver::Version;

use super::rename::paths::{self, Edit, Pattern};
use Codemod::{Code, Name};

/// What a template set has changed in the API.
#[derive(Debug)]
struct Release {
    /// The version of the template set.
    version: Version,
    /// What a file contains that uses what has changed.
    uses: &'static str,
    /// Each one adapts the result of those before.
    codemods: &'static [Codemod],
}

/// A change of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codemod {
    /// What this path of the crate leads to has another name.
    Name(&'static str, &'static str),
    /// The code is another one. `$x` stands for any code without a comma or a semicolon of its own, and as the
    /// first token of all for a single token.
    Code(&'static str, &'static str),
}

/// All of them, the oldest first.
static RELEASES: [Release; 1] = [Release {
    version: Version::new(0, 1, 0),
    // The runtime was a module of the operator. It is a crate.
    uses: "manager",
    codemods: &[
        // It has no owner: all controllers that read the kind share it.
        Code("Cache<$kind, $owner>", "Store<$kind>"),
        Name("manager::cache::Cache", "Store"),
        Code(
            "Finding { type_: $type, status: $status, reason: $reason, message: $message }",
            "ConditionUpdate::new($type, $status, $reason, $message)",
        ),
        Name("manager::conditions::Finding", "ConditionUpdate"),
        Name("manager::field_manager::FieldManager", "Applier"),
        Code("$crate::manager::cache", "opctl_runtime"),
        Code("$crate::manager::conditions", "opctl_runtime::conditions"),
        Code("$crate::manager::controller", "opctl_runtime"),
        Code("$crate::manager::error", "opctl_runtime"),
        Code("$crate::manager::field_manager", "opctl_runtime"),
        Code("$crate::manager::object", "opctl_runtime"),
        Code("$crate::manager::options", "opctl_runtime"),
        Code("$crate::manager::rbac", "opctl_runtime::rbac"),
        Code("$crate::manager::rollout", "opctl_runtime::workload"),
        Code("$crate::manager::workload", "opctl_runtime::workload"),
        Code("$crate::manager::Manager", "opctl_runtime::Manager"),
        Code(".owned_by(&$owner)", ".by_owner(&*$owner)"),
        Code(".owned_by($owner)", ".by_owner($owner)"),
        Code(".get(&$owner, $name)", ".owned_by(&*$owner, $name)"),
        Code("controller.objects()", "controller.store()"),
        Code("controller.run($context, $reconcile)", "controller.run($reconcile, $context)"),
        Code(".field_manager", ".applier"),
        Code("field_manager", "applier"),
        Code(
            "conditions::{ConditionUpdate, conditions}",
            "conditions::{ConditionUpdate, set_conditions}",
        ),
        Code("conditions::conditions", "conditions::set_conditions"),
        Code(
            "conditions($previous, $generation, $conditions)",
            "set_conditions($previous, $generation, $conditions)",
        ),
        Code(
            "workload::labels($app, $component, $owner)",
            "workload::labels(crate::IDENTITY, $app, $component, $owner)",
        ),
        Code(
            "telemetry::init($options.log_format, $options.log_level)",
            "logging::init(&$options)",
        ),
        Code("Manager::new($options)", "Manager::connect(IDENTITY, $options)"),
    ],
}];

/// The codemods of an update.
#[derive(Debug, Clone)]
pub struct Codemods(Vec<&'static Release>);

impl Codemods {
    /// Those of an update from one template set to another; none of one to an earlier set.
    pub fn between(old: &str, new: &str) -> Self {
        let (Ok(old), Ok(new)) = (Version::parse(old), Version::parse(new)) else {
            return Self(Vec::new());
        };
        let is_new = |release: &&Release| old < release.version && release.version <= new;
        Self(RELEASES.iter().filter(is_new).collect())
    }

    /// The text of a file of the user after the update.
    pub fn rewrite(&self, path: &str, text: &str) -> String {
        self.adapt(path, text).0
    }

    /// What of the API the user's version of a file has more often than the base.
    pub(super) fn applied(&self, path: &str, base: &str, ours: &str) -> Vec<Codemod> {
        let (base, ours) = (self.adapt(path, base).1, self.adapt(path, ours).1);
        let count =
            |uses: &[Codemod], codemod| uses.iter().filter(|other| *other == codemod).count();
        let mut applied: Vec<Codemod> = Vec::new();
        for codemod in &ours {
            if !applied.contains(codemod) && count(&ours, codemod) > count(&base, codemod) {
                applied.push(*codemod);
            }
        }
        applied
    }

    /// The adapted text, and the codemod of each place that has changed.
    fn adapt(&self, path: &str, text: &str) -> (String, Vec<Codemod>) {
        let (mut adapted, mut applied) = (text.to_owned(), Vec::new());
        let is_used = |release: &&&Release| path.ends_with(".rs") && text.contains(release.uses);
        for codemod in self.0.iter().filter(is_used).flat_map(|release| release.codemods) {
            let edits = codemod.edits(path, &adapted);
            applied.extend(edits.iter().map(|_| *codemod));
            adapted = paths::apply(&adapted, edits);
        }
        (adapted, applied)
    }
}

impl Codemod {
    fn edits(&self, path: &str, text: &str) -> Vec<Edit> {
        match *self {
            Name(old, new) => {
                let names: Vec<&str> = old.split("::").collect();
                paths::edits(path, text, &[Pattern::new(&names, new)])
            }
            Code(old, new) => code::edits(text, old, new),
        }
    }
}

impl fmt::Display for Codemod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Name(old, new) | Code(old, new)) = self;
        write!(f, "`{old}` is now `{new}`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code of a file in `src/controller`, before and after the update to 0.1.0.
    const EXAMPLES: [(&str, &str); 14] = [
        (
            "use crate::manager::cache::Cache; struct Context { services: Cache<Service, v1::Web> }",
            "use opctl_runtime::Store; struct Context { services: Store<Service> }",
        ),
        (
            "use crate::manager::field_manager::FieldManager; Context { field_manager: manager.field_manager() }",
            "use opctl_runtime::Applier; Context { applier: manager.applier() }",
        ),
        (
            "use crate::manager::conditions::{Finding, conditions};
            conditions(previous, generation, &[Finding { type_: \"Ready\", status: true, reason: \"Up\", message: text(1), }])",
            "use opctl_runtime::conditions::{ConditionUpdate, set_conditions};
            set_conditions(previous, generation, &[ConditionUpdate::new(\"Ready\", true, \"Up\", text(1))])",
        ),
        (
            "use crate::manager::conditions::conditions; fn f() -> Option<Finding>",
            "use opctl_runtime::conditions::set_conditions; fn f() -> Option<Finding>",
        ),
        (
            "use crate::manager::conditions::Finding; fn f() -> Option<Finding>",
            "use opctl_runtime::conditions::ConditionUpdate; fn f() -> Option<ConditionUpdate>",
        ),
        ("use crate::manager::controller::Controller;", "use opctl_runtime::Controller;"),
        ("use crate::manager::error::{Error, Result};", "use opctl_runtime::{Error, Result};"),
        (
            "use crate::manager::object::Object; use operator::manager::options::Options;",
            "use opctl_runtime::Object; use opctl_runtime::Options;",
        ),
        (
            "use crate::manager::rbac::{rule, subresource_rule}; use crate::manager::rollout::Rollout;",
            "use opctl_runtime::rbac::{rule, subresource_rule}; use opctl_runtime::workload::Rollout;",
        ),
        (
            "use crate::manager::workload::{self, resources}; workload::labels(APP, \"web\", &web)",
            "use opctl_runtime::workload::{self, resources}; workload::labels(crate::IDENTITY, APP, \"web\", &web)",
        ),
        (
            "use crate::manager::Manager; fn start(manager: &Manager) { controller.run(context(), reconcile); }",
            "use opctl_runtime::Manager; fn start(manager: &Manager) { controller.run(reconcile, context()); }",
        ),
        (
            "webs: controller.objects(), manager: 1",
            "webs: controller.store(), manager: 1",
        ),
        (
            "ctx.field_manager.apply(&*web, service(&web), &ctx.services).await?;
            ctx.services.owned_by(&web).len() + ctx.services.owned_by(web).len();
            ctx.services.get(&web, &name)",
            "ctx.applier.apply(&*web, service(&web), &ctx.services).await?;
            ctx.services.by_owner(&*web).len() + ctx.services.by_owner(web).len();
            ctx.services.owned_by(&*web, &name)",
        ),
        (
            "telemetry::init(options.log_format, options.log_level); let manager = Manager::new(options).await?;",
            "logging::init(&options); let manager = Manager::connect(IDENTITY, options).await?;",
        ),
    ];

    #[test]
    fn the_code_of_users_follows_the_runtime() {
        let codemods = Codemods::between("0.0.1", "0.1.0");
        let mut applied = Vec::new();
        for (old, new) in EXAMPLES {
            assert_eq!(codemods.rewrite("src/controller/web/web.rs", old), new);
            applied.extend(codemods.applied("src/controller/web/web.rs", "", old));
        }
        for codemod in RELEASES.iter().flat_map(|release| release.codemods) {
            assert!(applied.contains(codemod), "no example of {codemod}");
        }
    }

    #[test]
    fn other_files_stay() {
        let codemods = Codemods::between("0.0.1", "0.1.0");
        let (old, _) = EXAMPLES[0];
        assert_eq!(codemods.rewrite("README.md", old), old);
        let own = "struct Cache<A, B>(A, B); fn f(store: &Own) { store.owned_by(&x); }";
        assert_eq!(codemods.rewrite("src/own.rs", own), own);
    }

    #[test]
    fn only_what_lies_between_the_versions_is_applied() {
        for (old, new) in
            [("0.1.0", "0.1.0"), ("0.1.0", "0.0.1"), ("0.0.1", "0.0.1"), ("?", "0.1.0")]
        {
            assert!(Codemods::between(old, new).0.is_empty(), "{old} {new}");
        }
        assert_eq!(Codemods::between("0.0.1", "0.2.0").0.len(), 1);
    }

    #[test]
    fn what_opctl_wrote_is_not_reported() {
        let codemods = Codemods::between("0.0.1", "0.1.0");
        let base = "use crate::manager::cache::Cache; a: Cache<A, O>";
        let ours = "use crate::manager::cache::Cache; a: Cache<A, O>, b: Cache<B, O>";
        let applied = codemods.applied("src/a.rs", base, ours);
        assert_eq!(applied, [Code("Cache<$kind, $owner>", "Store<$kind>")]);
        assert_eq!(applied[0].to_string(), "`Cache<$kind, $owner>` is now `Store<$kind>`");
    }
}
