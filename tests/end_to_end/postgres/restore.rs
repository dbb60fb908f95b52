//! Restores into a new cluster.

use std::fs;

use crate::postgres::backup::{NAMES, quoted};
use crate::postgres::cluster::Cluster;
use crate::postgres::programs::SEVENTEEN;

const ALL: &str = "select string_agg(x::text, ' ' order by x) from t";

/// The databases that can be connected to, their owners and settings.
const DATABASES: &str = "select string_agg(format('%L %L %s %s', datname, rolname, datistemplate, setconfig), ',' order by datname)
    from pg_database join pg_roles on datdba = pg_roles.oid
    left join pg_db_role_setting on setdatabase = pg_database.oid where datallowconn";

#[test]
fn a_dump_becomes_a_new_cluster_of_a_newer_version() {
    let cluster = Cluster::of(1);
    cluster.query(0, "create role shop login password 'secret'").unwrap();
    for name in NAMES {
        let database = quoted(name);
        cluster.query(0, &format!("create database {database} owner shop")).unwrap();
        cluster.query(0, &format!("alter database {database} set work_mem = '5MB'")).unwrap();
        let sql = format!("create table t as select {}::text as name", literal(name));
        cluster.query_in(name, &sql).unwrap();
    }
    cluster.query_in("template1", "create table template (x int)").unwrap();
    cluster.query(0, "create table t (x int)").unwrap();
    cluster.query(0, "insert into t values (1), (2)").unwrap();
    cluster.backup(1).unwrap();

    let mut other = Cluster::with(&SEVENTEEN, 0);
    other.set_password("616e6f74686572");
    other.restore(&cluster, "latest");
    other.start(0);
    other.until_ready(0);
    (other.size, other.initialized) = (2, true);
    other.start(1);
    other.until_ready(1);
    for instance in [0, 1] {
        assert_eq!(other.query(instance, ALL).unwrap(), "1 2");
        assert_eq!(other.query(instance, DATABASES), cluster.query(0, DATABASES));
    }
    for name in NAMES {
        assert_eq!(other.query_in(name, "select name from t").unwrap(), name.trim());
    }
    assert_eq!(other.query_in("template1", "select count(*) from template").unwrap(), "0");
    other.query(0, "create database made_of_template1").unwrap();
    let system = "select system_identifier from pg_control_system()";
    assert_ne!(other.query(0, system), cluster.query(0, system));

    // Those who are in the dump have the passwords of this cluster.
    assert_eq!(other.query_as("app", 0, "dbname=app", "select current_user").unwrap(), "app");

    // It is done once.
    other.stop(0);
    other.start(0);
    other.until_ready(0);
    let made = "select count(*) from pg_database where datname = 'made_of_template1'";
    assert_eq!(other.query(0, made).unwrap(), "1");
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[test]
fn a_dump_that_cannot_be_restored_leaves_no_data() {
    let cluster = Cluster::of(1);
    cluster.query(0, "create table t as select 1 as x").unwrap();
    let mut other = Cluster::of(0);
    other.restore(&cluster, "latest");
    let log = other.fails(0);
    assert!(log.contains("the backup volume has no dump latest"), "{log}");
    cluster.backup(2).unwrap();
    other.restore(&cluster, "000007-20260101T000000Z-1");
    let log = other.fails(0);
    assert!(log.contains("no dump 000007-") && log.contains("it has: 000001-"), "{log}");

    let dump = cluster.backups().remove(0);
    let oid = cluster.query(0, "select oid from pg_database where datname = 'postgres'").unwrap();
    let file = dump.join(format!("{oid}.dump"));
    let content = fs::read(&file).unwrap();
    fs::write(&file, &content[..content.len() / 2]).unwrap();
    other.restore(&cluster, "latest");
    other.fails(0);
    assert_eq!(other.volume(0), ["data.incomplete"]);
    fs::write(&file, content).unwrap();

    // One that is not the latest.
    cluster.query(0, "insert into t values (2)").unwrap();
    cluster.backup(2).unwrap();
    other.restore(&cluster, dump.file_name().unwrap().to_str().unwrap());
    other.start(0);
    other.until_ready(0);
    assert_eq!(other.query(0, ALL).unwrap(), "1");
    assert_eq!(other.volume(0), ["data"]);
}
