//! What of a status is not true at a moment, by what there is in the cluster.

use serde_json::Value;

use crate::cluster::condition;

/// For how long the kubelet remembers that a container has crashed.
const CRASH_LOOP: u64 = 600;

/// What of the object's status is not true, and what there is to see.
pub fn lies_of(object: &Value, objects: &[Value]) -> Vec<(&'static str, String)> {
    let Some(real) = Reality::of(object, objects) else { return Vec::new() };
    let mut lies = Vec::new();
    let mut check = |holds: bool, what: &'static str, seen: String| {
        if !holds {
            lies.push((what, seen));
        }
    };
    let is = |type_: &str| condition(object, type_) == "True";

    let available = real.is_available();
    check(is("Available") == available, "Available is wrong", format!("it is {available}"));

    let failures = real.failures();
    let seen = format!("{failures:?}");
    match is("Degraded") {
        true => {
            let reason = reason(object, "Degraded");
            let is_known = failures.iter().any(|failure| is_told(failure, reason));
            check(is_known, "Degraded has another reason than what is wrong", seen);
        }
        false => check(failures.is_empty(), "not Degraded, though something is wrong", seen),
    }

    let complete = real.is_complete();
    let seen = format!("{} pods, ready: {}", real.pods.len(), real.ready());
    check(is("Ready") == (complete && failures.is_empty()), "Ready is wrong", seen.clone());
    if is("Ready") {
        let told = object["status"]["readyReplicas"].as_u64();
        check(told == Some(real.ready() as u64), "readyReplicas is wrong", seen);
        check(real.are_bound(), "Ready without its volumes", String::new());
    }
    if is("Progressing") {
        let reason = reason(object, "Progressing");
        check(real.is_step(reason), "Progressing has a wrong reason", real.step());
    }
    if let Some(version) = object["status"]["version"].as_str() {
        let running = real.running_versions();
        let is_running = version.is_empty() || running.is_empty() || running.contains(&version);
        check(is_running, "status.version does not run", format!("{running:?}"));
    }
    if let Some((expected, job)) = real.last_backup() {
        let told = condition(object, "BackupSucceeded");
        check(told == expected, "BackupSucceeded is wrong", format!("{job}: {expected}"));
    }
    lies
}

/// What belongs to an object.
struct Reality<'a> {
    object: &'a Value,
    /// The Deployment or the StatefulSet.
    workload: &'a Value,
    /// Those that stay: the workload's controller does not wait for the others.
    pods: Vec<&'a Value>,
    claims: Vec<&'a Value>,
    jobs: Vec<&'a Value>,
}

impl<'a> Reality<'a> {
    fn of(object: &'a Value, objects: &'a [Value]) -> Option<Self> {
        let metadata = &object["metadata"];
        let in_namespace = |it: &&Value| it["metadata"]["namespace"] == metadata["namespace"];
        let of_kind = |kind: &'static str| {
            objects.iter().filter(in_namespace).filter(move |it| it["kind"] == kind)
        };
        let owned = |it: &&Value| it["metadata"]["ownerReferences"][0]["uid"] == metadata["uid"];
        let workload = of_kind("Deployment").chain(of_kind("StatefulSet")).find(owned)?;
        let labels = |it: &&Value| {
            let selector = workload["spec"]["selector"]["matchLabels"].as_object().unwrap();
            selector.iter().all(|(key, value)| it["metadata"]["labels"][key] == *value)
        };
        let stays = |it: &&Value| it["metadata"]["deletionTimestamp"].is_null();
        let instance = |it: &&Value| {
            it["metadata"]["labels"]["app.kubernetes.io/instance"] == metadata["name"]
        };
        // That of backups is bound when the first one begins.
        let has_data =
            |it: &&Value| it["metadata"]["labels"]["app.kubernetes.io/component"] == "database";
        Some(Self {
            object,
            workload,
            pods: of_kind("Pod").filter(labels).filter(stays).collect(),
            claims: of_kind("PersistentVolumeClaim").filter(instance).filter(has_data).collect(),
            jobs: of_kind("Job").filter(instance).collect(),
        })
    }

    fn is_deployment(&self) -> bool {
        self.workload["kind"] == "Deployment"
    }

    /// Its own condition; or, of a database, whether its primary is ready.
    fn is_available(&self) -> bool {
        if self.is_deployment() {
            return condition(self.workload, "Available") == "True";
        }
        let primary = &self.object["status"]["primary"];
        let mut primary = self.pods.iter().filter(|pod| pod["metadata"]["name"] == *primary);
        primary.next().is_some_and(|pod| condition(pod, "Ready") == "True")
    }

    fn ready(&self) -> usize {
        self.pods.iter().filter(|pod| condition(pod, "Ready") == "True").count()
    }

    fn is_complete(&self) -> bool {
        let template = &self.workload["spec"]["template"]["spec"]["containers"][0]["image"];
        let is_new = |pod: &&&Value| pod["spec"]["containers"][0]["image"] == *template;
        self.workload["spec"]["replicas"] == self.ready()
            && self.pods.len() == self.ready()
            && self.pods.iter().filter(is_new).count() == self.ready()
    }

    /// Why something does not run.
    fn failures(&self) -> Vec<&'a str> {
        let mut failures: Vec<_> = self.pods.iter().flat_map(|pod| failures(pod)).collect();
        if condition(self.workload, "ReplicaFailure") == "True" {
            failures.push("ReplicaFailure");
        }
        if reason(self.workload, "Progressing") == "ProgressDeadlineExceeded" {
            failures.push("ProgressDeadlineExceeded");
        }
        failures
    }

    fn are_bound(&self) -> bool {
        self.claims.iter().all(|claim| claim["status"]["phase"] == "Bound")
    }

    /// Whether the reason for progress can be.
    fn is_step(&self, told: &str) -> bool {
        let annotations = &self.workload["metadata"]["annotations"];
        let is_first = annotations["deployment.kubernetes.io/revision"] == "1";
        let replicas = self.workload["spec"]["replicas"].as_u64();
        match told {
            "Creating" => is_first,
            "Updating" => !is_first,
            "Scaling" => self.workload["status"]["replicas"].as_u64().or(Some(0)) != replicas,
            "PodsNotReady" => self.ready() < self.pods.len(),
            // Of a StatefulSet, or over in a moment.
            _ => !self.is_deployment() || told == "AwaitingObservation",
        }
    }

    fn step(&self) -> String {
        let annotations = &self.workload["metadata"]["annotations"];
        let revision = &annotations["deployment.kubernetes.io/revision"];
        format!("revision {revision}, {}", self.workload["status"])
    }

    /// The versions of the images whose containers run.
    fn running_versions(&self) -> Vec<&'a str> {
        let running = self
            .pods
            .iter()
            .filter(|pod| !pod["status"]["containerStatuses"][0]["state"]["running"].is_null());
        let image = |pod: &&&'a Value| pod["spec"]["containers"][0]["image"].as_str();
        let images = running.filter_map(|pod| image(&pod));
        images.filter_map(|image| image.rsplit_once(':')?.1.split('-').next()).collect()
    }

    /// What has become of the last scheduled backup.
    fn last_backup(&self) -> Option<(&'static str, &'a str)> {
        let time = |job: &&&Value| job["metadata"]["creationTimestamp"].to_string();
        let scheduled = self.jobs.iter().filter(|job| {
            let annotations = &job["metadata"]["annotations"];
            annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"].is_string()
        });
        let job = scheduled.max_by_key(time)?;
        let result = match (condition(job, "Complete"), condition(job, "Failed")) {
            ("True", _) => "True",
            (_, "True") => "False",
            _ => "Unknown",
        };
        Some((result, job["metadata"]["name"].as_str().unwrap()))
    }
}

fn reason<'a>(object: &'a Value, type_: &str) -> &'a str {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut of_type = conditions.filter(|condition| condition["type"] == type_);
    of_type.next().and_then(|condition| condition["reason"].as_str()).unwrap_or_default()
}

/// Why containers of the pod cannot run.
fn failures(pod: &Value) -> Vec<&str> {
    let statuses = pod["status"]["containerStatuses"].as_array();
    let failure = |status| {
        let waiting =
            waiting(status).filter(|it| !["ContainerCreating", "PodInitializing"].contains(it));
        waiting.or(is_crashing(status).then_some("CrashLoopBackOff"))
    };
    statuses.into_iter().flatten().filter_map(failure).collect()
}

fn waiting(status: &Value) -> Option<&str> {
    status["state"]["waiting"]["reason"].as_str()
}

/// Whether the container runs between two crashes.
fn is_crashing(status: &Value) -> bool {
    let last = &status["lastState"]["terminated"];
    status["ready"] == false
        && status["restartCount"].as_u64() > Some(1)
        && seconds(&last["finishedAt"]).abs_diff(seconds(&last["startedAt"])) < CRASH_LOOP
}

/// The seconds of the day.
fn seconds(time: &Value) -> u64 {
    let time = time.as_str().unwrap_or_default().trim_end_matches('Z');
    let time = time.split_once('T').map_or("", |(_, time)| time).split(':');
    time.fold(0, |sum, part| 60 * sum + part.parse::<u64>().unwrap_or_default())
}

/// Whether the reason is that of the failure. A failing pull has two in turn, and so has a failing start.
fn is_told(failure: &str, told: &str) -> bool {
    let alike = [["ErrImagePull", "ImagePullBackOff"], ["RunContainerError", "CrashLoopBackOff"]];
    failure == told || alike.iter().any(|it| it.contains(&failure) && it.contains(&told))
}
