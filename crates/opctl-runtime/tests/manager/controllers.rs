//! Two controllers of one kind.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use opctl_runtime::testing::eventually;
use opctl_runtime::{Applier, Controller, Manager, Result, Store};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use crate::api::{Backup, BackupSpec, BackupStatus};
use crate::cluster::operator;

/// What each reconcile saw: the copies in the specification, and those in the status.
type Seen = (u32, Option<u32>);

fn seen(backup: &Backup) -> Seen {
    let status = backup.status.as_ref();
    (backup.spec.copies, status.map(|status| status.copies))
}

struct Writer {
    backups: Store<Backup>,
    applier: Applier,
    seen: UnboundedSender<Seen>,
}

async fn write(backup: Arc<Backup>, ctx: Arc<Writer>) -> Result<Action> {
    // The test may have ended.
    let _ = ctx.seen.send(seen(&backup));
    let copies = backup.spec.copies;
    let (status, store) = (BackupStatus { copies }, &ctx.backups);
    ctx.applier.write_status(&*backup, status, store).await?;
    Ok(Action::await_change())
}

async fn read(backup: Arc<Backup>, sender: Arc<UnboundedSender<Seen>>) -> Result<Action> {
    let _ = sender.send(seen(&backup));
    Ok(Action::await_change())
}

/// Starts a controller that writes the status, and one that reads it.
fn start(manager: &Manager) -> [UnboundedReceiver<Seen>; 2] {
    let (sender, by_writer) = unbounded_channel();
    let controller = Controller::new(manager).named("writer");
    let context = Writer {
        backups: controller.store(),
        applier: controller.applier(),
        seen: sender,
    };
    controller.run(write, context);
    let (sender, by_reader) = unbounded_channel();
    Controller::new(manager).named("reader").run(read, sender);
    [by_writer, by_reader]
}

/// Waits until a reconcile has seen that.
async fn wait_for(receiver: &mut UnboundedReceiver<Seen>, expected: Seen) {
    eventually("the reconcile", async || {
        let seen = receiver.recv().await;
        (seen.expect("the controller should run") == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn both_are_woken_but_not_by_a_status_of_their_own() {
    let mut receivers = None;
    let operator = operator(|manager| receivers = Some(start(manager))).await;
    let [mut by_writer, mut by_reader] = receivers.expect("the controllers should be started");
    let backups: Api<Backup> = Api::namespaced(operator.client.clone(), &operator.namespace);
    let backup = Backup::new("daily", BackupSpec { copies: 1 });
    let created = backups.create(&PostParams::default(), &backup).await;
    created.expect("a Backup should be created");
    wait_for(&mut by_writer, (1, None)).await;
    wait_for(&mut by_reader, (1, Some(1))).await;

    let patch = Patch::Merge(json!({ "spec": { "copies": 2 } }));
    let changed = backups
        .patch("daily", &PatchParams::default(), &patch)
        .await;
    changed.expect("a Backup should be changed");
    wait_for(&mut by_reader, (2, Some(2))).await;
    // Longer than a change waits for others.
    sleep(Duration::from_secs(1)).await;
    assert_eq!(by_writer.try_recv(), Ok((2, Some(1))));
    assert!(
        by_writer.try_recv().is_err(),
        "its own status changes nothing for it"
    );
}
