//! The scripts of the recipe `postgres`, with real PostgreSQL on loopback: what `opctl create api` has
//! written runs as it would in its pods.

mod backup;
mod cluster;
mod docs;
mod killed;
mod kills;
mod network;
mod programs;
mod restore;
mod seed;
mod tls;
mod walk;

#[allow(dead_code)] // it is shared
#[path = "../../hostile/random.rs"]
mod random;

use std::fs;
use std::os::unix::fs::symlink;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::operator::machine::install;
use cluster::{BOUND, Cluster, eventually};
use programs::{FOLDER, SEVENTEEN};

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

/// The data that an instance has kept beside its own.
fn kept(cluster: &Cluster, instance: usize) -> Vec<String> {
    let mut names = cluster.volume(instance);
    names.retain(|name| name.starts_with("data.kept."));
    names
}

const STREAMING: (&str, &str) = ("select status from pg_stat_wal_receiver", "streaming");

/// A cluster with the row 1 on every instance.
fn with_a_row(size: usize) -> Cluster {
    filled(Cluster::of(size))
}

fn filled(mut cluster: Cluster) -> Cluster {
    cluster.query(0, TABLE).unwrap();
    cluster.insert(0, 1);
    for replica in 1..cluster.size {
        cluster.until(replica, ALL, "1");
    }
    cluster
}

#[test]
fn a_replica_that_is_too_far_behind_copies_the_primary_again() {
    let mut cluster = Cluster::of(2);
    cluster.query(0, TABLE).unwrap();
    cluster.stop(1);
    cluster.insert(0, 1);
    cluster.recycle_wal();
    cluster.start(1);
    cluster.until(1, ALL, "1");
    cluster.until(1, STREAMING.0, STREAMING.1);
    let log = cluster.log(1);
    assert!(log.contains("no longer has the WAL that follows the data here"), "{log}");
    assert_eq!(kept(&cluster, 1).len(), 1, "{:?}", cluster.volume(1));

    // One that was away for a moment goes on with what it has.
    cluster.stop(1);
    cluster.insert(0, 2);
    cluster.start(1);
    cluster.until(1, ALL, "1 2");
    assert_eq!(kept(&cluster, 1).len(), 1);
}

#[test]
fn the_primary_gets_its_lost_data_back_from_a_replica() {
    gets_lost_data_back(with_a_row(2));
}

#[test]
fn the_primary_of_another_version_gets_its_lost_data_back() {
    gets_lost_data_back(filled(Cluster::with(&SEVENTEEN, 2)));
}

fn gets_lost_data_back(mut cluster: Cluster) {
    cluster.stop(0);
    cluster.until(1, ALL, "1"); // it can be read meanwhile
    cluster.lose_data(0);
    cluster.start(0);
    cluster.until_ready(0);
    assert_eq!(cluster.query(0, ALL).as_deref(), Ok("1"));
    cluster.insert(0, 2);
    cluster.until(1, ALL, "1 2");
    cluster.until_ready(1);
}

#[test]
fn a_primary_without_data_says_that_its_password_is_too_new() {
    let mut cluster = with_a_row(2);
    cluster.stop(0);
    cluster.lose_data(0);
    let before = cluster.password.clone();
    cluster.set_password("6e6577");
    let log = cluster.fails(0);
    assert!(log.contains("instances 1 refuse the password"), "{log}");
    cluster.set_password(&before);
    cluster.start(0);
    cluster.until_ready(0);
    assert_eq!(cluster.query(0, ALL).as_deref(), Ok("1"));
}

#[test]
fn a_new_replica_has_a_password_that_is_changed_while_it_waits() {
    let mut cluster = with_a_row(1);
    cluster.connect();
    cluster.cut(1, true);
    cluster.size = 2;
    cluster.start(1);
    let copying = "copying the primary's data";
    eventually(copying, || cluster.log(1).contains(copying).then_some(()));
    cluster.set_password("6e6577");
    cluster.until(0, "select 1", "1");
    cluster.cut(1, false);
    cluster.until_ready(1);
    cluster.until(1, ALL, "1");
}

#[test]
fn an_empty_database_never_takes_the_place_of_data() {
    let mut cluster = with_a_row(2);
    cluster.kill(1);
    cluster.kill(0);
    cluster.lose_data(0);
    let log = cluster.fails(0);
    assert!(log.contains("the data are lost, and instances 1 do not answer"), "{log}");

    // The primary waits for the replica, which starts at the same time.
    cluster.start(0);
    cluster.start(1);
    cluster.until(0, ALL, "1");
    cluster.until_ready(1);

    let mut single = with_a_row(1);
    single.stop(0);
    single.rename_data(0, "data.old");
    let log = single.fails(0);
    assert!(log.contains("restore a backup into a new cluster"), "{log}");
    assert_eq!(single.volume(0), ["data.old"]);
}

#[test]
fn what_a_promoted_replica_has_is_never_lost() {
    let mut cluster = with_a_row(2);
    cluster.promote_with_more();
    assert!(cluster.log(1).contains("ready to accept connections"));
    let log = cluster.fails(0);
    assert!(log.contains("instance 1 has what is missing here"), "{log}");

    // It follows nobody, and nobody writes to it.
    cluster.stop(1);
    cluster.start(1);
    cluster.until(1, ALL, "1 2");
    assert!(insert_fails(&cluster, 1) && !cluster.ready(1));
    let log = cluster.fails(0);
    assert!(log.contains("instance 1 has what is missing here"), "{log}");

    cluster.restore_from = "1".to_owned();
    cluster.start(0);
    cluster.until_ready(0);
    assert_eq!(cluster.query(0, ALL).as_deref(), Ok("1 2"));
    assert_eq!(kept(&cluster, 0).len(), 1);
    cluster.until_ready(1);

    // The decision is carried out once.
    cluster.stop(0);
    cluster.start(0);
    cluster.until_ready(0);
    assert_eq!(kept(&cluster, 0).len(), 1);
}

#[test]
fn the_primary_waits_for_the_instance_that_a_person_has_chosen() {
    let mut cluster = with_a_row(2);
    cluster.promote_with_more();
    cluster.stop(1);
    cluster.restore_from = "1".to_owned();
    let log = cluster.fails(0);
    assert!(log.contains("instance 1, which restoreFrom is set to, does not answer"), "{log}");
    cluster.start(1);
    cluster.start(0);
    cluster.until_ready(0);
    assert_eq!(cluster.query(0, ALL).as_deref(), Ok("1 2"));
}

fn insert_fails(cluster: &Cluster, instance: usize) -> bool {
    cluster.query(instance, "insert into t values (0)").is_err()
}

#[test]
fn a_person_may_do_without_what_another_instance_has() {
    let mut cluster = with_a_row(2);
    cluster.promote_with_more();
    cluster.restore_from = "0".to_owned();
    cluster.start(0);
    cluster.until_ready(0);
    assert_eq!(cluster.query(0, ALL).as_deref(), Ok("1"));
    cluster.stop(1);
    cluster.start(1);
    cluster.until(1, ALL, "1 2");
    let log = cluster.log(1);
    eventually("a replica that stands aside", || {
        cluster.log(1).contains("are ahead").then_some(())
    });
    assert!(!cluster.ready(1), "{log}");
}

#[test]
fn the_most_advanced_replica_gives_its_data() {
    let mut cluster = with_a_row(3);
    cluster.stop(1);
    cluster.insert(0, 2);
    cluster.until(2, ALL, "1 2");
    cluster.kill(0);
    cluster.kill(2);
    cluster.lose_data(0);
    for instance in [1, 0, 2] {
        cluster.start(instance);
    }
    cluster.until(0, ALL, "1 2");
    for instance in 0..3 {
        cluster.until_ready(instance);
        assert_eq!(cluster.query(instance, ALL).as_deref(), Ok("1 2"));
    }
}

#[test]
fn an_older_volume_of_the_primary_is_not_used() {
    let mut cluster = with_a_row(2);
    cluster.stop(0);
    cluster.copy_data(0, "data", "snapshot");
    cluster.start(0);
    cluster.until_ready(0);
    cluster.insert(0, 2);
    cluster.until(1, ALL, "1 2");
    cluster.stop(0);
    cluster.lose_data(0);
    cluster.copy_data(0, "snapshot", "data");
    let log = cluster.fails(0);
    assert!(log.contains("instance 1 has what is missing here"), "{log}");

    // Without the replica it serves what it has. It then writes something else of the same length.
    cluster.stop(1);
    cluster.start(0);
    cluster.until_ready(0);
    cluster.insert(0, 3);
    cluster.start(1);
    cluster.until(1, ALL, "1 2");
    let aside = "not following the primary, which does not have all of them";
    eventually("a replica that stands aside", || cluster.log(1).contains(aside).then_some(()));
    sleep(Duration::from_secs(2));
    assert!(!cluster.ready(1));
    assert_eq!(cluster.query(1, ALL).as_deref(), Ok("1 2"), "it has what the primary lacks");
    assert_eq!(cluster.alive(1), Ok(()));
}

#[test]
fn a_person_chooses_between_instances_that_have_more() {
    let mut cluster = with_a_row(3);
    cluster.stop(0);
    cluster.save_data(0);
    cluster.start(0);
    cluster.until_ready(0);
    cluster.insert(0, 2);
    for replica in [1, 2] {
        cluster.until(replica, ALL, "1 2");
    }
    cluster.stop(0);
    cluster.recall_data(0);
    let log = cluster.fails(0);
    assert!(log.contains("one of 1 2, or to 0"), "{log}");
    cluster.restore_from = "2".to_owned();
    cluster.start(0);
    cluster.until_ready(0);
    for instance in 0..3 {
        cluster.until_ready(instance);
        assert_eq!(cluster.query(instance, ALL).as_deref(), Ok("1 2"));
    }
}

#[test]
fn a_record_that_was_not_written_to_its_end_does_not_keep_the_primary_from_serving() {
    let mut cluster = with_a_row(2);
    cluster.kill(0);
    cluster.tear_record(0);
    cluster.start(0);
    cluster.until_ready(0);
    cluster.insert(0, 2);
    cluster.until(1, ALL, "1 2");
}

#[test]
fn data_of_another_cluster_stay() {
    let mut cluster = with_a_row(2);
    cluster.stop(1);
    cluster.stop(0);
    cluster.lose_data(0);
    cluster.initialized = false; // as the operator of another cluster
    cluster.start(0);
    cluster.until_ready(0);
    cluster.initialized = true;
    cluster.start(1);
    cluster.until(1, ALL, "1");
    eventually("a replica that stands aside", || {
        cluster.log(1).contains("are other").then_some(())
    });
    assert!(!cluster.ready(1));
}

#[test]
fn there_is_one_primary() {
    let mut cluster = with_a_row(2);
    cluster.stop(1);
    cluster.remove(1, "standby.signal");
    cluster.start(1);
    cluster.until_ready(1);
    assert!(insert_fails(&cluster, 1));

    // One that is promoted by hand does not count as a replica any more.
    cluster.query(1, "select pg_promote()").unwrap();
    eventually("an instance that is not ready", || (!cluster.ready(1)).then_some(()));
}

#[test]
fn a_replica_can_be_read_while_the_primary_is_away() {
    let mut cluster = with_a_row(2);
    cluster.stop(0);
    sleep(BOUND + BOUND);
    assert!(cluster.ready(1));
    assert_eq!(cluster.query(1, ALL).as_deref(), Ok("1"));
    cluster.start(0);
    cluster.until_ready(0);
    cluster.insert(0, 2);
    cluster.until(1, ALL, "1 2");
    assert!(cluster.ready(1));

    // One that starts meanwhile does not know what it lacks.
    cluster.stop(0);
    cluster.stop(1);
    cluster.start(1);
    cluster.until(1, ALL, "1 2");
    sleep(BOUND);
    assert!(!cluster.ready(1));
    assert_eq!(cluster.alive(1), Ok(()));
}

#[test]
fn a_replica_that_is_far_behind_is_not_ready() {
    let mut cluster = with_a_row(2);
    cluster.query(1, "select pg_wal_replay_pause()").unwrap();
    cluster.insert(0, 2);
    assert!(cluster.ready(1), "it is not far behind yet");
    eventually("an instance that is not ready", || (!cluster.ready(1)).then_some(()));
    assert_eq!(cluster.alive(1), Ok(()));
    assert_eq!(cluster.query(1, ALL).as_deref(), Ok("1"));
    cluster.query(1, "select pg_wal_replay_resume()").unwrap();
    cluster.until_ready(1);
    assert_eq!(cluster.query(1, ALL).as_deref(), Ok("1 2"));
}

#[test]
fn a_replica_that_receives_nothing_from_a_primary_that_serves_is_not_ready() {
    let mut cluster = with_a_row(2);
    let hba = cluster.path("0/run/pg_hba.conf");
    let allowed = fs::read_to_string(&hba).unwrap();
    let reload = "select pg_reload_conf(), pg_terminate_backend(pid) from pg_stat_replication";
    fs::write(&hba, format!("host replication all all reject\n{allowed}")).unwrap();
    cluster.query(0, reload).unwrap();
    eventually("an instance that is not ready", || (!cluster.ready(1)).then_some(()));
    assert_eq!(cluster.alive(1), Ok(()));
    fs::write(&hba, allowed).unwrap();
    cluster.query(0, "select pg_reload_conf()").unwrap();
    cluster.until_ready(1);
}

#[test]
fn a_replica_compares_its_data_with_a_primary_that_comes_back() {
    let mut cluster = with_a_row(2);
    cluster.connect();
    for instance in [1, 0] {
        cluster.stop(instance);
    }
    cluster.save_data(0);
    for instance in [0, 1] {
        cluster.start(instance);
        cluster.until_ready(instance);
    }
    cluster.insert(0, 2);
    cluster.until(1, ALL, "1 2");
    // It comes back with an older volume, does not see the replica, and goes on to where that one is.
    cluster.cut(1, true);
    cluster.stop(0);
    cluster.recall_data(0);
    cluster.start(0);
    cluster.until_ready(0);
    for row in 3..9 {
        cluster.insert(0, row);
    }
    cluster.cut(1, false);
    let aside = "not following the primary, which does not have all of them";
    eventually("a replica that stands aside", || cluster.log(1).contains(aside).then_some(()));
    assert!(!cluster.ready(1));
    assert_eq!(cluster.query(1, ALL).as_deref(), Ok("1 2"));
    let log = cluster.log(1);
    assert!(!log.contains("starting again"), "it was restarted: {log}");
}

/// Programs that take for ever.
fn hang(cluster: &mut Cluster, programs: &[&str]) {
    let folder = cluster.path("hanging");
    fs::create_dir(&folder).unwrap();
    for program in fs::read_dir(&cluster.programs).unwrap() {
        let program = program.unwrap();
        let link = folder.join(program.file_name());
        if programs.iter().any(|name| program.file_name() == *name) {
            install(&link, "#!/bin/sh\nexec sleep 600\n");
        } else {
            symlink(program.path(), link).unwrap();
        }
    }
    cluster.programs = folder;
}

/// Ends an instance that has just logged this.
fn ends_within_seconds(cluster: &mut Cluster, instance: usize, logged: &str) {
    cluster.start(instance);
    eventually(logged, || cluster.log(instance).contains(logged).then_some(()));
    sleep(Duration::from_secs(1));
    assert!(cluster.runs(instance));
    let begin = Instant::now();
    cluster.stop(instance);
    eprintln!("{logged}: ended after {:.1?}", begin.elapsed());
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    // Nothing of it keeps the volume, and what it began is begun again.
    cluster.programs = FOLDER.clone();
    cluster.start(instance);
    cluster.until_ready(instance);
}

#[test]
fn an_instance_ends_while_it_makes_its_data() {
    let mut cluster = Cluster::of(0);
    hang(&mut cluster, &["initdb"]);
    cluster.size = 1;
    ends_within_seconds(&mut cluster, 0, "initializing a new database");

    let mut cluster = with_a_row(1);
    hang(&mut cluster, &["pg_basebackup"]);
    cluster.size = 2;
    ends_within_seconds(&mut cluster, 1, "copying the primary's data");
    cluster.until(1, ALL, "1");

    cluster.backup(1).unwrap();
    let mut restored = Cluster::of(0);
    restored.restore(&cluster, "latest");
    hang(&mut restored, &["pg_restore"]);
    ends_within_seconds(&mut restored, 0, "restoring the database");
    assert_eq!(restored.query(0, ALL).as_deref(), Ok("1"));
}

#[test]
fn one_process_uses_a_volume() {
    let mut cluster = with_a_row(1);
    let log = cluster.second(0);
    assert!(log.contains("another process uses this volume"), "{log}");
    assert_eq!(cluster.query(0, ALL).as_deref(), Ok("1"));
    cluster.stop(0);
}

#[test]
fn an_instance_without_free_connections_is_alive() {
    let cluster = with_a_row(1);
    let mut sleepers: Vec<_> =
        (0..100).map(|_| cluster.client_of(0, "select pg_sleep(600)")).collect();
    eventually("no connection", || {
        // One that was in use may be free again.
        sleepers.push(cluster.client_of(0, "select pg_sleep(600)"));
        let refusal = cluster.query(0, "select 1").err()?;
        refusal.contains("too many clients").then_some(())
    });
    assert_eq!(cluster.alive(0), Ok(()));
    assert!(cluster.ready(0));
    drop(sleepers);
}

#[test]
fn the_buffers_fit_the_memory_unless_a_person_sets_them() {
    let mut cluster = Cluster::of(1);
    let show = |cluster: &Cluster| {
        let settings = ["shared_buffers", "effective_cache_size"];
        settings.map(|name| cluster.query(0, &format!("show {name}")).unwrap())
    };
    let restart = |cluster: &mut Cluster| {
        cluster.stop(0);
        cluster.start(0);
        cluster.until_ready(0);
    };
    assert_eq!(show(&cluster), ["128MB", "384MB"]);
    cluster.memory = 400;
    restart(&mut cluster);
    assert_eq!(show(&cluster), ["100MB", "300MB"]);
    cluster.query(0, "alter system set shared_buffers = '64MB'").unwrap();
    restart(&mut cluster);
    assert_eq!(show(&cluster), ["64MB", "300MB"]);
}

#[test]
fn applications_have_a_role_and_a_database_of_their_own() {
    let mut cluster = Cluster::of(1);
    let app = |cluster: &Cluster, sql: &str| cluster.query_as("app", 0, "dbname=app", sql);
    app(&cluster, "create table t (x int)").unwrap();
    for refused in [
        "create role other",
        "select rolpassword from pg_authid",
        "select pg_read_file('postgresql.conf')",
        "alter system set work_mem = '5MB'",
        "copy t from program 'true'",
    ] {
        let refusal = app(&cluster, refused).unwrap_err();
        // From version 16 on it says which privileges are missing.
        let reasons = ["ermission denied", "must be superuser"];
        assert!(reasons.iter().any(|it| refusal.contains(it)), "{refused}: {refusal}");
    }

    // They are made once: whoever deletes the database does not want it.
    let databases = "select count(*) from pg_database where datname = 'app'";
    cluster.query(0, "drop database app").unwrap();
    cluster.set_password("6e6577");
    cluster.stop(0);
    cluster.start(0);
    cluster.until_ready(0);
    assert_eq!(cluster.query(0, databases).unwrap(), "0");

    // Nor does the role get a database that somebody else has.
    for sql in ["drop role app", "create role other", "create database app owner other"] {
        cluster.query(0, sql).unwrap();
    }
    cluster.stop(0);
    cluster.start(0);
    cluster.until_ready(0);
    assert!(app(&cluster, "select").is_ok());
    let owner = "select datdba::regrole from pg_database where datname = 'app'";
    assert_eq!(cluster.query(0, owner).unwrap(), "other");
}

#[test]
fn instances_ask_and_follow_each_other_without_a_superuser() {
    let cluster = with_a_row(2);
    let followers = "select string_agg(usename, ' ') from pg_stat_replication";
    assert_eq!(cluster.query(0, followers).unwrap(), "replicator");
    let replicator = |sql: &str| cluster.query_as("replicator", 0, "dbname=postgres", sql);
    for refused in ["insert into t values (2)", "create role other", "create database other"] {
        let refusal = replicator(refused).unwrap_err();
        assert!(refusal.contains("ermission denied"), "{refused}: {refusal}");
    }
    let replication = "dbname=postgres replication=true";
    cluster.query_as("replicator", 0, replication, "IDENTIFY_SYSTEM").unwrap();
    for role in ["app", "postgres"] {
        let refusal = cluster.query_as(role, 0, replication, "IDENTIFY_SYSTEM").unwrap_err();
        assert!(refusal.contains("no pg_hba.conf entry"), "{role}: {refusal}");
    }
}

#[test]
fn a_new_password_is_set_and_none_is_logged() {
    let mut cluster = Cluster::of(2);
    cluster.query(0, "alter system set log_statement = 'all'").unwrap();
    let old = cluster.password.clone();
    let chosen = r#"it's \ a:"b" $(c)"#;
    cluster.set_password(chosen);
    cluster.until(0, "select 1", "1");
    cluster.until(1, "select 1", "1");
    eventually("the role app with its new password", || {
        cluster.query_as("app", 1, "dbname=app", "select").ok()
    });
    // Instances that run have it, too.
    cluster.stop(1);
    cluster.start(1);
    cluster.until_ready(1);

    for instance in [1, 0] {
        cluster.stop(instance);
    }
    cluster.set_password("7265746f72");
    // The replica comes first, as a StatefulSet replaces its pods.
    cluster.start(1);
    sleep(Duration::from_secs(3));
    assert_eq!(cluster.alive(1), Ok(()));
    assert!(!cluster.ready(1));
    cluster.start(0);
    for instance in [0, 1] {
        cluster.until_ready(instance);
    }
    let new = std::mem::replace(&mut cluster.password, old.clone());
    let refusal = cluster.query(0, "select 1").unwrap_err();
    assert!(refusal.contains("password authentication failed"), "{refusal}");
    for log in [cluster.log(0), cluster.log(1)] {
        for password in [&*old, chosen, "it''s", &*new] {
            assert!(!log.contains(password), "{log}");
        }
    }
}
