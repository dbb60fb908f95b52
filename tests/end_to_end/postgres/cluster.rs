//! A cluster whose pods are processes, and whose Services are ports.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use tempfile::TempDir;

use crate::operator::cluster::{free_port, text};
use crate::postgres::killed::Kill;
use crate::postgres::network::Link;
use crate::postgres::programs::{FOLDER, USER, command};

const INSTANCES: usize = 3;

/// How far a replica that is ready may be behind.
pub const BOUND: Duration = Duration::from_secs(3);

pub struct Cluster {
    folder: TempDir,
    pub programs: PathBuf,
    pub password: String,
    /// How many instances there are, as the operator tells them.
    pub size: usize,
    /// Whether the operator knows that the cluster has data.
    pub initialized: bool,
    /// The decision of a person.
    pub restore_from: String,
    /// The memory of each instance, in MiB.
    pub memory: u32,
    /// The directory with the certificate of the instances that are started next.
    pub tls: &'static str,
    pub requires_tls: bool,
    pub verifies: bool,
    /// Whether the instances that are started next are from before they could encrypt.
    pub is_old: bool,
    /// What the data of a new cluster are made from.
    dump: String,
    backups: PathBuf,
    /// When the scripts are killed that are started next.
    pub kill: Option<Kill>,
    ports: [u16; INSTANCES],
    /// From each instance to each, if they are not connected directly.
    links: Vec<Vec<Link>>,
    processes: [Option<Child>; INSTANCES],
}

impl Cluster {
    /// A cluster with so many instances that are ready.
    pub fn of(size: usize) -> Self {
        Self::with(&FOLDER, size)
    }

    /// The same with the programs of another version.
    pub fn with(programs: &Path, size: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut cluster = Self {
            folder,
            programs: programs.to_owned(),
            password: String::new(),
            size: 0,
            initialized: false,
            restore_from: String::new(),
            memory: 512,
            tls: "tls",
            requires_tls: true,
            verifies: true,
            is_old: false,
            dump: String::new(),
            backups: PathBuf::new(),
            kill: None,
            links: Vec::new(),
            ports: [(); INSTANCES].map(|()| free_port()),
            processes: [const { None }; INSTANCES],
        };
        cluster.render();
        cluster.folder("passwords");
        cluster.set_password("70617373776f7264");
        cluster.make_certificate("tls");
        cluster.folder("backups");
        for instance in 0..INSTANCES {
            cluster.make_volume(instance);
        }
        cluster.fill(size);
        cluster
    }

    /// What the operator's Secrets have, and the volumes of instances follow.
    pub fn set_password(&mut self, password: &str) {
        password.clone_into(&mut self.password);
        for role in ["postgres", "replicator", "app"] {
            fs::write(self.path(&format!("passwords/{role}")), self.password_of(role)).unwrap();
        }
    }

    /// Has a directory hold a new certificate, of a new authority, as the operator makes it.
    pub fn make_certificate(&self, name: &str) {
        self.folder(name);
        let hosts = ["shop-rw.a.svc", "*.shop-instances"].map(str::to_owned);
        let (mut authority, key) =
            (CertificateParams::new(vec![]).unwrap(), KeyPair::generate().unwrap());
        authority.distinguished_name.push(DnType::CommonName, "shop CA");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let ca = authority.self_signed(&key).unwrap().pem();
        let (issuer, key) = (Issuer::new(authority, key), KeyPair::generate().unwrap());
        let mut server = CertificateParams::new(hosts).unwrap();
        server.use_authority_key_identifier_extension = true;
        let certificate = server.signed_by(&key, &issuer).unwrap().pem();
        for (file, text) in
            [("ca.crt", ca), ("tls.crt", certificate), ("tls.key", key.serialize_pem())]
        {
            self.write_secret(&format!("{name}/{file}"), &text);
        }
    }

    /// A file that nobody else may read.
    pub fn write_secret(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        if let Some((user, group)) = *USER {
            chown(path, Some(user), Some(group)).unwrap();
        }
    }

    /// Each role has another password, with that of the superuser in it.
    pub fn password_of(&self, role: &str) -> String {
        if role == "postgres" { self.password.clone() } else { format!("{}-{role}", self.password) }
    }

    /// Makes a project, whose scripts are these.
    fn render(&self) {
        let folder = self.path("project");
        fs::create_dir(&folder).unwrap();
        let kind = ["--group", "db", "--version", "v1", "--kind", "PostgresCluster"];
        for arguments in [
            &["init", "--project-name", "postgres-operator"][..],
            &[&["create", "api"], &kind[..]].concat(),
        ] {
            let mut opctl = Command::new(env!("CARGO_BIN_EXE_opctl"));
            let output = opctl.args(arguments).current_dir(&folder).output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
    }

    /// A script as the pods run it.
    fn script(&self, name: &str) -> Command {
        let text = |name| {
            let path = format!("project/src/controller/db/postgres_cluster/{name}");
            fs::read_to_string(self.path(&path)).unwrap()
        };
        let script = match name {
            "start.sh" => {
                ["decide.sh", "facts.sh", "restore.sh", "roles.sh", name].map(text).concat()
            }
            name => text(name),
        };
        // As kubelet does it in the command of a container
        // (<https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#entrypoint>).
        let mut script = script.replace("$$", "$");
        if self.is_old && name == "start.sh" {
            for (now, before) in [
                ("-c ssl=on", "-c ssl=off"),
                ("'hostnossl all replicator all reject'", "''"),
                ("host=hostssl", "host=host"),
                ("hostssl replication", "host replication"),
            ] {
                assert!(script.contains(now), "{now}");
                script = script.replace(now, before);
            }
        }
        let mut command = command(&self.programs, "/bin/sh");
        command.arg("-c").arg(script);
        command.stdin(Stdio::null());
        command
    }

    fn script_of(&self, instance: usize, name: &str) -> Command {
        let mut command = self.script(name);
        let ports = self
            .links
            .get(instance)
            .map_or(self.ports, |links| [0, 1, 2].map(|peer| links[peer].port));
        let addresses = ports.map(|port| format!("127.0.0.1:{port}"));
        command
            .env("CLUSTER", "sample")
            .env("POD_NAME", pod(instance))
            .env("PGDATA", self.data(instance))
            .env("PASSWORDS", self.path("passwords"))
            .env("RUN", self.path(&format!("{instance}/run")))
            .env("LISTEN_ADDRESSES", "127.0.0.1")
            .env("PGPORT", self.ports[instance].to_string())
            .env("ADDRESSES", addresses.join(" "))
            .env("SIZE", self.size.to_string())
            .env("INITIALIZED", self.initialized.to_string())
            .env("RESTORE_FROM", &self.restore_from)
            .env("MEMORY", self.memory.to_string())
            .env("TLS", self.path(self.tls))
            .env("REQUIRE_TLS", self.requires_tls.to_string())
            .env("VERIFY", self.verifies.to_string())
            .env("DUMP", &self.dump)
            .env("BACKUPS", &self.backups)
            .env("PATIENCE", "5")
            .env("MAX_LAG", BOUND.as_secs().to_string())
            .env("WAL_KEEP_SIZE", "0");
        command
    }

    pub fn port(&self, instance: usize) -> String {
        self.ports[instance].to_string()
    }

    /// A shell with the script of backups and the socket of an instance, as in its pod.
    pub fn shell(&self, instance: usize, text: &str) -> Command {
        let (mut shell, backup) = (command(&self.programs, "bash"), self.backup_script(7));
        shell.envs(backup.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.env("BACKUP", backup.get_args().last().unwrap()).args(["-ec", text]);
        shell.env("RUN", self.path(&format!("{instance}/run")));
        shell.env("PGPORT", self.ports[instance].to_string());
        shell
    }

    /// Makes instances of a cluster without data, and waits until they are ready.
    pub fn fill(&mut self, size: usize) {
        self.size = size;
        for instance in 0..size {
            self.start(instance);
        }
        for instance in 0..size {
            self.until_ready(instance);
        }
        self.initialized = size > 0;
    }

    pub fn make_volume(&self, instance: usize) {
        self.folder(&format!("{instance}"));
        self.folder(&format!("{instance}/run"));
    }

    pub fn start(&mut self, instance: usize) {
        self.forget(instance);
        self.make_volume(instance);
        let log = File::options().append(true).create(true).open(self.path_of_log(instance));
        let log = log.unwrap();
        let mut start = self.script_of(instance, "start.sh");
        if let Some(kill) = &self.kill {
            self.kill_within(&mut start, kill, &self.path(&format!("{instance}.calls")));
        }
        start.process_group(0).stdout(log.try_clone().unwrap()).stderr(log);
        self.processes[instance] = Some(start.spawn().unwrap());
    }

    /// Ends an instance as Kubernetes does.
    pub fn stop(&mut self, instance: usize) {
        let mut child = self.processes[instance].take().unwrap();
        kill_process(pid(&child), Signal::INT).unwrap();
        child.wait().unwrap();
    }

    /// Ends an instance as a node that dies.
    pub fn kill(&mut self, instance: usize) {
        let mut child = self.processes[instance].take().unwrap();
        // It may have ended, with nobody of its group left.
        let _ = kill_process_group(pid(&child), Signal::KILL);
        child.wait().unwrap();
    }

    /// Whether the script of an instance has not ended.
    pub fn runs(&self, instance: usize) -> bool {
        self.processes[instance].as_ref().is_some_and(|process| !has_ended(process))
    }

    /// Takes everything but the lock and the sockets from the volume of an instance.
    pub fn clear(&self, instance: usize) {
        for name in self.volume(instance) {
            fs::remove_dir_all(self.path(&format!("{instance}/{name}"))).unwrap();
        }
    }

    /// Saves the data of an instance that is stopped, beside its volume.
    pub fn save_data(&self, instance: usize) {
        let saved = self.path(&format!("{instance}.saved"));
        if saved.exists() {
            fs::remove_dir_all(&saved).unwrap();
        }
        self.copy(&self.data(instance), &saved);
    }

    pub fn recall_data(&self, instance: usize) {
        self.clear(instance);
        self.copy(&self.path(&format!("{instance}.saved")), &self.data(instance));
    }

    fn copy(&self, from: &Path, to: &Path) {
        let mut copy = Command::new("cp");
        outcome(copy.arg("-a").arg(from).arg(to).output().unwrap()).unwrap();
    }

    pub fn insert(&self, instance: usize, row: u32) {
        self.query(instance, &format!("insert into t values ({row})")).unwrap();
    }

    /// Stops the primary. Instance 1 is promoted by hand, and gets the row 2, which the primary lacks.
    pub fn promote_with_more(&mut self) {
        self.stop(0);
        self.query(1, "select pg_promote()").unwrap();
        self.insert(1, 2);
    }

    /// Leaves so many megabytes on the small volume of an instance.
    pub fn fill_volume(&self, instance: usize, free: u64) {
        let volume = self.path(&instance.to_string());
        let filler = File::create(volume.join("run/filler")).unwrap();
        eventually("filled volume", || {
            // Others may write meanwhile.
            let available = statvfs(&volume).unwrap();
            let available = available.f_bavail * available.f_frsize;
            let length = available.saturating_sub(free << 20).max(1);
            fallocate(&filler, FallocateFlags::empty(), 0, length).ok()
        });
    }

    pub fn free_volume(&self, instance: usize) {
        fs::remove_file(self.path(&format!("{instance}/run/filler"))).unwrap();
    }

    /// Where a script has ended, nothing of its container runs on.
    pub fn forget(&mut self, instance: usize) {
        if self.processes[instance].is_some() {
            self.kill(instance);
        }
    }

    pub fn has_data(&self, instance: usize) -> bool {
        self.data(instance).exists()
    }

    /// The rows of all data that were kept.
    pub fn kept_rows(&self) -> Vec<BTreeSet<u32>> {
        let mut all = Vec::new();
        for instance in 0..INSTANCES {
            let kept =
                self.volume(instance).into_iter().filter(|name| name.starts_with("data.kept."));
            for name in kept {
                let copy = self.path("kept");
                self.copy(&self.path(&format!("{instance}/{name}")), &copy);
                all.push(self.rows_in(&copy));
                fs::remove_dir_all(copy).unwrap();
            }
        }
        all
    }

    /// The rows in data that no server uses.
    fn rows_in(&self, data: &Path) -> BTreeSet<u32> {
        for name in ["standby.signal", "recovery.signal", "postmaster.pid"] {
            let _ = fs::remove_file(data.join(name)); // not all have them
        }
        let mut server = command(&self.programs, "postgres");
        server.arg("-D").arg(data).args(["-c", "listen_addresses="]);
        server.arg("-c").arg(format!(
            "unix_socket_directories={}",
            self.folder.path().join("backups").display()
        ));
        let mut server = server.stderr(Stdio::null()).spawn().unwrap();
        let socket = self.path("backups");
        let local = Local { programs: self.programs.clone(), socket, port: "5432".to_owned() };
        let rows = eventually("rows of kept data", || {
            local.query("select coalesce(string_agg(x::text, ' '), '') from t").ok()
        });
        kill_process(pid(&server), Signal::INT).unwrap();
        server.wait().unwrap();
        rows.split_whitespace().map(|row| row.parse().unwrap()).collect()
    }

    /// Deletes what was kept beside the data.
    pub fn delete_kept(&self, instance: usize) {
        for name in self.volume(instance) {
            if name.starts_with("data.kept.") {
                fs::remove_dir_all(self.path(&format!("{instance}/{name}"))).unwrap();
            }
        }
    }

    pub fn log_length(&self, instance: usize) -> usize {
        fs::read_to_string(self.path_of_log(instance)).map_or(0, |log| log.len())
    }

    /// What an instance has logged from a position on, which becomes the end of that.
    pub fn log_from(&self, instance: usize, position: &mut usize) -> String {
        let log = fs::read_to_string(self.path_of_log(instance)).unwrap_or_default();
        let new = log.get(*position..).unwrap_or_default().to_owned();
        *position = log.len();
        new
    }

    pub fn lose_data(&self, instance: usize) {
        fs::remove_dir_all(self.data(instance)).unwrap();
    }

    /// Puts the data of an instance elsewhere on its volume.
    pub fn rename_data(&self, instance: usize, name: &str) {
        fs::rename(self.data(instance), self.path(&format!("{instance}/{name}"))).unwrap();
    }

    /// What there is on the volume of an instance beside the lock and the sockets.
    pub fn volume(&self, instance: usize) -> Vec<String> {
        let files = fs::read_dir(self.path(&instance.to_string())).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name != "lock" && name != "run").collect();
        names.sort();
        names
    }

    /// Copies the data of an instance that is stopped, as a snapshot of its volume does.
    pub fn copy_data(&self, instance: usize, from: &str, to: &str) {
        let path = |name: &str| self.path(&format!("{instance}/{name}"));
        let mut copy = command(&self.programs, "/bin/cp");
        outcome(copy.arg("-a").arg(path(from)).arg(path(to)).output().unwrap()).unwrap();
    }

    /// Has the WAL of an instance end in a record of which the second page is missing, as a kill leaves it.
    pub fn tear_record(&self, instance: usize) {
        let folder = self.data(instance).join("pg_wal");
        let mut waldump = command(&self.programs, "pg_waldump");
        let path = folder.join("000000010000000000000003");
        let output = waldump.arg(&path).output().unwrap();
        let (records, error) = (text(&output.stdout), text(&output.stderr));
        let position = |text: &str, before: &str| {
            let hexadecimal = text.rsplit_once(before).unwrap().1;
            let end = hexadecimal.find([':', ',']).unwrap();
            u64::from_str_radix(&hexadecimal[..end], 16).unwrap()
        };
        let last = position(&records, "lsn: 0/");
        let end = position(&error, " at 0/");
        let mut header = [0; 24];
        header[..4].copy_from_slice(&20_000_u32.to_le_bytes()); // its length
        header[8..16].copy_from_slice(&last.to_le_bytes()); // the record before
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&header, end % (16 << 20)).unwrap();
    }

    pub fn remove(&self, instance: usize, path: &str) {
        fs::remove_file(self.data(instance).join(path)).unwrap();
    }

    /// What an instance that cannot start has to say.
    pub fn fails(&mut self, instance: usize) -> String {
        self.start(instance);
        eventually("end of the instance", || (!self.runs(instance)).then_some(()));
        let mut child = self.processes[instance].take().unwrap();
        assert!(!child.wait().unwrap().success());
        self.log(instance)
    }

    /// What another process on the same volume has to say.
    pub fn second(&self, instance: usize) -> String {
        let output = self.script_of(instance, "start.sh").output().unwrap();
        assert!(!output.status.success());
        text(&output.stderr)
    }

    /// A client that keeps its connection while it runs these statements.
    pub fn client_of(&self, instance: usize, sql: &str) -> Connection {
        let mut psql = self.client(instance, "psql");
        psql.args(["--no-psqlrc", "--command", sql]);
        Connection(psql.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Whether the readiness probe succeeds.
    pub fn ready(&self, instance: usize) -> bool {
        outcome(self.script_of(instance, "ready.sh").output().unwrap()).is_ok()
    }

    pub fn until_ready(&mut self, instance: usize) {
        eventually(&format!("ready instance {instance}"), || {
            self.restart_if_ended(instance);
            self.ready(instance).then_some(())
        });
    }

    /// Whether the liveness probe succeeds.
    pub fn alive(&self, instance: usize) -> Result<(), String> {
        outcome(self.script_of(instance, "alive.sh").output().unwrap()).map(drop)
    }

    pub fn backup(&self, keep: usize) -> Result<(), String> {
        outcome(self.backup_script(keep).output().unwrap()).map(drop)
    }

    pub fn backup_script(&self, keep: usize) -> Command {
        let mut backup = self.script("backup.sh");
        backup.env("PGPASSWORD", &self.password);
        backup.env("PGHOST", "127.0.0.1").env("PGPORT", self.ports[0].to_string());
        backup.env("BACKUPS", self.path("backups")).env("KEEP", keep.to_string());
        backup.env("LOCK_TIMEOUT", "500");
        backup
    }

    /// Has instance 0 of a new cluster begin with a dump of another one.
    pub fn restore(&mut self, from: &Self, dump: &str) {
        (self.size, self.dump) = (1, dump.to_owned());
        self.backups = from.path("backups");
    }

    /// Reads the list of what a dump of a database has.
    pub fn list(&self, dump: &Path) {
        let mut restore = Command::new(self.programs.join("pg_restore"));
        outcome(restore.arg("--list").arg(dump).output().unwrap()).unwrap();
    }

    /// The directories with a complete dump, sorted.
    pub fn backups(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.path("backups")).unwrap();
        let mut folders: Vec<_> = folders.map(|folder| folder.unwrap().path()).collect();
        folders.retain(|folder| !folder.ends_with("incomplete") && !folder.ends_with("deleted"));
        folders.sort();
        folders
    }

    fn client(&self, instance: usize, program: &str) -> Command {
        let mut client = command(&self.programs, program);
        client.env("PGHOST", "127.0.0.1").env("PGPORT", self.ports[instance].to_string());
        client.env("PGUSER", "postgres").env("PGDATABASE", "postgres");
        client.env("PGPASSWORD", &self.password).env("PGCONNECT_TIMEOUT", "5");
        client
    }

    pub fn query(&self, instance: usize, sql: &str) -> Result<String, String> {
        let mut psql = self.client(instance, "psql");
        psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "--command", sql]);
        outcome(psql.output().unwrap())
    }

    /// Has the primary forget the WAL of before.
    pub fn recycle_wal(&self) {
        for _ in 0..3 {
            self.query(0, "select pg_switch_wal()").unwrap();
            self.query(0, "checkpoint").unwrap();
        }
    }

    /// Asks an instance as a role.
    pub fn query_as(
        &self,
        role: &str,
        instance: usize,
        connection: &str,
        sql: &str,
    ) -> Result<String, String> {
        let mut psql = self.client(instance, "psql");
        psql.env("PGPASSWORD", self.password_of(role)).env("PGUSER", role);
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--command", sql]);
        outcome(psql.arg(connection).output().unwrap())
    }

    /// Asks a database of the primary.
    pub fn query_in(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut psql = self.client(0, "psql");
        psql.env("PGDATABASE", database);
        psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "--command", sql]);
        outcome(psql.output().unwrap())
    }

    /// Connects the instances with a network that can be cut.
    pub fn connect(&mut self) {
        let links = || self.ports.map(Link::to).into();
        self.links = (0..INSTANCES).map(|_| links()).collect();
    }

    /// Cuts an instance off from all others, or connects it again.
    pub fn cut(&self, instance: usize, is_cut: bool) {
        for (from, links) in self.links.iter().enumerate() {
            for (to, link) in links.iter().enumerate() {
                if from == instance || to == instance {
                    link.cut(is_cut);
                }
            }
        }
    }

    /// A client within the container of an instance.
    pub fn local(&self, instance: usize) -> Local {
        Local {
            programs: self.programs.clone(),
            socket: self.path(&format!("{instance}/run")),
            port: self.ports[instance].to_string(),
        }
    }

    /// Waits until an instance gives this answer. Like a container, it is started again when it ends.
    pub fn until(&mut self, instance: usize, sql: &str, answer: &str) {
        let what = format!("`{answer}` from instance {instance}");
        eventually(&what, || {
            self.restart_if_ended(instance);
            (self.query(instance, sql).as_deref() == Ok(answer)).then_some(())
        });
    }

    /// As kubelet does with a container.
    fn restart_if_ended(&mut self, instance: usize) {
        if self.processes[instance].as_ref().is_some_and(has_ended) {
            self.forget(instance);
            self.start(instance);
        }
    }

    /// What an instance has logged.
    pub fn log(&self, instance: usize) -> String {
        fs::read_to_string(self.path_of_log(instance)).unwrap()
    }

    fn path_of_log(&self, instance: usize) -> PathBuf {
        self.path(&format!("{instance}.log"))
    }

    fn data(&self, instance: usize) -> PathBuf {
        self.path(&format!("{instance}/data"))
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Gives a directory a file system of its own with so many megabytes, as root.
    pub fn small_volume(&self, name: &str, megabytes: usize) -> SmallVolume {
        let path = self.path(name);
        self.folder(name);
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"]);
        outcome(mount.arg(&path).output().unwrap()).unwrap();
        self.folder(name);
        SmallVolume(path)
    }

    /// A folder of the user who runs PostgreSQL.
    pub fn folder(&self, path: &str) {
        let path = self.path(path);
        fs::create_dir_all(&path).unwrap();
        if let Some((user, group)) = *USER {
            chown(path, Some(user), Some(group)).unwrap();
        }
    }
}

/// A client that goes when this is dropped.
pub struct Connection(Child);

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

/// A client that needs no password.
pub struct Local {
    programs: PathBuf,
    socket: PathBuf,
    port: String,
}

impl Local {
    pub fn query(&self, sql: &str) -> Result<String, String> {
        let mut psql = command(&self.programs, "psql");
        psql.env("PGHOST", &self.socket).env("PGPORT", &self.port).env("PGUSER", "postgres");
        psql.env("PGDATABASE", "postgres").env("PGCONNECT_TIMEOUT", "5");
        psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "--command", sql]);
        outcome(psql.output().unwrap())
    }
}

/// A file system that goes when this is dropped.
pub struct SmallVolume(PathBuf);

impl Drop for SmallVolume {
    fn drop(&mut self) {
        let mut umount = Command::new("umount");
        outcome(umount.arg("--lazy").arg(&self.0).output().unwrap()).unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for instance in 0..INSTANCES {
            if std::thread::panicking() && self.path_of_log(instance).exists() {
                let log = self.log(instance);
                let tail: Vec<_> = log.lines().rev().take(20).collect();
                let tail: Vec<_> = tail.into_iter().rev().collect();
                eprintln!("instance {instance}:\n{}", tail.join("\n"));
            }
            if self.processes[instance].is_some() {
                self.kill(instance);
            }
        }
    }
}

/// It is not waited for: its id stays that of its group, which can be killed.
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid(child)), options).unwrap().is_some()
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn outcome(output: Output) -> Result<String, String> {
    match output.status.success() {
        true => Ok(text(&output.stdout).trim().to_owned()),
        false => Err(text(&output.stderr)),
    }
}

/// The name of an instance's pod.
fn pod(instance: usize) -> String {
    match instance {
        0 => "sample-0".to_owned(),
        _ => format!("sample-replica-{instance}"),
    }
}

/// Waits until `check` finds what it looks for.
pub fn eventually<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(60) {
        if let Some(found) = check() {
            return found;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("no {what} in a minute")
}
