//! A generated operator in an image of its own, deployed as its user deploys it.

use std::path::Path;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::project::{Project, finished};
use crate::wait::{eventually, timed};

/// Its name, of which the node asks no registry.
const IMAGE: &str = "registry.example.com/operator:1";

/// `opctl image build`, which is what its users deploy. The program is not optimized: that takes minutes, and nothing
/// here depends on it.
pub fn write_image(project: &Project, directory: &Path) {
    timed("image of the operator", || {
        let mut build = project.command(env!("CARGO_BIN_EXE_opctl"));
        build.args(["image", "build", "--tag", IMAGE, "--tarball"]);
        build.arg(directory.join("operator.tar"));
        for (setting, value) in [("LTO", "off"), ("CODEGEN_UNITS", "16"), ("OPT_LEVEL", "0")] {
            build.env(format!("CARGO_PROFILE_RELEASE_{setting}"), value);
        }
        finished("opctl image build", build.output().unwrap());
    });
}

/// `make deploy`, and waits until the manager is ready.
pub fn deploy(project: &Project, cluster: &Cluster) {
    let mut make = project.command("make");
    make.args(["deploy", &format!("IMG={IMAGE}")]).env("KUBECONFIG", &cluster.kubeconfig);
    finished("make deploy", make.output().unwrap());
    timed("from `make deploy` to a ready manager", || {
        eventually("ready manager", || {
            let deployment =
                cluster.get(&["deployment", &name(project), "-n", &namespace(project)]);
            match deployment["status"]["readyReplicas"] == json!(1) {
                true => Ok(()),
                false => Err(managers(project, cluster).to_string()),
            }
        });
    });
}

/// The pods of the manager.
pub fn managers(project: &Project, cluster: &Cluster) -> Value {
    cluster.get(&["pods", "-n", &namespace(project)])["items"].take()
}

/// The name of the manager's Deployment and of its ServiceAccount.
pub fn name(project: &Project) -> String {
    format!("{}-controller-manager", project.name())
}

pub fn namespace(project: &Project) -> String {
    format!("{}-system", project.name())
}

/// The default image of a recipe, as its controller names it.
pub fn default_image(project: &Project, controller: &str) -> String {
    let source = project.read(controller);
    let constant = source.split_once("const IMAGE: &str = \"").expect("a default image").1;
    constant.split('"').next().unwrap().to_owned()
}
