//! What of a status is not true at a moment, by what there is in the cluster.

use serde_json::Value;

use crate::cluster::condition;

/// For how long the kubelet remembers that a container has crashed.
const CRASH_LOOP: u64 = 600;

/// A failure that the status does not tell.
pub const UNTOLD: &str = "not Degraded, though something is wrong";

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
        false => check(failures.is_empty(), UNTOLD, seen),
    }

    let is_stuck = failures.contains(&"ProgressDeadlineExceeded");
    check(is("Stalled") == is_stuck, "Stalled is wrong", format!("{failures:?}"));
    let states = ["Ready", "Reconciling", "Stalled"].into_iter().filter(|state| is(state)).count();
    check(states == 1, "not one of Ready, Reconciling and Stalled", states.to_string());

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
    /// The Deployment or the StatefulSets.
    workloads: Vec<&'a Value>,
    all_pods: Vec<&'a Value>,
    /// Those that stay: a Deployment does not wait for the others.
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
        let workloads = of_kind("Deployment").chain(of_kind("StatefulSet"));
        let workloads: Vec<_> = workloads.filter(owned).collect();
        let stays = |it: &&Value| it["metadata"]["deletionTimestamp"].is_null();
        let label = |it: &Value, name: &str| {
            it["metadata"]["labels"][format!("app.kubernetes.io/{name}")].clone()
        };
        let instance = |it: &&Value| label(it, "instance") == metadata["name"];
        let serves = |it: &&Value| instance(it) && label(it, "component") != "backup";
        (!workloads.is_empty()).then(|| Self {
            object,
            workloads,
            all_pods: of_kind("Pod").filter(serves).collect(),
            pods: of_kind("Pod").filter(serves).filter(stays).collect(),
            // That of backups is bound when the first one begins.
            claims: of_kind("PersistentVolumeClaim").filter(serves).collect(),
            jobs: of_kind("Job").filter(instance).collect(),
        })
    }

    fn deployment(&self) -> Option<&'a Value> {
        self.workloads.iter().copied().find(|it| it["kind"] == "Deployment")
    }

    /// Its own condition; or, of a database, whether its primary is ready.
    fn is_available(&self) -> bool {
        if let Some(deployment) = self.deployment() {
            return condition(deployment, "Available") == "True";
        }
        let primary = &self.object["status"]["primary"];
        let mut primary = self.pods.iter().filter(|pod| pod["metadata"]["name"] == *primary);
        primary.next().is_some_and(|pod| condition(pod, "Ready") == "True")
    }

    fn ready(&self) -> usize {
        self.pods.iter().filter(|pod| condition(pod, "Ready") == "True").count()
    }

    fn is_complete(&self) -> bool {
        let workloads = self.workloads.iter();
        let replicas = workloads.clone().filter_map(|it| it["spec"]["replicas"].as_u64());
        let image = |pod: &Value| pod["containers"][0]["image"].clone();
        let images: Vec<_> = workloads.map(|it| image(&it["spec"]["template"]["spec"])).collect();
        // A StatefulSet waits for those that go, too.
        let pods = if self.deployment().is_some() { &self.pods } else { &self.all_pods };
        replicas.sum::<u64>() == self.ready() as u64
            && pods.len() == self.ready()
            && self.pods.iter().all(|pod| images.contains(&image(&pod["spec"])))
    }

    /// Why something does not run.
    fn failures(&self) -> Vec<&'a str> {
        let mut failures: Vec<_> = self.pods.iter().flat_map(|pod| failures(pod)).collect();
        for workload in &self.workloads {
            let is_short = condition(workload, "ReplicaFailure") == "True";
            failures.extend(is_short.then_some("ReplicaFailure"));
            let stuck = "ProgressDeadlineExceeded";
            failures.extend((reason(workload, "Progressing") == stuck).then_some(stuck));
        }
        failures
    }

    fn are_bound(&self) -> bool {
        self.claims.iter().all(|claim| claim["status"]["phase"] == "Bound")
    }

    /// Whether the reason for progress can be.
    fn is_step(&self, told: &str) -> bool {
        let Some(deployment) = self.deployment() else { return true };
        let is_first = revision(deployment) == "1";
        let replicas = deployment["status"]["replicas"].as_u64().unwrap_or_default();
        match told {
            "Creating" => is_first,
            "Updating" => !is_first,
            "Scaling" => deployment["spec"]["replicas"] != replicas,
            "PodsNotReady" => self.ready() < self.pods.len(),
            // It is over in a moment.
            _ => told == "AwaitingObservation",
        }
    }

    fn step(&self) -> String {
        let step = |it: &Value| format!("revision {}, {}", revision(it), it["status"]);
        self.deployment().map(step).unwrap_or_default()
    }

    /// The versions of the images whose containers run.
    fn running_versions(&self) -> Vec<&'a str> {
        let runs =
            |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["running"].is_object();
        let version = |pod: &'a Value| {
            let image = pod["spec"]["containers"][0]["image"].as_str()?;
            image.rsplit_once(':')?.1.split('-').next()
        };
        let running = self.all_pods.iter().filter(|pod| runs(pod));
        running.filter_map(|pod| version(pod)).collect()
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

/// Counts the specifications of pods that a Deployment has had.
fn revision(deployment: &Value) -> &Value {
    &deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
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
