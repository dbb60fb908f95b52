//! Encryption.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::postgres::cluster::{Cluster, eventually};
use crate::postgres::{ALL, TABLE, with_a_row};

/// Whether all connections of replicas are encrypted, and how many there are.
const REPLICATION: &str =
    "select bool_and(ssl), count(*) from pg_stat_replication join pg_stat_ssl using (pid)";

const STARTED: &str = "select pg_postmaster_start_time()";

/// A connection as the Secret of applications has it, with the CA in a directory.
fn uri(cluster: &Cluster, host: &str, tls: &str, more: &str) -> String {
    let (password, port) = (cluster.password_of("app"), cluster.port(0));
    let ca = cluster.path(tls).join("ca.crt");
    format!(
        "postgresql://app:{password}@{host}:{port}/app?sslmode=require\
         &hostaddr=127.0.0.1&sslrootcert={}{more}",
        ca.display()
    )
}

fn connects(cluster: &Cluster, uri: &str) -> Result<String, String> {
    let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    cluster.query_as("app", 0, uri, sql)
}

const VERIFIED: &str = "&sslmode=verify-full";

#[test]
fn clients_encrypt_and_may_verify_whom_they_talk_to() {
    let cluster = with_a_row(3);
    for host in ["shop-rw.a.svc", "shop-0.shop-instances", "shop-replica-1.shop-instances"] {
        let connected = connects(&cluster, &uri(&cluster, host, "tls", VERIFIED));
        assert_eq!(connected.as_deref(), Ok("t"), "{host}");
    }
    let refused =
        |host, tls, more| connects(&cluster, &uri(&cluster, host, tls, more)).unwrap_err();
    let why = refused("other-rw.a.svc", "tls", VERIFIED);
    assert!(why.contains("does not match host name"), "{why}");
    cluster.make_certificate("other");
    let why = refused("shop-rw.a.svc", "other", VERIFIED);
    assert!(why.contains("certificate verify failed"), "{why}");
    let why = refused("shop-rw.a.svc", "tls", "&sslmode=disable");
    assert!(why.contains("no encryption"), "{why}");
}

#[test]
fn instances_encrypt_what_they_send_to_each_other() {
    let mut cluster = with_a_row(3);
    assert_eq!(cluster.query(0, REPLICATION).unwrap(), "t|2");
    let follows = cluster.query(1, "select conninfo from pg_stat_wal_receiver").unwrap();
    assert!(follows.contains("sslmode=verify-ca"), "{follows}");
    for is_required in [true, false] {
        cluster.requires_tls = is_required;
        cluster.stop(0);
        cluster.start(0);
        cluster.until_ready(0);
        for database in ["dbname=postgres", "dbname=postgres replication=true"] {
            let plain = format!("{database} sslmode=disable");
            let refusal = cluster.query_as("replicator", 0, &plain, "show work_mem").unwrap_err();
            assert!(refusal.contains("no encryption"), "{refusal}");
        }
        let plain = connects(&cluster, "dbname=app sslmode=disable");
        assert_eq!(plain.is_err(), is_required, "{plain:?}");
        assert_eq!(connects(&cluster, "dbname=app").as_deref(), Ok("t"));
    }

    // Another server that has the name of the primary does not get the password.
    cluster.stop(1);
    cluster.make_certificate("other");
    cluster.tls = "other";
    cluster.start(1);
    cluster.until(1, ALL, "1");
    sleep(Duration::from_secs(3));
    assert!(!cluster.ready(1));
    let log = cluster.log(1);
    assert_eq!(log.matches("cannot verify the primary: ").count(), 1, "{log}");
    assert_eq!(cluster.query(0, REPLICATION).unwrap(), "t|1");
}

#[test]
fn a_renewed_certificate_is_served_without_a_restart() {
    let mut cluster = with_a_row(2);
    let started = [0, 1].map(|instance| cluster.query(instance, STARTED).unwrap());
    let old = fs::read_to_string(cluster.path("tls/ca.crt")).unwrap();
    let key = fs::read_to_string(cluster.path("tls/tls.key")).unwrap();
    cluster.make_certificate("tls");
    let new =
        |cluster: &Cluster| connects(cluster, &uri(cluster, "shop-rw.a.svc", "tls", VERIFIED)).ok();
    eventually("client that trusts the new authority", || new(&cluster));
    cluster.folder("old");
    cluster.write_secret("old/ca.crt", &old);
    let before = uri(&cluster, "shop-rw.a.svc", "old", VERIFIED);
    connects(&cluster, &before).unwrap_err();

    // The replicas verify it.
    cluster.query(0, "select pg_terminate_backend(pid) from pg_stat_replication").unwrap();
    cluster.until(0, REPLICATION, "t|1");
    cluster.insert(0, 2);
    cluster.until(1, ALL, "1 2");

    // A key that does not fit is not used.
    let new_key = fs::read_to_string(cluster.path("tls/tls.key")).unwrap();
    cluster.write_secret("tls/tls.key", &key);
    eventually("complaint", || cluster.log(0).contains("key values mismatch").then_some(()));
    assert!(new(&cluster).is_some());
    cluster.write_secret("tls/tls.key", &new_key);
    assert_eq!([0, 1].map(|instance| cluster.query(instance, STARTED).unwrap()), started);
}

#[test]
fn a_cluster_from_before_encryption_is_updated() {
    let mut cluster = Cluster::of(0);
    (cluster.is_old, cluster.verifies, cluster.requires_tls) = (true, false, false);
    cluster.fill(3);
    cluster.query(0, TABLE).unwrap();
    cluster.insert(0, 1);
    assert_eq!(cluster.query(0, REPLICATION).unwrap(), "f|2");
    assert_eq!(connects(&cluster, "dbname=app").as_deref(), Ok("f"));

    // A replica comes first, then the primary, while another replica is as it was.
    cluster.is_old = false;
    for (instance, expected) in [(1, "f|2"), (0, "t|2"), (2, "t|2")] {
        cluster.stop(instance);
        cluster.start(instance);
        cluster.until_ready(instance);
        cluster.until(0, REPLICATION, expected);
        assert!(connects(&cluster, "dbname=app sslmode=disable").is_ok());
    }
    cluster.insert(0, 2);
    for replica in [1, 2] {
        cluster.until(replica, ALL, "1 2");
    }
}

#[test]
fn a_certificate_of_another_authority_is_rolled_out() {
    let mut cluster = with_a_row(2);
    cluster.make_certificate("other");
    (cluster.tls, cluster.verifies) = ("other", false);
    for instance in [1, 0] {
        cluster.stop(instance);
        cluster.start(instance);
        cluster.until_ready(instance);
        cluster.until(0, REPLICATION, "t|1");
    }
    let verified = uri(&cluster, "shop-rw.a.svc", "other", VERIFIED);
    assert_eq!(connects(&cluster, &verified).as_deref(), Ok("t"));
    cluster.verifies = true;
    cluster.stop(1);
    cluster.start(1);
    cluster.until_ready(1);
    cluster.until(0, REPLICATION, "t|1");
}
