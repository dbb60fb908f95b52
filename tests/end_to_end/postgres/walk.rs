//! A random walk over everything that happens to a cluster, while a client writes. No row is lost that a
//! volume had which is still there; so none that was acknowledged and replicated, unless both are gone.
//!
//! `OPCTL_WALK` is the number of steps (default: 12), chosen by `OPCTL_SEED`.

use std::collections::BTreeSet;
use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::postgres::cluster::{Cluster, Local, SmallVolume};
use crate::postgres::programs::is_root;
use crate::postgres::random::Random;
use crate::postgres::seed;

const INSTANCES: usize = 3;

/// Megabytes of each volume.
const VOLUME: usize = 600;

/// Seconds until a cluster without troubles has to be well.
const PATIENCE: u64 = 240;

type Rows = BTreeSet<u32>;

#[derive(Clone, Copy, Debug)]
enum Step {
    Kill(usize),
    Restart(usize),
    KillAll,
    Stop(usize),
    Cut(usize),
    LoseVolume(usize),
    Snapshot(usize),
    OldSnapshot(usize),
    FillDisk(usize),
    ChangePassword,
    Scale(usize),
    Recreate,
    Recycle,
    Rest,
}

fn step(random: &mut Random) -> Step {
    let instance = random.below(INSTANCES);
    match random.below(20) {
        0 | 1 => Step::Kill(instance),
        2 | 3 => Step::Restart(instance),
        4 => Step::KillAll,
        5 | 6 => Step::Stop(instance),
        7 | 8 => Step::Cut(instance),
        9 => Step::LoseVolume(instance),
        10 => Step::Snapshot(instance),
        11 => Step::OldSnapshot(instance),
        12 | 13 => Step::FillDisk(instance),
        14 => Step::ChangePassword,
        15 => Step::Scale(1 + instance),
        16 => Step::Recreate,
        17 | 18 => Step::Recycle,
        _ => Step::Rest,
    }
}

/// A client that inserts a row after another into whatever is the primary.
struct Writer {
    acknowledged: Arc<Mutex<Vec<u32>>>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    fn start(primary: Local) -> Self {
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let end = Arc::new(AtomicBool::new(false));
        let (shared, stop) = (Arc::clone(&acknowledged), Arc::clone(&end));
        let thread = thread::spawn(move || {
            let mut row = 0;
            while !stop.load(Ordering::SeqCst) {
                row += 1;
                // Whoever takes what is acknowledged waits for the insertion that is under way.
                let mut acknowledged = shared.lock().unwrap();
                if primary.query(&format!("insert into t values ({row})")).is_ok() {
                    acknowledged.push(row);
                }
                drop(acknowledged);
                sleep(Duration::from_millis(50));
            }
        });
        Self { acknowledged, end, thread: Some(thread) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end.store(true, Ordering::SeqCst);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[derive(Debug, Default)]
struct Figures {
    acknowledged: usize,
    /// Rows that went with the last volume that had them.
    gone_with_volumes: usize,
    /// Rows that a person did without: they are in data that were kept or stand aside.
    decided_away: usize,
    decisions: usize,
    new_clusters: usize,
    passwords: usize,
    /// The times that all was well again, and the longest that it took.
    healed: usize,
    longest: Duration,
}

struct Walk {
    writer: Writer,
    _volumes: Vec<SmallVolume>,
    cluster: Cluster,
    /// The rows that each volume has had, and its snapshot.
    rows: [Rows; INSTANCES],
    snapshots: [Option<Rows>; INSTANCES],
    /// The instances that shall run.
    stopped: BTreeSet<usize>,
    full: BTreeSet<usize>,
    /// Those of before, the latest last.
    passwords: Vec<String>,
    figures: Figures,
}

impl Walk {
    fn begin() -> Self {
        let mut cluster = Cluster::of(0);
        let volumes = if is_root() { 0..INSTANCES } else { 0..0 };
        let volume = |instance: usize| cluster.small_volume(&instance.to_string(), VOLUME);
        let volumes = volumes.map(volume).collect();
        cluster.connect();
        cluster.fill(INSTANCES);
        cluster.query(0, "create table t (x int)").unwrap();
        Self {
            writer: Writer::start(cluster.local(0)),
            _volumes: volumes,
            cluster,
            rows: Default::default(),
            snapshots: Default::default(),
            stopped: BTreeSet::new(),
            full: BTreeSet::new(),
            passwords: Vec::new(),
            figures: Figures::default(),
        }
    }

    /// What was acknowledged is on the volume of the primary.
    fn take_acknowledged(&mut self) {
        let rows = std::mem::take(&mut *self.writer.acknowledged.lock().unwrap());
        self.figures.acknowledged += rows.len();
        self.rows[0].extend(rows);
    }

    fn end(&mut self, instance: usize) {
        if self.cluster.runs(instance) {
            self.cluster.kill(instance);
        }
        self.cluster.forget(instance);
        self.take_acknowledged();
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Kill(instance) => self.end(instance),
            Step::Restart(instance) if self.cluster.runs(instance) => self.cluster.stop(instance),
            Step::Restart(_) | Step::Rest => {}
            Step::KillAll => (0..INSTANCES).for_each(|instance| self.end(instance)),
            Step::Stop(instance) => {
                self.end(instance);
                self.stopped.insert(instance);
            }
            Step::Cut(instance) => self.cluster.cut(instance, true),
            Step::LoseVolume(instance) => {
                self.end(instance);
                self.cluster.clear(instance);
                self.rows[instance].clear();
            }
            Step::Snapshot(instance) => {
                self.observe();
                self.end(instance);
                if self.cluster.has_data(instance) {
                    self.cluster.save_data(instance);
                    self.snapshots[instance] = Some(self.rows[instance].clone());
                }
            }
            Step::OldSnapshot(instance) => {
                if let Some(rows) = self.snapshots[instance].clone() {
                    self.end(instance);
                    if self.full.remove(&instance) {
                        self.cluster.free_volume(instance); // the older volume is another one
                    }
                    self.cluster.recall_data(instance);
                    self.rows[instance] = rows;
                }
            }
            Step::FillDisk(instance) => {
                if is_root() && self.full.insert(instance) {
                    self.cluster.fill_volume(instance, 0);
                }
            }
            Step::ChangePassword => {
                self.passwords.push(self.cluster.password.clone());
                let password = format!("70617373{}", self.passwords.len());
                self.cluster.set_password(&password);
            }
            Step::Scale(size) => {
                self.cluster.size = size;
                (size..INSTANCES).for_each(|instance| self.end(instance));
            }
            Step::Recreate => {
                (0..INSTANCES).for_each(|instance| self.end(instance));
                self.cluster.size = INSTANCES;
                self.cluster.restore_from.clear();
            }
            Step::Recycle => {
                for sql in ["select pg_switch_wal()", "checkpoint"] {
                    let _ = self.cluster.local(0).query(sql); // it may not run
                }
            }
        }
    }

    /// As kubelet and the StatefulSet controller do.
    fn start_what_has_ended(&mut self) {
        for instance in 0..self.cluster.size {
            if !self.stopped.contains(&instance) && !self.cluster.runs(instance) {
                self.cluster.forget(instance);
                self.cluster.start(instance);
            }
        }
    }

    /// The rows that an instance has, if it answers. Only the primary can be written to.
    fn rows_of(&self, instance: usize) -> Option<Rows> {
        let local = self.cluster.local(instance);
        let answer = local
            .query("select pg_is_in_recovery(), coalesce(string_agg(x::text, ' '), '') from t");
        let answer = answer.ok()?;
        let (in_recovery, rows) = answer.split_once('|').unwrap();
        assert!(instance == 0 || in_recovery == "t", "instance {instance} can be written to");
        Some(rows.split_whitespace().map(|row| row.parse().unwrap()).collect())
    }

    fn observe(&mut self) {
        self.take_acknowledged();
        for instance in 0..INSTANCES {
            if self.cluster.runs(instance)
                && let Some(rows) = self.rows_of(instance)
            {
                self.rows[instance].extend(rows);
            }
        }
    }

    /// Ends all troubles, decides what a person has to, and waits until all is well.
    fn heal(&mut self) {
        let begin = Instant::now();
        for instance in std::mem::take(&mut self.full) {
            self.cluster.free_volume(instance);
        }
        for instance in 0..INSTANCES {
            self.cluster.cut(instance, false);
        }
        self.stopped.clear();
        self.cluster.size = INSTANCES;
        // Those that ran know the size of before.
        (0..INSTANCES).for_each(|instance| self.end(instance));
        let mut logged = [(); INSTANCES].map(|()| 0);
        for (instance, length) in logged.iter_mut().enumerate() {
            *length = self.cluster.log_length(instance);
        }
        let mut aside = BTreeSet::new();
        loop {
            self.start_what_has_ended();
            sleep(Duration::from_millis(200));
            let ready = |instance: &usize| self.cluster.ready(*instance);
            let waiting: Vec<_> = (0..INSTANCES).filter(|instance| !ready(instance)).collect();
            if waiting.iter().all(|instance| *instance != 0 && aside.contains(instance)) {
                break;
            }
            for instance in waiting {
                let log = self.cluster.log_from(instance, &mut logged[instance]);
                if instance == 0 {
                    self.decide(&log);
                } else if log.contains("not following the primary") {
                    aside.insert(instance);
                }
            }
            let late = begin.elapsed() > Duration::from_secs(PATIENCE);
            assert!(!late, "it is not well, with {:?}", self.figures);
        }
        self.cluster.restore_from.clear();
        self.figures.healed += 1;
        self.figures.longest = self.figures.longest.max(begin.elapsed());
        self.nothing_is_lost();
        for instance in aside {
            // A person has what they need of it.
            self.end(instance);
            self.cluster.clear(instance);
            self.rows[instance].clear();
        }
    }

    /// The decision that the primary asks for.
    fn decide(&mut self, log: &str) {
        let after = |text: &str| {
            let rest = &log[log.rfind(text)? + text.len()..];
            rest.chars().next().map(String::from)
        };
        if log.contains("the data are lost, and there is no other instance") {
            assert!(self.rows.iter().all(Rows::is_empty), "there is a volume with data");
        }
        if let Some(instance) = after("set restoreFrom to the instance to use, one of ") {
            self.cluster.restore_from = instance;
            self.figures.decisions += 1;
        } else if log.contains("have data of different clusters") {
            self.cluster.restore_from = after("instances ").unwrap();
            self.figures.decisions += 1;
        } else if log.contains("refuse the password") {
            // The primary had no time to set it, and now it has no data. The replicas may have different
            // ones, if one of them is old: a person takes the data of the other with its password.
            let other = if self.rows[1].len() < self.rows[2].len() { 2 } else { 1 };
            self.cluster.restore_from = other.to_string();
            self.older_password();
        } else if log.contains("pg_basebackup: error")
            && log.contains("password authentication failed")
        {
            self.older_password();
        } else if log.contains("the data are lost, and") && self.nobody_has_data() {
            // There are no data of which a person could make use.
            self.new_cluster();
        } else if let Some(missing) = after("the data are lost, and instances ")
            && !self.cluster.has_data(missing.parse().unwrap())
        {
            // A replica without data waits for the primary, which waits for it: a person takes the other.
            let has_data = |instance: &usize| self.cluster.has_data(*instance);
            self.cluster.restore_from = (1..INSTANCES).find(has_data).unwrap().to_string();
            self.figures.decisions += 1;
        }
    }

    fn older_password(&mut self) {
        self.figures.passwords += 1;
        // Whoever is asked next may need the one that was refused here.
        self.passwords.insert(0, self.cluster.password.clone());
        let before = self.passwords.pop().expect("one of them should be right");
        self.cluster.set_password(&before);
    }

    fn nobody_has_data(&self) -> bool {
        (0..INSTANCES).all(|instance| !self.cluster.has_data(instance))
    }

    fn new_cluster(&mut self) {
        let gone: Rows = self.rows.iter().flatten().copied().collect();
        assert!(gone.is_empty(), "rows are gone though their volume is not: {gone:?}");
        (0..INSTANCES).for_each(|instance| self.end(instance));
        self.figures.new_clusters += 1;
        self.snapshots = Default::default();
        self.cluster.initialized = false;
        self.cluster.start(0);
        self.cluster.until_ready(0);
        self.cluster.initialized = true;
        self.cluster.local(0).query("create table t (x int)").unwrap();
    }

    /// Whatever a volume had is on a volume, perhaps in data that were kept.
    fn nothing_is_lost(&mut self) {
        self.observe();
        let now: Vec<_> = (0..INSTANCES).map(|instance| self.rows_of(instance)).collect();
        let found: Rows = now.iter().flatten().flatten().copied().collect();
        let all: Rows = self.rows.iter().flatten().copied().collect();
        let mut missing: Rows = all.difference(&found).copied().collect();
        if !missing.is_empty() {
            self.figures.decided_away += missing.len();
            for rows in self.cluster.kept_rows() {
                missing.retain(|row| !rows.contains(row));
            }
        }
        assert!(missing.is_empty(), "rows are lost: {missing:?}, {:?}", self.figures);
        for (instance, rows) in now.into_iter().enumerate() {
            // A person deletes what was kept, so that the volume does not grow full.
            self.cluster.delete_kept(instance);
            self.rows[instance] = rows.unwrap_or_default();
        }
    }
}

#[test]
fn nothing_is_lost_on_a_random_walk() {
    let steps = env::var("OPCTL_WALK").map_or(12, |steps| steps.parse().unwrap());
    let mut random = seed::random();
    let mut walk = Walk::begin();
    for number in 1..=steps {
        let step = step(&mut random);
        eprintln!("{number}: {step:?}");
        let before: Rows = walk.rows.iter().flatten().copied().collect();
        walk.take(step);
        let after: Rows = walk.rows.iter().flatten().copied().collect();
        walk.figures.gone_with_volumes += before.difference(&after).count();
        walk.start_what_has_ended();
        sleep(Duration::from_millis(random.below(1500) as u64));
        walk.start_what_has_ended();
        walk.observe();
        if random.below(8) == 0 || number == steps {
            walk.heal();
            eprintln!("healed: {:?}", walk.figures);
        }
    }
}
