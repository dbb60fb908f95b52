//! The commands of docs/postgres.md, with processes for pods.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::operator::machine::install;
use crate::postgres::cluster::{Cluster, eventually};
use crate::postgres::{ALL, TABLE};

/// What a command of the page does to the processes that are the cluster `shop`.
const KUBECTL: &str = r#"#!/bin/sh
set -eu
case "$1 $2" in
  'create job') PGPORT=$PRIMARY sh -c "$BACKUP" 2>"$HERE/log" ;;
  'wait job/shop-backup-now' | 'wait postgrescluster/restored') ;;
  'logs job/shop-backup-now') cat "$HERE/log" ;;
  'apply -f') cat >"$HERE/applied.yaml" ;;
  'exec shop-replica-1')
    shift 3
    PGHOST=$RUN "$@"
    ;;
  'patch postgrescluster/shop' | 'delete pvc/data-shop-replica-1' | 'delete pod/shop-replica-1') echo "$*" >>"$HERE/done" ;;
  *)
    echo "unexpected: kubectl $*" >&2
    exit 1
    ;;
esac
"#;

fn blocks() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/postgres.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks = page.split("\n```sh\n").skip(1);
    blocks.map(|block| block.split_once("\n```").unwrap().0.to_owned()).collect()
}

#[test]
fn the_page_backs_up_restores_and_decides() {
    let blocks = blocks();
    let [back_up, restore, save, decide, give_up] = &blocks[..] else { panic!("{blocks:?}") };
    let mut shop = Cluster::of(2);
    shop.query(0, TABLE).unwrap();
    shop.query(0, "create table orders as select 1 as id").unwrap();
    shop.insert(0, 1);
    let here = tempfile::tempdir().unwrap();
    fs::set_permissions(here.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let kubectl = here.path().join("kubectl");
    install(&kubectl, KUBECTL);
    let run = |shop: &Cluster, block: &str| {
        let mut shell = shop.shell(1, block);
        let path = format!("{}:{}:/usr/bin:/bin", here.path().display(), shop.programs.display());
        shell
            .env("PRIMARY", shop.port(0))
            .env("HERE", here.path())
            .env("PATH", path)
            .current_dir(here.path());
        let output = shell.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{block}: {error}");
        String::from_utf8(output.stdout).unwrap()
    };

    assert!(run(&shop, back_up).contains("dumped all databases to 000001-"));
    run(&shop, restore);
    let applied = fs::read_to_string(here.path().join("applied.yaml")).unwrap();
    let applied: serde_json::Value = serde_saphyr::from_str(&applied).unwrap();
    assert_eq!(applied["spec"]["restore"]["from"], "shop");
    let mut restored = Cluster::of(0);
    restored.restore(&shop, applied["spec"]["restore"]["dump"].as_str().unwrap_or("latest"));
    restored.start(0);
    restored.until_ready(0);
    assert_eq!(restored.query(0, ALL).unwrap(), "1");

    // The replica is promoted while the primary is away, and has more.
    shop.promote_with_more();
    let log = shop.fails(0);
    assert!(log.contains("instance 1 has what is missing here"), "{log}");
    assert!(run(&shop, save).contains("(1 row)"));
    assert!(fs::read_to_string(here.path().join("orders.sql")).unwrap().contains("TABLE"));
    run(&shop, decide);
    let done = || fs::read_to_string(here.path().join("done")).unwrap();
    assert!(done().contains(r#""restoreFrom":1"#), "{}", done());
    shop.restore_from = "1".to_owned();
    shop.start(0);
    shop.until_ready(0);
    assert_eq!(shop.query(0, ALL).unwrap(), "1 2");

    run(&shop, give_up);
    assert!(done().contains("delete pvc/data-shop-replica-1"), "{}", done());
    shop.stop(1);
    shop.lose_data(1);
    shop.start(1);
    shop.until_ready(1);
    eventually("rows of the replica", || {
        (shop.query(1, ALL).as_deref() == Ok("1 2")).then_some(())
    });
}

#[test]
fn the_page_has_what_instances_log() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/postgres.md");
    let page = fs::read_to_string(page).unwrap();
    let script = include_str!("../../../templates/recipes/postgres/controller/start.sh.tera");
    for logged in [
        "has what is missing here",
        "the data are lost, and instances",
        "the data are lost, and there is no other instance",
        "refuse the password",
        "which restoreFrom is set to, does not answer",
        "the data here are",
        "cannot verify the primary",
    ] {
        assert!(page.contains(logged) && script.contains(logged), "{logged}");
    }
}
