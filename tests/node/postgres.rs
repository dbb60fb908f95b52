//! PostgresCluster: reads, writes, replicates, is backed up, and keeps what it has acknowledged when its
//! primary's pod or volume goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crate::cluster::{Cluster, condition, text};
use crate::wait::{eventually, timed};

const NAME: &str = "postgrescluster-sample";
const PRIMARY: &str = "postgrescluster-sample-0";
const READ_WRITE: &str = "postgrescluster-sample-rw";
const READ_ONLY: &str = "postgrescluster-sample-ro";
const INSTANCES: usize = 3;

pub fn work(cluster: &Cluster) {
    settled(cluster, "new cluster");
    query(cluster, READ_WRITE, "create table t (n int)").unwrap();
    query(cluster, READ_WRITE, "insert into t values (0)").unwrap();
    replicated(cluster, &[0]);
    let refusal = query(cluster, &host(1), "insert into t values (-1)").unwrap_err();
    assert!(refusal.contains("read-only transaction"), "{refusal}");
    assert_eq!(query(cluster, READ_ONLY, "select n from t").as_deref(), Ok("0"));
    is_encrypted(cluster);
    is_backed_up(cluster);
    let acknowledged = the_primary_goes_under_a_writer(cluster);
    replicated(cluster, &acknowledged);
    the_primary_loses_its_volume(cluster);
    replicated(cluster, &acknowledged);
    query(cluster, READ_WRITE, "delete from t").unwrap();
    replicated(cluster, &[]);
}

/// Waits until the operator says that all is well.
fn settled(cluster: &Cluster, what: &str) {
    timed(&format!("{what} ready"), || {
        eventually(&format!("{what} that is ready"), || {
            let object = cluster.get(&["postgrescluster", NAME]);
            match condition(&object, "Ready") {
                "True" => Ok(()),
                _ => Err(object["status"]["conditions"].to_string()),
            }
        });
    });
}

/// The answer to a client in a pod, with the password of the Secret.
fn query(cluster: &Cluster, host: &str, sql: &str) -> Result<String, String> {
    let verified = format!("{host} sslmode=verify-full sslrootcert=/run/tls/ca.crt");
    query_with(cluster, &verified, sql)
}

fn query_with(cluster: &Cluster, server: &str, sql: &str) -> Result<String, String> {
    let pod = pod(INSTANCES - 1);
    let template = "go-template={{.data.password | base64decode}}";
    let password = cluster.ok(&["get", "secret", &format!("{NAME}-superuser"), "-o", template]);
    let password = format!("PGPASSWORD={password}");
    let database = format!("user=postgres connect_timeout=2 host={server}");
    let psql = ["psql", "--no-psqlrc", "--tuples-only", "--no-align", "--quiet", "-c", sql];
    let client = [&["exec", &pod, "--", "env", &password], &psql[..], &["-d", &database]];
    let output = cluster.kubectl(&client.concat());
    match output.status.success() {
        true => Ok(text(&output.stdout).trim().to_owned()),
        false => Err(text(&output.stderr)),
    }
}

/// The pod of an instance.
fn pod(instance: usize) -> String {
    match instance {
        0 => PRIMARY.to_owned(),
        _ => format!("{NAME}-replica-{instance}"),
    }
}

/// The name of an instance.
fn host(instance: usize) -> String {
    format!("{}.{NAME}-instances", pod(instance))
}

fn rows(cluster: &Cluster, instance: usize) -> Result<Vec<usize>, String> {
    let rows = query(cluster, &host(instance), "select n from t order by n")?;
    rows.lines().map(|row| row.parse().map_err(|_| rows.clone())).collect()
}

/// Waits until every instance has the rows.
fn replicated(cluster: &Cluster, expected: &[usize]) {
    for instance in 0..INSTANCES {
        eventually(&format!("rows of instance {instance}"), || match rows(cluster, instance) {
            Ok(rows) if expected.iter().all(|row| rows.contains(row)) => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
}

/// Each query verifies the certificate of the operator. The replicas do, too.
fn is_encrypted(cluster: &Cluster) {
    let followers =
        "select bool_and(ssl), count(*) from pg_stat_replication join pg_stat_ssl using (pid)";
    assert_eq!(query(cluster, READ_WRITE, followers).as_deref(), Ok("t|2"));
    let plain = format!("{READ_WRITE} sslmode=disable");
    let refusal = query_with(cluster, &plain, "select").unwrap_err();
    assert!(refusal.contains("no encryption"), "{refusal}");
}

fn is_backed_up(cluster: &Cluster) {
    let cron_job = format!("cronjob/{NAME}-backup");
    cluster.ok(&["create", "job", "backup", "--from", &cron_job]);
    timed("backup", || {
        eventually("backup", || {
            let log = text(&cluster.kubectl(&["logs", "job/backup"]).stdout);
            log.contains("dumped all databases").then_some(()).ok_or(log)
        });
    });
    cluster.ok(&["wait", "--for=condition=Complete", "--timeout=30s", "job/backup"]);
}

/// Returns what was acknowledged.
fn the_primary_goes_under_a_writer(cluster: &Cluster) -> Vec<usize> {
    let done = Arc::new(AtomicBool::new(false));
    let count = Arc::new(AtomicUsize::new(0));
    let (writer, is_done, counter) = (cluster.clone(), done.clone(), count.clone());
    let writer = thread::spawn(move || {
        let (mut acknowledged, mut attempts) = (Vec::new(), 0);
        while !is_done.load(Ordering::Relaxed) {
            attempts += 1;
            if query(&writer, READ_WRITE, &format!("insert into t values ({attempts})")).is_ok() {
                acknowledged.push(attempts);
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
        (acknowledged, attempts)
    });
    let written = |more: usize| {
        let goal = count.load(Ordering::Relaxed) + more;
        eventually("writes", || match count.load(Ordering::Relaxed) {
            count if count >= goal => Ok(()),
            count => Err(format!("{count} of {goal}")),
        });
    };
    written(5);
    cluster.ok(&["delete", "pod", PRIMARY, "--wait=false"]);
    let begin = Instant::now();
    written(2); // may be those that were under way
    written(5);
    eprintln!("the primary writes {:.1?} after its pod was deleted", begin.elapsed());
    settled(cluster, "cluster without a primary");
    done.store(true, Ordering::Relaxed);
    let (acknowledged, attempts) = writer.join().unwrap();
    eprintln!("{} of {attempts} writes acknowledged", acknowledged.len());
    acknowledged
}

fn the_primary_loses_its_volume(cluster: &Cluster) {
    let claim = format!("data-{PRIMARY}");
    let volume = cluster.get(&["persistentvolumeclaim", &claim])["spec"]["volumeName"].take();
    cluster.ok(&["delete", "pvc", &claim, "--wait=false"]);
    cluster.ok(&["delete", "pod", PRIMARY]);
    eventually("another volume", || {
        let next = cluster.get(&["persistentvolumeclaim", &claim])["spec"]["volumeName"].take();
        (next.is_string() && next != volume).then_some(()).ok_or_else(|| next.to_string())
    });
    settled(cluster, "cluster with an empty volume of the primary");
}
