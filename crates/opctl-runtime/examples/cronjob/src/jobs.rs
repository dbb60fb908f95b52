//! The Jobs of a CronJob.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMapEnvSource, EnvFromSource, ObjectReference};
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

use crate::api::CronJob;

/// The annotation of a Job with the time for which it was scheduled.
const SCHEDULED_AT: &str = "batch.tutorial.kubebuilder.io/scheduled-at";

/// The Jobs of one CronJob, each kind in the order of their schedule.
#[derive(Default)]
pub struct Jobs {
    pub active: Vec<Arc<Job>>,
    pub successful: Vec<Arc<Job>>,
    pub failed: Vec<Arc<Job>>,
    /// The time for which the latest was scheduled.
    pub latest: Option<Timestamp>,
}

impl FromIterator<Arc<Job>> for Jobs {
    fn from_iter<I: IntoIterator<Item = Arc<Job>>>(jobs: I) -> Self {
        let mut sorted: Vec<_> = jobs.into_iter().collect();
        sorted.sort_by_key(|job| scheduled_at(job));
        let mut jobs = Self {
            latest: sorted.last().and_then(|job| scheduled_at(job)),
            ..Self::default()
        };
        for job in sorted {
            if has_condition(&job, "Complete") {
                jobs.successful.push(job);
            } else if has_condition(&job, "Failed") {
                jobs.failed.push(job);
            } else {
                jobs.active.push(job);
            }
        }
        jobs
    }
}

impl Jobs {
    /// References to the active Jobs, for the status.
    pub fn references(&self) -> Vec<ObjectReference> {
        let reference = |job: &Arc<Job>| ObjectReference {
            // The status changes when a Job starts or ends, and not with every update of it.
            resource_version: None,
            ..job.object_ref(&())
        };
        self.active.iter().map(reference).collect()
    }
}

/// The Job that the CronJob starts for the run at `time`. The name follows from the time, so that no
/// run starts twice.
pub fn job(cron_job: &CronJob, time: Timestamp) -> Job {
    let template = cron_job.spec.job_template.clone();
    let metadata = template.metadata.unwrap_or_default();
    let mut job = Job {
        metadata: ObjectMeta {
            name: Some(format!("{}-{}", cron_job.name_any(), time.as_second())),
            labels: metadata.labels,
            annotations: metadata.annotations,
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    };
    job.annotations_mut()
        .insert(SCHEDULED_AT.to_owned(), time.to_string());
    if let Some(name) = &cron_job.spec.environment_config_map {
        let pod = job.spec.as_mut().and_then(|job| job.template.spec.as_mut());
        for container in pod.into_iter().flat_map(|pod| &mut pod.containers) {
            let config_map_ref = Some(ConfigMapEnvSource {
                name: name.clone(),
                optional: None,
            });
            container
                .env_from
                .get_or_insert_default()
                .push(EnvFromSource {
                    config_map_ref,
                    ..EnvFromSource::default()
                });
        }
    }
    job
}

fn scheduled_at(job: &Job) -> Option<Timestamp> {
    job.annotations().get(SCHEDULED_AT)?.parse().ok()
}

fn has_condition(job: &Job, type_: &str) -> bool {
    let conditions = job.status.iter().flat_map(|status| &status.conditions);
    conditions
        .flatten()
        .any(|condition| condition.type_ == type_ && condition.status == "True")
}
