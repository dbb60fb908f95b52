//! The operator on a control plane.

#[path = "../../../tests/support/mod.rs"]
mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use cronjob_operator::api::CronJob;
use cronjob_operator::clock::ManualClock;
use cronjob_operator::ledger::Ledger;
use cronjob_operator::{IDENTITY, manifests, operator};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Config, Resource, ResourceExt};
use opctl_runtime::conditions::find;
use opctl_runtime::testing::{client, eventually, free_address};
use opctl_runtime::{Manager, Options};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

/// How long anything may take that the test waits for.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The operator in a namespace of its own, with the permissions of its role and no others.
struct Operator {
    client: Client,
    namespace: String,
    clock: ManualClock,
    ledger: PathBuf,
    metrics: String,
    probes: String,
}

impl Operator {
    async fn start(ledger: impl Into<PathBuf>) -> Self {
        support::on_a_cluster();
        let client = client().await;
        install_manifests(&client).await;
        let namespace = json!({ "metadata": { "generateName": "cronjob-" } });
        let namespace = create::<Namespace>(&Api::all(client.clone()), namespace).await;
        let operator = Self {
            client,
            namespace: namespace.name_any(),
            clock: ManualClock::default(),
            ledger: ledger.into(),
            metrics: free_address(),
            probes: free_address(),
        };

        let mut config = Config::infer().await.expect("a kubeconfig");
        config.auth_info.impersonate = Some(IDENTITY.name().to_owned());
        let impersonating = Client::try_from(config).expect("a client");
        let options = Options::from_flags([
            format!("--namespaces={}", operator.namespace),
            format!("--metrics-bind-address={}", operator.metrics),
            "--metrics-secure=false".to_owned(),
            format!("--health-probe-bind-address={}", operator.probes),
        ]);
        let manager = Manager::new(IDENTITY, impersonating, options.expect("valid flags"));
        let ledger = Ledger::new(operator.ledger.clone());
        operator::start(&manager, ledger, operator.clock.clone());
        tokio::spawn(manager.run());
        operator
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn create_cron_job(&self, name: &str, schedule: &str) -> CronJob {
        let cron_job = json!({
            "apiVersion": CronJob::api_version(&()),
            "kind": "CronJob",
            "metadata": { "name": name },
            "spec": {
                "schedule": schedule,
                "environmentConfigMap": "settings",
                "successfulJobsHistoryLimit": 2,
                "jobTemplate": { "spec": { "template": { "spec": {
                    "restartPolicy": "Never",
                    "containers": [{ "name": "main", "image": "example.com/main:1" }],
                } } } },
            },
        });
        create(&self.api(), cron_job).await
    }

    /// The names of the Jobs of a CronJob that the ledger has.
    fn recorded_jobs(&self, cron_job: &str) -> Vec<String> {
        let entries = self.ledger.join(format!("{}_{cron_job}", self.namespace));
        let mut jobs: Vec<_> = fs::read_dir(entries)
            .into_iter()
            .flatten()
            .map(|entry| entry.expect("a record").file_name())
            .map(|job| job.into_string().expect("the name of a Job"))
            .collect();
        jobs.sort_unstable();
        jobs
    }

    /// Waits until the CronJob is ready or not for this reason.
    async fn wait_for_reason(&self, name: &str, reason: &str) {
        eventually(&format!("{name} with {reason}"), async || {
            let status = self.api::<CronJob>().get(name).await.ok()?.status?;
            find(&status.conditions, "Ready")
                .filter(|ready| ready.reason == reason)
                .map(drop)
        })
        .await;
    }

    /// Waits for the Job of the run, its status on the CronJob, and its completion.
    async fn wait_for_run(&self, cron_job: &str, run: Timestamp) -> String {
        let job = format!("{cron_job}-{}", run.as_second());
        eventually("the status of the run", async || {
            let status = self.api::<CronJob>().get(cron_job).await.ok()?.status?;
            (status.last_schedule_time?.0 == run).then_some(())
        })
        .await;
        eventually("a completed Job", async || {
            let job = self
                .api::<Job>()
                .get(&job)
                .await
                .expect("a Job before its status");
            let container = &job.spec?.template.spec?.containers[0];
            let source = container
                .env_from
                .as_ref()?
                .first()?
                .config_map_ref
                .as_ref()?;
            assert_eq!(source.name, "settings");
            let conditions = job.status?.conditions?;
            conditions
                .into_iter()
                .find(|condition| condition.type_ == "Complete")
        })
        .await;
        job
    }
}

#[tokio::test]
async fn cron_jobs_start_jobs_on_a_control_plane() {
    let ledger = TempDir::new().expect("a directory");
    let operator = Operator::start(ledger.path()).await;
    let backup = operator.create_cron_job("backup", "* * * * *").await;
    operator.create_cron_job("report", "0 0 1 1 *").await;
    for name in ["backup", "report"] {
        operator.wait_for_reason(name, "EnvironmentMissing").await;
    }
    let event = eventually("an event", async || {
        let events = operator
            .api::<Event>()
            .list(&ListParams::default())
            .await
            .ok()?;
        let mut events = events.items.into_iter();
        events.find(|event| event.reason.as_deref() == Some("EnvironmentMissing"))
    })
    .await;
    assert_eq!(
        event.note.as_deref(),
        Some("ConfigMap settings does not exist")
    );

    // One ConfigMap reconciles both.
    let settings = json!({ "metadata": { "name": "settings" }, "data": { "LEVEL": "1" } });
    create::<ConfigMap>(&operator.api(), settings).await;
    for name in ["backup", "report"] {
        operator.wait_for_reason(name, "Scheduled").await;
    }

    let created = backup
        .creation_timestamp()
        .expect("a time of creation")
        .0
        .as_second();
    let mut jobs = Vec::new();
    for minute in 1..=3 {
        let run = Timestamp::from_second(created / 60 * 60 + minute * 60).expect("a time");
        operator.clock.set(run);
        jobs.push(operator.wait_for_run("backup", run).await);
    }
    assert_eq!(operator.recorded_jobs("backup"), jobs);
    eventually("the oldest Job to be deleted", async || {
        let left = operator
            .api::<Job>()
            .list(&ListParams::default())
            .await
            .ok()?;
        let left: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
        (left == jobs[1..]).then_some(())
    })
    .await;

    let suspend = Patch::Merge(json!({ "spec": { "suspend": true } }));
    let cron_jobs = operator.api::<CronJob>();
    let suspended = cron_jobs
        .patch("report", &PatchParams::default(), &suspend)
        .await;
    suspended.expect("a valid CronJob");
    eventually("metrics", async || {
        let metrics = get(&operator.metrics, "/metrics")?;
        let has = |line: &str| metrics.lines().any(|it| it == line);
        let expected = has("cronjob_jobs_started_total 3") && has("cronjob_suspended 1");
        expected.then_some(())
    })
    .await;

    let probe = get(&operator.probes, "/readyz").expect("an answer");
    assert!(probe.starts_with("HTTP/1.1 200"), "{probe}");
    let deletion = cron_jobs.delete("backup", &DeleteParams::default()).await;
    deletion.expect("a deletion");
    let uid = backup.uid().expect("a uid");
    let deleted = conditions::is_deleted(&uid);
    let deleted = timeout(TIMEOUT, await_condition(cron_jobs, "backup", deleted)).await;
    deleted.expect("in time").expect("the finalizer removed");
    assert!(operator.recorded_jobs("backup").is_empty());
}

#[tokio::test]
async fn the_operator_is_not_ready_without_its_ledger() {
    let operator = Operator::start("/nonexistent").await;
    eventually("a failing check", async || {
        let answer = get(&operator.probes, "/readyz")?;
        answer.contains("ledger: /nonexistent: ").then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_api_server_refuses_names_that_are_too_long() {
    let ledger = TempDir::new().expect("a directory");
    let operator = Operator::start(ledger.path()).await;
    let cron_job = json!({
        "metadata": { "name": "x".repeat(53) },
        "spec": { "schedule": "* * * * *", "jobTemplate": {} },
    });
    let cron_job: CronJob = serde_json::from_value(cron_job).expect("a CronJob");
    let cron_jobs = operator.api();
    let created = cron_jobs.create(&PostParams::default(), &cron_job).await;
    let error = created.expect_err("a refusal").to_string();
    assert!(
        error.contains("must be no more than 52 characters"),
        "{error}"
    );
}

/// Installs the CRD, and the role for the user as whom the operator acts.
async fn install_manifests(client: &Client) {
    let manifests = manifests::list();
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let crd = apply(&crds, &manifests["items"][0]).await;
    let established = await_condition(crds, &crd, conditions::is_crd_established());
    let established = timeout(TIMEOUT, established).await;
    established.expect("in time").expect("an established CRD");
    let role = apply::<ClusterRole>(&Api::all(client.clone()), &manifests["items"][1]).await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{group}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": { "name": role },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": IDENTITY.name() }],
    });
    apply::<ClusterRoleBinding>(&Api::all(client.clone()), &binding).await;
}

/// Applies the object and returns its name.
async fn apply<K>(objects: &Api<K>, object: &Value) -> String
where
    K: Clone + std::fmt::Debug + DeserializeOwned + Resource,
{
    let name = object["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    let params = PatchParams::apply("test").force();
    let applied = objects.patch(&name, &params, &Patch::Apply(object)).await;
    applied.expect("a valid object");
    name
}

async fn create<K>(objects: &Api<K>, object: Value) -> K
where
    K: Clone + std::fmt::Debug + DeserializeOwned + Resource + Serialize,
{
    let object = serde_json::from_value(object).expect("an object");
    let created = objects.create(&PostParams::default(), &object).await;
    created.expect("a valid object")
}

/// The answer to a GET request, with its headers, once there is a server.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
