//! Backups.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::postgres::cluster::{Cluster, eventually};
use crate::postgres::programs::is_root;

/// Names that have been taken for a path, an option, a connection string or two names.
pub const NAMES: [&str; 9] =
    ["a/b", "a_b", " x ", "two\nlines", "*", "-d", "dbname=x", r"back\slash", "it's a \"quote\""];

/// Quotes the name of a database.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The names of the complete dumps, the oldest first.
fn names(cluster: &Cluster) -> Vec<String> {
    let names = cluster.backups();
    names.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// The sequence numbers of the complete dumps.
fn sequence(cluster: &Cluster) -> Vec<u32> {
    let names = names(cluster);
    names.iter().map(|name| name.split('-').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn every_database_is_dumped_to_a_file_of_its_own() {
    let cluster = Cluster::of(1);
    for name in NAMES {
        cluster.query(0, &format!("create database {}", quoted(name))).unwrap();
    }
    // These refuse connections: the second one as one that was not deleted completely.
    for (name, setting) in [("closed", "datallowconn = false"), ("half", "datconnlimit = -2")] {
        cluster.query(0, &format!("create database {name}")).unwrap();
        let update = format!("update pg_database set {setting} where datname = '{name}'");
        cluster.query(0, &update).unwrap();
    }
    cluster.query(0, "create role shop password 'secret'").unwrap();
    cluster.query(0, "comment on role postgres is 'two\nlines'").unwrap();
    cluster.backup(2).unwrap();
    let dump = &cluster.backups()[0];

    let list = fs::read_to_string(dump.join("databases")).unwrap();
    assert_eq!(list.lines().count(), NAMES.len() + 3, "{list}");
    for line in list.lines() {
        let (oid, name) = line.split_once(' ').unwrap();
        assert!(dump.join(format!("{oid}.dump")).exists(), "{line}");
        let name: String = serde_json::from_str(name).unwrap();
        let known = NAMES.contains(&&*name) || ["app", "postgres", "template1"].contains(&&*name);
        assert!(known, "{name}");
    }
    let globals = fs::read_to_string(dump.join("globals.sql")).unwrap();
    assert!(globals.contains("ROLE shop"), "{globals}");
    assert!(!globals.contains("ROLE postgres") && !globals.contains("lines"), "{globals}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(dump), mode(&dump.join("globals.sql"))), (0o700, 0o600));
}

#[test]
fn the_oldest_dump_goes_whatever_the_clock_says() {
    let cluster = Cluster::of(1);
    cluster.backup(2).unwrap();
    let first = cluster.backups().remove(0);
    let name = names(&cluster).remove(0);
    let parts: Vec<_> = name.split('-').collect();
    let future = format!("{}-20370101T000000Z-{}", parts[0], parts[2]);
    fs::rename(&first, first.with_file_name(future)).unwrap();
    for _ in 0..2 {
        cluster.backup(2).unwrap();
    }
    assert_eq!(sequence(&cluster), [2, 3]);
}

#[test]
fn the_dumps_of_another_database_are_not_deleted() {
    let cluster = Cluster::of(1);
    for _ in 0..2 {
        cluster.backup(2).unwrap();
    }
    for dump in cluster.backups() {
        let name = dump.file_name().unwrap().to_str().unwrap();
        let other = format!("{}-7000000000000000000", name.rsplit_once('-').unwrap().0);
        fs::rename(&dump, dump.with_file_name(other)).unwrap();
    }
    for _ in 0..3 {
        cluster.backup(1).unwrap();
    }
    assert_eq!(sequence(&cluster), [1, 2, 5]);
}

#[test]
fn a_volume_without_room_loses_its_oldest_dump_and_not_its_last() {
    if !is_root() {
        return; // only root can make a small volume
    }
    let cluster = Cluster::of(1);
    let _volume = cluster.small_volume("backups", 8);
    cluster.query(0, "create table t as select 1 as x, ''::text as filler").unwrap();
    let grow = |megabytes| {
        // What cannot be compressed.
        let filler = "select string_agg(md5(random()::text), '') from generate_series(1, 32768)";
        let rows = format!("select 1, ({filler}) from generate_series(1, {megabytes})");
        cluster.query(0, &format!("truncate t; insert into t {rows}")).unwrap();
    };
    grow(4);
    for _ in 0..4 {
        cluster.backup(3).unwrap();
    }
    let dumps = sequence(&cluster);
    assert_eq!(dumps.last(), Some(&4), "{dumps:?}");
    assert!(dumps.len() < 4, "{dumps:?}");

    // What never has room takes none but the last away.
    grow(20);
    for _ in 0..4 {
        cluster.backup(3).unwrap_err();
    }
    assert_eq!(sequence(&cluster), [4]);
    // Room comes back.
    grow(4);
    cluster.backup(3).unwrap();
    assert_eq!(sequence(&cluster).last(), Some(&5));
}

#[test]
fn a_locked_table_does_not_hold_a_backup_up_for_ever() {
    let cluster = Cluster::of(1);
    cluster.query(0, "create table t (x int)").unwrap();
    cluster.query(0, "create database z").unwrap();
    let lock = cluster.client_of(0, "begin; lock table t; select pg_sleep(600)");
    eventually("lock", || {
        let count =
            cluster.query(0, "select count(*) from pg_locks where relation = 't'::regclass");
        (count.as_deref() == Ok("1")).then_some(())
    });
    let error = cluster.backup(1).unwrap_err();
    assert!(error.contains("could not dump the databases with the oids"), "{error}");
    assert!(cluster.backups().is_empty());
    // The others can be had, if it comes to that.
    let oid = cluster.query(0, "select oid from pg_database where datname = 'z'").unwrap();
    assert!(cluster.path(&format!("backups/incomplete/{oid}.dump")).exists());
    drop(lock);
    // Its server process sleeps on.
    let locks = "select pg_terminate_backend(pid) from pg_locks where relation = 't'::regclass";
    cluster.query(0, locks).unwrap();
    cluster.backup(1).unwrap();
}

#[test]
fn a_backup_that_fails_takes_none_away() {
    let mut cluster = Cluster::of(1);
    cluster.backup(1).unwrap();
    let before = cluster.backups();
    cluster.stop(0);
    cluster.backup(1).unwrap_err();
    assert_eq!(cluster.backups(), before);
}
