//! An operator: each Namespace with the label `example.com/profile` gets a ConfigMap `profile` that
//! holds the label's value. The ConfigMap follows the label, and is recreated when it is deleted.
//!
//! Its service account needs `list` and `watch` on namespaces; `create`, `list`, `patch` and `watch` on
//! configmaps; and `create` and `patch` on events of the group `events.k8s.io`.
//!
//! ```text
//! cargo run --example configmaps
//! kubectl label namespace default example.com/profile=small
//! kubectl get configmap profile --output yaml
//! ```

use std::sync::Arc;

use clap::Parser;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt;
use kube::api::ObjectMeta;
use kube::runtime::controller::Action;
use kube::runtime::watcher;
use opctl_runtime::{Applier, Controller, Identity, Manager, Options, Result, Store, logging};

const LABEL: &str = "example.com/profile";

/// Create a ConfigMap in each namespace that has a profile
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    options: Options,
}

fn main() -> anyhow::Result<()> {
    let Flags { options } = Flags::parse();
    logging::init(&options);
    let identity = Identity::new("configmaps", env!("CARGO_PKG_VERSION"));
    opctl_runtime::runtime()?.block_on(async {
        let manager = Manager::connect(identity, options).await?;
        start(&manager);
        manager.run().await
    })
}

/// What the reconciler needs.
struct Context {
    config_maps: Store<ConfigMap>,
    applier: Applier,
}

fn start(manager: &Manager) {
    // The API server selects the namespaces: others cost no memory.
    let labelled = watcher::Config::default().labels(LABEL);
    let namespaces = manager.watch::<Namespace>().config(labelled).start();
    let controller = Controller::for_store(manager, namespaces);
    let context = Context {
        config_maps: controller.owns(),
        applier: controller.applier(),
    };
    controller.run(reconcile, context);
}

async fn reconcile(namespace: Arc<Namespace>, ctx: Arc<Context>) -> Result<Action> {
    let desired = config_map(&namespace);
    ctx.applier
        .apply(&*namespace, desired, &ctx.config_maps)
        .await?;
    Ok(Action::await_change())
}

/// The ConfigMap of a namespace.
fn config_map(namespace: &Namespace) -> ConfigMap {
    let profile = namespace.labels().get(LABEL).cloned().unwrap_or_default();
    ConfigMap {
        metadata: ObjectMeta {
            name: Some("profile".to_owned()),
            namespace: Some(namespace.name_any()),
            ..ObjectMeta::default()
        },
        data: Some([("profile".to_owned(), profile)].into()),
        ..ConfigMap::default()
    }
}
