//! What the kernel knows about this process, under the names of Prometheus' client libraries. The crate
//! kubert-prometheus-process has more of it, but takes an older prometheus-client (0.2.3 takes 0.23).

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Linux counts the time of processes in hundredths of a second, whatever its own clock does.
const TICKS: f64 = 100.0;

/// Read at each scrape. Where there is no /proc, only the start time is known.
#[derive(Debug)]
pub(super) struct Process {
    /// Seconds since 1970.
    started: f64,
}

impl Process {
    pub fn new() -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH);
        let started = started.unwrap_or_default().as_secs_f64();
        Self { started }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let mut gauge = |name, help, value: f64| {
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        let help = "When the process started, in seconds since 1970";
        gauge("process_start_time_seconds", help, self.started)?;
        if let Some(bytes) = resident_memory() {
            gauge("process_resident_memory_bytes", "Resident memory", bytes)?;
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            gauge(
                "process_open_fds",
                "Open file descriptors",
                files.count() as f64,
            )?;
        }
        if let Some(seconds) = cpu_time() {
            let metric = ConstCounter::new(seconds);
            let (name, help) = ("process_cpu_seconds", "Processor time used, in seconds");
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
        }
        Ok(())
    }
}

fn resident_memory() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

/// In seconds, of user and system together: fields 14 and 15 of proc_pid_stat(5).
fn cpu_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in brackets, which may hold spaces and brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Option<Vec<f64>> = ticks.map(|ticks| ticks.parse().ok()).collect();
    Some(ticks?.iter().sum::<f64>() / TICKS)
}
