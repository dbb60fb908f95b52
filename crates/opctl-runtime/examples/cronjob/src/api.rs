//! The types of the API, from which the CRD is derived.

use k8s_openapi::api::batch::v1::JobTemplateSpec;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Desired state of a CronJob.
///
/// Defaults and validation are part of the schema, so that the API server applies them without a
/// webhook.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "batch.tutorial.kubebuilder.io",
    version = "v1",
    kind = "CronJob",
    namespaced,
    status = "CronJobStatus",
    doc = "Starts Jobs on a schedule.",
    derive = "PartialEq",
    validation = Rule::new("size(self.metadata.name) <= 52")
        .message("must be no more than 52 characters: the names of Jobs append the time"),
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Suspend", type_ = "boolean", json_path = ".spec.suspend"),
    printcolumn(name = "Last Schedule", type_ = "date", json_path = ".status.lastScheduleTime")
)]
pub struct CronJobSpec {
    /// Schedule in cron format, in UTC, see <https://en.wikipedia.org/wiki/Cron>.
    pub schedule: String,

    /// How many seconds late a Job may start. A run that misses the deadline is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i32>", range(min = 0))]
    pub starting_deadline_seconds: Option<u32>,

    /// How to treat a run that is due while Jobs of earlier runs are active.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,

    /// Starts no further Jobs while true. Active Jobs continue.
    #[serde(default)]
    pub suspend: bool,

    /// Name of a ConfigMap with the environment variables of the Jobs. No Job starts until it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_config_map: Option<String>,

    /// The Job to start.
    pub job_template: JobTemplateSpec,

    /// How many successful Jobs to retain.
    #[serde(default = "successful_jobs_history_limit")]
    #[schemars(with = "i32", range(min = 0))]
    pub successful_jobs_history_limit: u32,

    /// How many failed Jobs to retain.
    #[serde(default = "failed_jobs_history_limit")]
    #[schemars(with = "i32", range(min = 0))]
    pub failed_jobs_history_limit: u32,
}

fn successful_jobs_history_limit() -> u32 {
    3
}

fn failed_jobs_history_limit() -> u32 {
    1
}

/// How to treat a run that is due while Jobs of earlier runs are active.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum ConcurrencyPolicy {
    /// Start it beside them.
    #[default]
    Allow,
    /// Start it once they have finished.
    Forbid,
    /// Delete them and start it.
    Replace,
}

/// Observed state of a CronJob.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CronJobStatus {
    /// The active Jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<ObjectReference>,

    /// The time for which the latest Job was scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,

    /// Ready: whether Jobs start when they are due.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
pub mod tests {
    use kube::CustomResourceExt;
    use serde_json::{Value, json};

    use super::*;

    /// A CronJob of every minute, created at 10:00, with these fields in its spec.
    pub fn cron_job(spec: Value) -> CronJob {
        let mut cron_job = json!({
            "metadata": {
                "name": "backup",
                "namespace": "default",
                "uid": "1",
                "creationTimestamp": "2026-01-01T10:00:00Z",
                "finalizers": ["batch.tutorial.kubebuilder.io/ledger"],
            },
            "spec": {
                "schedule": "* * * * *",
                "jobTemplate": { "spec": { "template": { "spec": { "containers": [{ "name": "backup" }] } } } },
            },
        });
        let fields = spec.as_object().cloned().unwrap_or_default();
        cron_job["spec"].as_object_mut().unwrap().extend(fields);
        serde_json::from_value(cron_job).unwrap()
    }

    #[test]
    fn the_schema_has_defaults_and_limits() {
        let crd = serde_json::to_value(CronJob::crd()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let fields = &schema["properties"]["spec"]["properties"];
        assert_eq!(fields["concurrencyPolicy"]["default"], "Allow");
        assert_eq!(fields["successfulJobsHistoryLimit"]["default"], 3);
        assert_eq!(fields["startingDeadlineSeconds"]["minimum"], 0.0);
        let defaults = cron_job(json!({})).spec;
        assert_eq!(defaults.failed_jobs_history_limit, 1);
    }
}
