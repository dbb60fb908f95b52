//! A status arrives, whatever the reconciler does next.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use opctl_runtime::testing::{Operator, eventually};
use opctl_runtime::{Applier, Controller, Manager, Result, Store};
use serde_json::json;

use crate::api::{Backup, BackupSpec, BackupStatus};
use crate::cluster::operator;

/// How long a status waits that is not significant.
const BATCH_WINDOW: Duration = Duration::from_secs(10);

struct Context {
    backups: Store<Backup>,
    applier: Applier,
}

fn status_of(backup: &Backup) -> BackupStatus {
    let copies = backup.spec.copies;
    BackupStatus { copies }
}

fn start<F>(manager: &Manager, reconcile: fn(Arc<Backup>, Arc<Context>) -> F)
where
    F: Future<Output = Result<Action>> + Send + 'static,
{
    let controller = Controller::new(manager);
    let context = Context {
        backups: controller.store(),
        applier: controller.applier(),
    };
    controller.run(reconcile, context);
}

async fn write(backup: Arc<Backup>, ctx: Arc<Context>) -> Result<Action> {
    let (status, store) = (status_of(&backup), &ctx.backups);
    ctx.applier.write_status(&*backup, status, store).await?;
    Ok(Action::await_change())
}

async fn debounce(backup: Arc<Backup>, ctx: Arc<Context>) -> Result<Action> {
    let (status, store) = (status_of(&backup), &ctx.backups);
    let debounced = ctx
        .applier
        .debounce_status(&*backup, status, store, |_, _| false);
    // As a reconciler that has something else to return.
    let _ = debounced.await;
    Ok(Action::await_change())
}

/// Creates an object and changes it. Returns how long the status of the change took.
async fn change(operator: &Operator) -> Duration {
    let backups: Api<Backup> = Api::namespaced(operator.client.clone(), &operator.namespace);
    let has = async |copies| {
        let status = backups.get("daily").await.ok()?.status?;
        (status.copies == copies).then_some(())
    };
    let backup = Backup::new("daily", BackupSpec { copies: 1 });
    let created = backups.create(&PostParams::default(), &backup).await;
    created.expect("a Backup should be created");
    eventually("the first status", async || has(1).await).await;

    let begin = Instant::now();
    let patch = Patch::Merge(json!({ "spec": { "copies": 2 } }));
    let changed = backups
        .patch("daily", &PatchParams::default(), &patch)
        .await;
    changed.expect("a Backup should be changed");
    let store = operator.manager.store::<Backup>();
    eventually("the new status in the store", async || {
        let backup = store.get(Some(&operator.namespace), "daily")?;
        let status = backup.status.as_ref()?;
        (status.copies == 2).then_some(())
    })
    .await;
    assert!(begin.elapsed() < BATCH_WINDOW, "{:?}", begin.elapsed());
    eventually("the new status", async || has(2).await).await;
    begin.elapsed()
}

#[tokio::test]
async fn a_status_without_conditions_is_written_at_once() {
    let operator = operator(|manager| start(manager, write)).await;
    let elapsed = change(&operator).await;
    assert!(elapsed < BATCH_WINDOW / 2, "{elapsed:?}");
}

#[tokio::test]
async fn a_debounced_status_is_written_without_another_reconcile() {
    let operator = operator(|manager| start(manager, debounce)).await;
    let elapsed = change(&operator).await;
    assert!(elapsed > BATCH_WINDOW / 2, "{elapsed:?}");
    assert!(elapsed < 2 * BATCH_WINDOW, "{elapsed:?}");
}
