//! Kills before, while and after each program of the scripts runs, and starts on a full disk: nothing that
//! was there is lost, and the next start heals what is left.
//!
//! `OPCTL_KILLS=all` runs all of them, else so many in each situation (default: 1), chosen by `OPCTL_SEED`.

use std::env;
use std::fs;
use std::time::{Duration, Instant};

use crate::postgres::cluster::{Cluster, SmallVolume};
use crate::postgres::killed::Kill;
use crate::postgres::programs::is_root;
use crate::postgres::seed;
use crate::postgres::{ALL, TABLE};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Situation {
    FirstStart,
    Restore,
    Restart,
    RestartOfReplica,
    NewReplica,
    ReplicaBehind,
    LostPrimary,
    Decision,
}

use Situation::{
    Decision, FirstStart, LostPrimary, NewReplica, ReplicaBehind, Restart, RestartOfReplica,
    Restore,
};

/// A cluster in a situation, to which it can be brought back.
struct Stage {
    /// That of the instance, where it is so small that it can be filled. It goes first.
    _volume: Option<SmallVolume>,
    situation: Situation,
    cluster: Cluster,
    /// Another cluster with a dump.
    _other: Option<Cluster>,
    /// The instance that is killed.
    instance: usize,
    rows: u32,
}

/// Megabytes of a volume that can be filled.
const SMALL: usize = 150;

impl Stage {
    fn new(situation: Situation, small: bool) -> Self {
        let instance = match situation {
            RestartOfReplica | NewReplica | ReplicaBehind => 1,
            FirstStart | Restore | Restart | LostPrimary | Decision => 0,
        };
        let mut cluster = Cluster::of(0);
        let volume = small.then(|| cluster.small_volume(&instance.to_string(), SMALL));
        cluster.make_volume(instance);
        let mut other = None;
        match situation {
            FirstStart => cluster.size = 1,
            Restore => {
                let source = Cluster::of(1);
                source.query(0, TABLE).unwrap();
                source.query(0, "insert into t values (1), (2)").unwrap();
                source.query(0, "create database \"a b\"").unwrap();
                source.backup(1).unwrap();
                cluster.restore(&source, "latest");
                other = Some(source);
            }
            _ => {
                cluster.fill(2);
                cluster.query(0, TABLE).unwrap();
                cluster.query(0, "insert into t values (1)").unwrap();
                cluster.until(1, ALL, "1");
            }
        }
        let mut stage =
            Self { _volume: volume, situation, cluster, _other: other, instance, rows: 1 };
        stage.arrange();
        stage
    }

    /// Brings the cluster to the situation for the first time.
    fn arrange(&mut self) {
        let cluster = &mut self.cluster;
        match self.situation {
            ReplicaBehind => {
                cluster.stop(1);
                cluster.insert(0, 2);
                cluster.recycle_wal();
                cluster.save_data(1);
            }
            Decision => {
                cluster.promote_with_more();
                cluster.stop(1);
                cluster.save_data(0);
                cluster.save_data(1);
                cluster.restore_from = "1".to_owned();
            }
            FirstStart | Restore | Restart | RestartOfReplica | NewReplica | LostPrimary => {}
        }
        match self.situation {
            FirstStart => {}
            Restore | ReplicaBehind | Decision => self.rows = 2,
            _ => self.rows = 1,
        }
    }

    /// Brings the cluster back to the situation, with the instance stopped.
    fn reset(&mut self) {
        let cluster = &mut self.cluster;
        cluster.kill = None;
        if cluster.runs(self.instance) {
            cluster.kill(self.instance);
        }
        match self.situation {
            FirstStart | Restore | NewReplica => cluster.clear(self.instance),
            Restart | RestartOfReplica => {}
            ReplicaBehind => cluster.recall_data(1),
            LostPrimary => cluster.clear(0),
            Decision => {
                if cluster.runs(1) {
                    cluster.kill(1);
                }
                cluster.recall_data(0);
                cluster.recall_data(1);
                cluster.start(1);
                cluster.until(1, ALL, "1 2");
            }
        }
    }

    fn all(&self) -> String {
        let rows: Vec<_> = (1..=self.rows).map(|row| row.to_string()).collect();
        rows.join(" ")
    }

    /// Starts the instance, and returns whether a kill or a full disk has ended it.
    fn start(&mut self, kill: &Kill) -> bool {
        self.cluster.kill = Some(kill.clone());
        self.cluster.start(self.instance);
        self.cluster.kill = None;
        let mut end = Instant::now() + Duration::from_secs(20);
        let mut was_ready = false;
        while Instant::now() < end && self.cluster.runs(self.instance) {
            if !was_ready && self.cluster.ready(self.instance) {
                was_ready = true;
                end = Instant::now() + Duration::from_secs(2);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        !self.cluster.runs(self.instance)
    }

    /// Starts the instance again: all is well, and nothing is lost.
    fn heals(&mut self) {
        if self.cluster.runs(self.instance) {
            self.cluster.kill(self.instance);
        }
        self.cluster.start(self.instance);
        self.cluster.until_ready(self.instance);
        if self.situation == FirstStart {
            let table = "create table t (x int)";
            self.cluster.query_as("app", 0, "dbname=app", table).unwrap();
            return;
        }
        assert_eq!(self.cluster.query(self.instance, ALL).unwrap(), self.all());
        if self.situation != Restore {
            self.cluster.until_ready(1);
            self.cluster.until(1, ALL, &self.all());
            let refusal = self.cluster.query(1, "insert into t values (0)").unwrap_err();
            assert!(refusal.contains("read-only transaction"), "{refusal}");
            if matches!(self.situation, Restart | RestartOfReplica | NewReplica | LostPrimary) {
                self.rows += 1;
                self.cluster.insert(0, self.rows);
                self.cluster.until(1, ALL, &self.all());
            }
        }
        // What made way is there still.
        let kept = self.cluster.volume(self.instance);
        let kept = kept.iter().filter(|name| name.starts_with("data.kept.")).count();
        let expected = usize::from(matches!(self.situation, ReplicaBehind | Decision));
        assert_eq!(kept, expected, "{:?}", self.cluster.volume(self.instance));
    }
}

/// When a call is killed: those that take a while, at several moments.
fn moments(program: &str) -> &'static [&'static str] {
    match program {
        "initdb" | "postgres" | "pg_basebackup" | "pg_restore" | "pg_dump" | "pg_dumpall" => {
            &["before", "0.02", "0.1", "0.3", "0.8", "after"]
        }
        _ => &["before", "0.003", "after"],
    }
}

/// The trials that are run, in their order.
fn chosen<T>(mut trials: Vec<T>) -> Vec<T> {
    let count = match env::var("OPCTL_KILLS").as_deref() {
        Ok("all") => return trials,
        Ok(count) => count.parse().expect("OPCTL_KILLS should be `all` or a number"),
        Err(_) => 1,
    };
    let mut random = seed::random();
    while trials.len() > count {
        trials.remove(random.below(trials.len()));
    }
    trials
}

/// The kills of a script that calls these programs.
fn kills(calls: &[String]) -> Vec<(&str, Kill)> {
    let calls = calls.iter().enumerate();
    let kills = calls.flat_map(|(call, program)| {
        let kill = move |&when| (&**program, Kill { call: call + 1, when });
        moments(program).iter().map(kill)
    });
    chosen(kills.collect())
}

fn sweep(situation: Situation) {
    let mut stage = Stage::new(situation, false);
    stage.reset();
    stage.start(&Kill::NEVER);
    let calls = stage.cluster.calls(stage.instance);
    assert!(calls.len() > 5, "{calls:?}");
    stage.heals();
    let (trials, mut killed) = (kills(&calls), 0);
    for (program, kill) in &trials {
        eprintln!("{situation:?}: {program}, call {}: {}", kill.call, kill.when);
        stage.reset();
        killed += usize::from(stage.start(kill));
        stage.heals();
    }
    eprintln!("{situation:?}: {} starts, {killed} of them killed", trials.len());
}

fn sweep_full_disk(situation: Situation) {
    if !is_root() {
        return; // only root can make a small volume
    }
    let mut stage = Stage::new(situation, true);
    let (trials, mut failed) = (chosen(vec![0, 1, 2, 4, 8, 12, 16, 20, 24, 32, 40, 48]), 0);
    for free in &trials {
        eprintln!("{situation:?}: {free} MB are free");
        stage.reset();
        stage.cluster.fill_volume(stage.instance, *free);
        failed += usize::from(stage.start(&Kill::NEVER));
        stage.cluster.free_volume(stage.instance);
        stage.heals();
    }
    eprintln!("{situation:?}: {} full disks, {failed} of them ended it", trials.len());
}

macro_rules! situations {
    ($($name:ident, $full:ident: $situation:expr;)*) => {$(
        #[test]
        fn $name() {
            sweep($situation);
        }

        #[test]
        fn $full() {
            sweep_full_disk($situation);
        }
    )*};
}

situations! {
    first_start, first_start_on_a_full_disk: FirstStart;
    restore, restore_on_a_full_disk: Restore;
    restart, restart_on_a_full_disk: Restart;
    restart_of_a_replica, restart_of_a_replica_on_a_full_disk: RestartOfReplica;
    new_replica, new_replica_on_a_full_disk: NewReplica;
    replica_behind, replica_behind_on_a_full_disk: ReplicaBehind;
    lost_primary, lost_primary_on_a_full_disk: LostPrimary;
    decision, decision_on_a_full_disk: Decision;
}

/// Whatever a backup leaves, no dump that was complete is gone, and none that is not complete looks so.
#[test]
fn backup() {
    let cluster = Cluster::of(1);
    cluster.query(0, "create table t as select generate_series(1, 1000) as x").unwrap();
    cluster.query(0, "create database \"a b\"").unwrap();
    for _ in 0..2 {
        cluster.backup(2).unwrap();
    }
    let calls = cluster.backup_killed(2, &Kill::NEVER);
    let trials = kills(&calls);
    for (program, kill) in &trials {
        eprintln!("backup: {program}, call {}: {}", kill.call, kill.when);
        let before = cluster.backups();
        cluster.backup_killed(2, kill);
        let after = cluster.backups();
        assert!(after.len() >= 2, "{after:?}");
        assert!(after.contains(&before[1]), "the last good dump: {before:?} {after:?}");
        for dump in after {
            let list = fs::read_to_string(dump.join("databases")).unwrap();
            assert_eq!(list.lines().count(), 4, "{list}");
            for line in list.lines() {
                cluster.list(&dump.join(format!("{}.dump", line.split_once(' ').unwrap().0)));
            }
        }
        cluster.backup(2).unwrap();
        assert_eq!(cluster.backups().len(), 2);
    }
    eprintln!("backup: {} kills", trials.len());
}
