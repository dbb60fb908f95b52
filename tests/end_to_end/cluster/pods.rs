//! Pods that behave as on a real node: what a Deployment and a Job say about them.

use std::fs;

use serde_json::{Value, json};

use super::sandbox::{Kubectl, Sandbox, eventually};

#[test]
fn pods_behave_as_their_label_says() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["start", "--nodes", "1"]);
    let kubectl = sandbox.kubectl("opctl");
    let behaviors = ["slow", "crash", "flaky", "restart", "hang"];
    let deployments = behaviors.map(|behavior| deployment(behavior, &[("opctl/pods", behavior)]));
    let jobs = ["slow", "crash"].map(job);
    create(&sandbox, &kubectl, &[&deployments[..], &jobs].concat());

    let [slow, crash, flaky, restart, hang] =
        behaviors.map(|name| Deployment { kubectl: &kubectl, name });
    eventually("a container that is created", || {
        slow.container()["state"]["waiting"]["reason"] == "ContainerCreating"
    });
    slow.reaches("Available=False");
    crash.reaches("Available=False");
    flaky.reaches("Available=True");
    restart.reaches("Available=True");
    hang.reaches("Available=True");

    let ready_since = restart.ready_since();
    flaky.reaches("Available=False");
    slow.reaches("Available=True");
    let pod = slow.pod();
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    let seconds = |time: &Value| time.as_str().unwrap()[17..19].parse::<u32>().unwrap();
    let created = seconds(&pod["metadata"]["creationTimestamp"]);
    let waited = (60 + seconds(&slow.ready_since()) - created) % 60;
    assert!((4..30).contains(&waited), "{pod}");

    crash.reaches("Progressing=False");
    eventually("a loop of crashes", || {
        let container = crash.container();
        container["restartCount"].as_u64() > Some(0)
            && container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
            && container["lastState"]["terminated"]["exitCode"] == 1
    });
    flaky.reaches("Available=True");
    eventually("a restart", || restart.container()["restartCount"].as_u64() > Some(0));
    let container = restart.container();
    assert_eq!(container["lastState"]["terminated"]["reason"], "OOMKilled", "{container}");
    assert_eq!(container["ready"], true, "{container}");
    assert_eq!(restart.ready_since(), ready_since, "it looks as if nothing happened");

    for (job, condition) in [("slow", "Complete"), ("crash", "Failed")] {
        let condition = format!("--for=condition={condition}");
        kubectl.ok(&["wait", &condition, "--timeout=60s", &format!("job/{job}")]);
    }

    let pod = hang.pod()["metadata"]["name"].as_str().unwrap().to_owned();
    kubectl.ok(&["delete", "pod", &pod, "--wait=false"]);
    hang.reaches("Available=True");
    let terminating = kubectl.get(&["pod", &pod]);
    assert!(terminating["metadata"]["deletionTimestamp"].is_string(), "{terminating}");
    kubectl.ok(&["delete", "pod", &pod, "--force", "--grace-period=0"]);
    assert_eq!(kubectl.get(&["pod", &pod]), Value::Null);
    // One that hangs ends when it no longer should.
    let pod = format!("pod/{}", hang.pod()["metadata"]["name"].as_str().unwrap());
    kubectl.ok(&["delete", &pod, "--wait=false"]);
    kubectl.ok(&["label", &pod, "opctl/pods-"]);
    eventually("the end of the pod", || kubectl.get(&[&pod]).is_null());
}

#[test]
fn the_behavior_of_all_pods_changes_on_a_running_cluster() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["start", "--nodes", "1", "--pods", "crash"]);
    let kubectl = sandbox.kubectl("opctl");
    create(
        &sandbox,
        &kubectl,
        &[deployment("plain", &[]), deployment("fine", &[("opctl/pods", "ready")])],
    );
    let [plain, fine] = ["plain", "fine"].map(|name| Deployment { kubectl: &kubectl, name });
    fine.reaches("Available=True");
    plain.reaches("Progressing=False");
    assert_eq!(sandbox.status("opctl")["pods"], "crash");

    let api_server = |sandbox: &Sandbox| {
        let mut processes = sandbox.processes().into_iter();
        processes.find(|(_, command)| command.contains("/bin/kube-apiserver ")).unwrap().0
    };
    let before = api_server(&sandbox);
    sandbox.ok(&["start", "--pods", "ready"]);
    plain.reaches("Available=True");
    plain.reaches("Progressing=True");
    assert_eq!(api_server(&sandbox), before);
    // The same request, and one without an opinion, change nothing.
    for args in [&["start", "--pods", "ready"][..], &["start"]] {
        let before = sandbox.processes();
        sandbox.ok(args);
        assert_eq!(sandbox.processes(), before);
    }
}

struct Deployment<'a> {
    kubectl: &'a Kubectl,
    name: &'a str,
}

impl Deployment<'_> {
    /// Waits for a condition.
    fn reaches(&self, condition: &str) {
        let (condition, name) = (format!("--for=condition={condition}"), self.name);
        self.kubectl.ok(&["wait", &condition, "--timeout=60s", &format!("deployment/{name}")]);
    }

    /// Its pod that is not being deleted.
    fn pod(&self) -> Value {
        let pods = self.kubectl.get(&["pods", "--selector", &format!("app={}", self.name)]);
        let mut pods = pods["items"].as_array().unwrap().iter();
        let pod = pods.find(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pod.cloned().unwrap_or_default()
    }

    fn container(&self) -> Value {
        self.pod()["status"]["containerStatuses"][0].clone()
    }

    /// When its pod became ready.
    fn ready_since(&self) -> Value {
        let pod = self.pod();
        let mut conditions = pod["status"]["conditions"].as_array().unwrap().iter();
        conditions.find(|condition| condition["type"] == "Ready").unwrap()["lastTransitionTime"]
            .clone()
    }
}

fn deployment(name: &str, labels: &[(&str, &str)]) -> Value {
    let mut pod_labels = json!({"app": name});
    for (key, value) in labels {
        pod_labels[key] = json!(value);
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "progressDeadlineSeconds": 8,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": pod_labels},
                "spec": {"containers": [{"name": "main", "image": "example.com/none"}]},
            },
        },
    })
}

fn job(behavior: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": behavior},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": {"labels": {"opctl/pods": behavior}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "example.com/none"}],
                },
            },
        },
    })
}

fn create(sandbox: &Sandbox, kubectl: &Kubectl, objects: &[Value]) {
    let file = sandbox.0.path().join("pods.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    fs::write(&file, list.to_string()).unwrap();
    kubectl.ok(&["create", "-f", file.to_str().unwrap()]);
}
