//! Whether the Rust types of CRDs compile.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::crd_attacks::{crd, with_field};
use super::crds::{crds, create, project};
use super::mutate::mutate;
use super::random::Random;
use super::sandbox::Sandbox;

/// CRDs of kinds with the names of types that the generated code, kube or serde use, and with the deepest
/// types.
fn special_crds() -> Vec<String> {
    const KINDS: &[&str] = &[
        "Any",
        "Api",
        "Box",
        "BTreeMap",
        "ByteString",
        "Clone",
        "Condition",
        "Cow",
        "CustomResource",
        "CustomResourceExt",
        "Debug",
        "Err",
        "Formatter",
        "From",
        "Into",
        "IntOrString",
        "Iterator",
        "Kind",
        "Map",
        "None",
        "ObjectMeta",
        "Ok",
        "PartialEq",
        "Resource",
        "Result",
        "ResourceScope",
        "Send",
        "Serializer",
        "Sized",
        "Some",
        "Spec",
        "Status",
        "Std",
        "Sync",
        "Time",
        "ToString",
        "TypeMeta",
        "Value",
        "Visitor",
    ];
    let field = "{type: object, required: [a], properties: {a: {type: object, additionalProperties: {type: array, \
                 items: {type: string, enum: [a, b]}}}, b: {x-kubernetes-int-or-string: true}, c: {type: string, \
                 format: date-time}, d: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: \
                 {e: {}}}}}";
    let crds = KINDS.iter().flat_map(|kind| {
        let with_status = crd("a.b", "v1", kind, "widgets", field);
        let without_spec = with_status.replace("required: [spec]", "required: []");
        let status = "        properties:\n          status: {type: object, properties: {a: {type: string}}}\n";
        [with_status.replacen("        properties:\n", status, 1), without_spec]
    });
    let deep = [
        "{type: array, items: ",
        "{type: object, additionalProperties: ",
        "{type: object, properties: {a: ",
        "{type: object, required: [a], properties: {a: ",
    ];
    let deep = deep.map(|open| {
        let close = "}".repeat(open.matches('{').count());
        let field = format!("{}{{type: string}}{}", open.repeat(30), close.repeat(30));
        with_field(&field)
    });
    crds.chain(deep).collect()
}

#[test]
#[ignore = "compiles a project: cargo test --test hostile -- --ignored"]
fn sample_of_random_types_compiles() {
    const SAMPLE: usize = 200;
    // The largest take minutes each.
    const MAX_SOURCE: usize = 100_000;
    let (seeds, project) = (crds(), project());
    let mut types = BTreeSet::new();
    let mut case = 0;
    let mut size = 0;
    while types.len() < SAMPLE {
        let mut random = Random(case);
        let seed: &String = random.choose(&seeds);
        let text = mutate(seed, &mut random);
        let source = create(&project, &text).ok().map(|(_, types)| types);
        if let Some(source) = source.filter(|source| source.len() < MAX_SOURCE) {
            size += source.len();
            types.insert(source);
        }
        case += 1;
    }
    types.extend(special_crds().iter().map(|crd| create(&project, crd).unwrap().1));
    let sandbox = Sandbox::new();
    let mut modules = "//! Types of random CRDs.\n\n".to_owned();
    fs::create_dir(sandbox.project().join("src/hostile")).unwrap();
    for (i, types) in types.iter().enumerate() {
        let kind = types.lines().find_map(|line| line.strip_prefix("    kind = \"")).unwrap();
        let kind = kind.trim_end_matches("\",");
        modules += &format!("pub mod t{i};\nconst _: fn() = is_resource::<t{i}::{kind}>;\n");
        sandbox.write(&format!("src/hostile/t{i}.rs"), types);
    }
    modules += "
fn is_resource<K>()
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + PartialEq + Send + Sync,
    K: serde::Serialize + serde::de::DeserializeOwned + 'static,
{
}
";
    sandbox.write("src/hostile/mod.rs", &modules);
    let main = sandbox.read("src/main.rs");
    sandbox.write(
        "src/main.rs",
        &main.replacen("\nuse ", "\n#[allow(dead_code)]\nmod hostile;\nuse ", 1),
    );
    println!("{} types of {case} CRDs, {size} bytes", types.len());
    let mut cargo = Command::new("cargo");
    cargo.args(["check", "--bins"]).current_dir(sandbox.project());
    let output = cargo.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    println!("{stderr}");
    assert!(output.status.success(), "{stderr}");
}
