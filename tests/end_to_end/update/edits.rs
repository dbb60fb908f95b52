//! What people do to a project that an old opctl has made.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;

const API: &str = "src/api/cache/v1alpha1/memcached.rs";
const CONTROLLER: &str = "src/controller/cache/memcached.rs";
const TEST: &str = "tests/cache_memcached.rs";

/// Something that somebody does to a project.
pub struct Edit {
    pub name: &'static str,
    pub make: fn(&Path),
}

pub const EDITS: [Edit; 15] = [
    Edit { name: "a field of the specification", make: field },
    Edit { name: "a second child", make: child },
    Edit { name: "a module", make: module },
    Edit { name: "a line in the reconciler", make: log },
    Edit { name: "a unit test", make: unit_test },
    Edit { name: "an integration test", make: integration_test },
    Edit { name: "a line in main", make: main },
    Edit { name: "a dependency", make: dependency },
    Edit { name: "other widths", make: reformat },
    Edit { name: "the image and a target of make", make: makefile },
    Edit { name: "other resources", make: resources },
    Edit { name: "a feature by hand", make: feature },
    Edit { name: "another sample", make: sample },
    Edit { name: "another README", make: readme },
    Edit { name: "no workflow", make: workflow },
];

fn field(project: &Path) {
    replace(
        project,
        API,
        "    pub image: Option<String>,\n}",
        "    pub image: Option<String>,

    /// Memory for items, in MiB.
    #[serde(default = \"default_memory\")]
    #[schemars(range(min = 64))]
    pub memory: i32,
}

fn default_memory() -> i32 {
    64
}",
    );
    let limit = "format!(\"--memory-limit={}\", memcached.spec.memory)";
    replace(project, CONTROLLER, "\"--memory-limit=64\".to_owned()", limit);
    replace(
        project,
        CONTROLLER,
        "            image: None,",
        "            image: None,\n            memory: 64,",
    );
    for size in ["3", "1"] {
        let spec = format!("        size: {size},\n        container_port");
        let with_memory = format!("        memory: 64,\n{spec}");
        replace(project, TEST, &spec, &with_memory);
    }
}

fn child(project: &Path) {
    let import = "use k8s_openapi::api::events::v1::Event;";
    let imports = "use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};\n";
    replace(project, CONTROLLER, import, &format!("{imports}{import}"));
    let rule = "        rule::<Pod>(&[\"list\", \"watch\"]),";
    let rules = "        rule::<Service>(&[\"create\", \"list\", \"patch\", \"watch\"]),\n";
    replace(project, CONTROLLER, rule, &format!("{rules}{rule}"));
    let cache = "    deployments: Cache<Deployment, v1alpha1::Memcached>,";
    let services = "\n    services: Cache<Service, v1alpha1::Memcached>,";
    replace(project, CONTROLLER, cache, &format!("{cache}{services}"));
    let owns = "        deployments: controller.owns(),";
    replace(project, CONTROLLER, owns, &format!("{owns}\n        services: controller.owns(),"));
    let desired = "    let desired = deployment(&memcached, &ctx.image);";
    let apply = "    ctx.field_manager
        .apply(&*memcached, service(&memcached), &ctx.services)
        .await?;
";
    replace(project, CONTROLLER, desired, &format!("{apply}{desired}"));
    let deployment = "/// The Deployment that runs the servers.";
    let service = "/// The Service by which clients find the servers.
fn service(memcached: &v1alpha1::Memcached) -> Service {
    Service {
        metadata: ObjectMeta {
            name: memcached.metadata.name.clone(),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            cluster_ip: Some(\"None\".to_owned()),
            selector: Some(workload::selector(APP, memcached)),
            ports: Some(vec![ServicePort {
                port: memcached.spec.container_port,
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

";
    replace(project, CONTROLLER, deployment, &format!("{service}{deployment}"));
}

fn module(project: &Path) {
    let first = "use std::sync::Arc;";
    replace(project, CONTROLLER, first, &format!("mod settings;\n\n{first}"));
    let rule = "        rule::<Event>(";
    let config_map = "k8s_openapi::api::core::v1::ConfigMap";
    let rules =
        format!("        rule::<{config_map}>(&[\"create\", \"list\", \"patch\", \"watch\"]),\n");
    replace(project, CONTROLLER, rule, &format!("{rules}{rule}"));
    let field = "    image: String,\n}";
    replace(project, CONTROLLER, field, &format!("    settings: settings::Settings,\n{field}"));
    let start = "        image: std::env::var(";
    let settings = "settings::Settings::new(&controller, manager.field_manager())";
    replace(project, CONTROLLER, start, &format!("        settings: {settings},\n{start}"));
    let desired = "    let desired = deployment(&memcached, &ctx.image);";
    let apply = "    ctx.settings.apply(&memcached).await?;\n";
    replace(project, CONTROLLER, desired, &format!("{apply}{desired}"));
    let module = project.join("src/controller/cache/memcached");
    fs::create_dir(&module).unwrap();
    fs::write(module.join("settings.rs"), SETTINGS).unwrap();
}

const SETTINGS: &str = "//! The settings of the servers.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;

use crate::api::cache::v1alpha1::Memcached;
use crate::manager::cache::Cache;
use crate::manager::controller::Controller;
use crate::manager::error::Result;
use crate::manager::field_manager::FieldManager;

/// Writes the ConfigMap of each Memcached.
pub struct Settings {
    config_maps: Cache<ConfigMap, Memcached>,
    field_manager: FieldManager,
}

impl Settings {
    /// Watches the ConfigMaps.
    pub fn new(controller: &Controller<Memcached>, field_manager: FieldManager) -> Self {
        Self {
            config_maps: controller.owns(),
            field_manager,
        }
    }

    /// Writes the ConfigMap of a Memcached.
    pub async fn apply(&self, memcached: &Memcached) -> Result<()> {
        let count = self.config_maps.owned_by(memcached).len();
        tracing::debug!(count, \"applying the settings\");
        let config_map = ConfigMap {
            metadata: ObjectMeta {
                name: memcached.metadata.name.clone(),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        self.field_manager
            .apply(memcached, config_map, &self.config_maps)
            .await?;
        Ok(())
    }
}
";

fn log(project: &Path) {
    let desired = "    let desired = deployment(&memcached, &ctx.image);";
    let log = "    tracing::debug!(size = memcached.spec.size, \"reconciling\");\n";
    replace(project, CONTROLLER, desired, &format!("{log}{desired}"));
}

fn unit_test(project: &Path) {
    let next = "    #[test]\n    fn the_servers_listen";
    let test = "    #[test]
    fn the_deployment_has_the_name_of_its_owner() {
        let deployment = deployment(&memcached(\"sample\"), IMAGE);
        assert_eq!(deployment.metadata.name.as_deref(), Some(\"sample\"));
    }

";
    replace(project, CONTROLLER, next, &format!("{test}{next}"));
}

fn integration_test(project: &Path) {
    append(
        project,
        TEST,
        "
#[tokio::test]
async fn a_name_is_kept() {
    let fixture = fixture().await;
    let memcached = fixture.memcacheds.get(\"sample\").await.expect(\"found\");
    assert_eq!(memcached.name_any(), \"sample\");
}
",
    );
}

fn main(project: &Path) {
    let connect = "    let manager = Manager::new(options).await?;";
    let log = "    tracing::info!(\"the operator of the cache team\");\n";
    replace(project, "src/main.rs", connect, &format!("{log}{connect}"));
}

fn dependency(project: &Path) {
    replace(project, "Cargo.toml", "clap = {", "either = \"1\"\nclap = {");
}

fn reformat(project: &Path) {
    append(project, "rustfmt.toml", "max_width = 120\nuse_small_heuristics = \"Max\"\n");
    let status = Command::new("cargo").arg("fmt").current_dir(project).status();
    assert!(status.unwrap().success());
}

fn makefile(project: &Path) {
    replace(
        project,
        "Makefile",
        "IMG ?= controller:latest",
        "IMG ?= registry.example.com/cache/my-operator:1.2.3",
    );
    append(project, "Makefile", "\n.PHONY: bench\nbench: ## Measure the servers.\n\t./bench.sh\n");
}

fn resources(project: &Path) {
    let manager = "config/manager/manager.yaml";
    replace(project, manager, "            memory: 128Mi", "            memory: 512Mi");
    replace(project, manager, "            cpu: 10m", "            cpu: 50m");
}

fn feature(project: &Path) {
    let kustomization = "config/default/kustomization.yaml";
    replace(project, kustomization, "#- ../prometheus ", "- ../prometheus ");
}

fn sample(project: &Path) {
    replace(project, "config/samples/cache_v1alpha1_memcached.yaml", "size: 3", "size: 5");
}

fn readme(project: &Path) {
    fs::write(project.join("README.md"), "# The cache operator\n\nAsk the cache team.\n").unwrap();
}

fn workflow(project: &Path) {
    fs::remove_file(project.join(".github/workflows/lint.yml")).unwrap();
}

fn replace(project: &Path, path: &str, old: &str, new: &str) {
    let path = project.join(path);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(old), "{old} in {}", path.display());
    fs::write(path, text.replacen(old, new, 1)).unwrap();
}

fn append(project: &Path, path: &str, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(project.join(path)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}
