//! The scripts of the recipe `postgres`, with real PostgreSQL on loopback: what `opctl create api` has
//! written runs as it would in its pods.
#![cfg(unix)]
// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod cluster;
mod programs;

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use cluster::{Cluster, eventually};

const TABLE: &str = "create table t (x int)";
const ALL: &str = "select string_agg(x::text, ' ' order by x) from t";

#[test]
fn a_row_is_replicated_and_a_lost_replica_is_recreated() {
    let mut cluster = Cluster::of(3);
    cluster.query(0, TABLE).unwrap();
    cluster.query(0, "insert into t values (1)").unwrap();
    for replica in [1, 2] {
        cluster.until(replica, ALL, "1");
        let refusal = cluster.query(replica, "insert into t values (0)").unwrap_err();
        assert!(refusal.contains("read-only transaction"), "{refusal}");
    }

    cluster.stop(2);
    cluster.lose_data(2);
    cluster.query(0, "insert into t values (2)").unwrap();
    cluster.start(2);
    cluster.until(2, ALL, "1 2");
    cluster.until(1, ALL, "1 2");
    for instance in 0..3 {
        assert_eq!(cluster.alive(instance), Ok(()));
    }
}

#[test]
fn whatever_a_kill_leaves_is_healed_by_the_next_start() {
    let mut cluster = Cluster::of(1);
    cluster.query(0, TABLE).unwrap();
    cluster.query(0, "insert into t select generate_series(1, 3)").unwrap();
    for instance in [1, 2] {
        for life in [30, 60, 120, 250, 500] {
            cluster.start(instance);
            sleep(Duration::from_millis(life * u64::try_from(instance).unwrap()));
            cluster.kill(instance);
        }
        cluster.start(instance);
        cluster.until(instance, ALL, "1 2 3");
    }

    // The same with an empty database of its own.
    let mut other = Cluster::of(0);
    for life in [50, 150, 300, 600, 900] {
        other.start(0);
        sleep(Duration::from_millis(life));
        other.kill(0);
    }
    other.start(0);
    other.until(0, "select 1", "1");
}

#[test]
fn a_replica_that_is_too_far_behind_copies_the_primary_again() {
    let mut cluster = Cluster::of(2);
    cluster.query(0, TABLE).unwrap();
    cluster.stop(1);
    cluster.query(0, "insert into t values (1)").unwrap();
    for _ in 0..3 {
        cluster.query(0, "select pg_switch_wal()").unwrap();
        cluster.query(0, "checkpoint").unwrap();
    }
    cluster.start(1);
    cluster.until(1, ALL, "1");
    cluster.until(1, "select status from pg_stat_wal_receiver", "streaming");
    let log = cluster.log(1);
    assert!(log.contains("no longer has the WAL that follows the data here"), "{log}");

    // One that was away for a moment goes on with what it has.
    cluster.stop(1);
    cluster.query(0, "insert into t values (2)").unwrap();
    cluster.start(1);
    cluster.until(1, ALL, "1 2");
    assert_eq!(cluster.log(1).matches("copying the primary's data").count(), 2);
}

#[test]
fn the_primary_gets_its_lost_data_back_from_a_replica() {
    let mut cluster = Cluster::of(2);
    cluster.query(0, TABLE).unwrap();
    cluster.query(0, "insert into t values (1)").unwrap();
    cluster.until(1, ALL, "1");
    cluster.stop(0);
    cluster.until(1, ALL, "1"); // it can be read meanwhile
    cluster.lose_data(0);
    cluster.start(0);
    cluster.until(0, ALL, "1");
    cluster.query(0, "insert into t values (2)").unwrap();
    cluster.until(1, ALL, "1 2");
    assert_eq!(cluster.alive(1), Ok(()));
}

#[test]
fn a_possible_only_copy_is_never_deleted() {
    let mut cluster = Cluster::of(2);
    cluster.query(0, TABLE).unwrap();
    cluster.query(0, "insert into t values (1)").unwrap();
    cluster.until(1, ALL, "1");
    cluster.stop(1);
    cluster.stop(0);
    cluster.lose_data(0);
    cluster.start(0); // no replica answers: it makes an empty database
    cluster.until(0, "select 1", "1");
    let log = cluster.fails(1);
    assert!(log.contains("maybe the only copy"), "{log}");

    // With the primary away it serves what it has, from which the primary takes it.
    cluster.stop(0);
    cluster.lose_data(0);
    cluster.start(1);
    cluster.until(1, ALL, "1");
    cluster.start(0);
    cluster.until(0, ALL, "1");
}

#[test]
fn a_replica_that_does_not_follow_is_not_alive() {
    let mut cluster = Cluster::of(2);
    cluster.query(0, TABLE).unwrap();
    // As if it had another password than the primary.
    cluster.stop(0);
    assert_eq!(cluster.alive(1), Ok(()), "nobody is there to follow");
    cluster.password = "another".to_owned();
    cluster.start(0);
    cluster.until(0, "select 1", "1");
    eventually("unable to follow", || cluster.alive(1).is_err().then_some(()));

    cluster.stop(1);
    cluster.start(1);
    cluster.until(1, "select status from pg_stat_wal_receiver", "streaming");
    assert_eq!(cluster.alive(1), Ok(()));
}

#[test]
fn a_new_password_is_set_and_none_is_logged() {
    let mut cluster = Cluster::of(2);
    let old = cluster.password.clone();
    for instance in [1, 0] {
        cluster.stop(instance);
    }
    cluster.password = "7265746f72".to_owned();
    for instance in [0, 1] {
        cluster.start(instance);
        cluster.until(instance, "select 1", "1");
    }
    let new = std::mem::replace(&mut cluster.password, old.clone());
    let refusal = cluster.query(0, "select 1").unwrap_err();
    assert!(refusal.contains("password authentication failed"), "{refusal}");
    for log in [cluster.log(0), cluster.log(1)] {
        assert!(!log.contains(&old) && !log.contains(&new), "{log}");
    }
}

#[test]
fn a_dump_is_restored() {
    let cluster = Cluster::of(1);
    let name = "a/b c";
    cluster.query(0, "create role reader").unwrap();
    cluster.query(0, &format!("create database \"{name}\"")).unwrap();
    cluster.query(0, TABLE).unwrap();
    let mut kept = Vec::new();
    for row in 1..=3 {
        cluster.query(0, &format!("insert into t values ({row})")).unwrap();
        cluster.backup(2).unwrap();
        kept = cluster.backups();
        sleep(Duration::from_secs(1)); // they are named by the second
    }
    assert_eq!(kept.len(), 2);
    assert!(kept.is_sorted(), "{kept:?}");
    let names = |folder| {
        let files = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&kept[1]), ["a_b c.dump", "globals.sql", "postgres.dump"]);

    let other = Cluster::of(1);
    other.psql(0, &kept[1].join("globals.sql"));
    other.restore(0, &kept[0].join("postgres.dump"));
    assert_eq!(other.query(0, ALL).unwrap(), "1 2");
    assert_eq!(other.query(0, "select 1 from pg_roles where rolname = 'reader'").unwrap(), "1");
}

#[test]
fn a_backup_that_fails_takes_none_away() {
    let mut cluster = Cluster::of(1);
    cluster.backup(1).unwrap();
    let before = cluster.backups();
    cluster.stop(0);
    sleep(Duration::from_secs(1));
    cluster.backup(1).unwrap_err();
    assert_eq!(cluster.backups(), before);
}
