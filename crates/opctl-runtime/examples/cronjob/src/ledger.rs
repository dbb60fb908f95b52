//! A system outside the cluster, which Kubernetes cannot clean up: a directory that records the runs
//! of each CronJob.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use kube::ResourceExt;
use tokio::fs;

use crate::api::CronJob;

/// A ledger of the Jobs that were started: a directory for each CronJob, and in it a file for each
/// Job. Clones are the same ledger.
#[derive(Clone)]
pub struct Ledger {
    directory: PathBuf,
}

impl Ledger {
    /// The ledger in `directory`, which must exist.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Records a Job. Recording it again changes nothing, so a reconcile that fails later can be
    /// repeated.
    pub async fn record(&self, cron_job: &CronJob, job: &str) -> io::Result<()> {
        let entries = self.entries(cron_job);
        fs::create_dir_all(&entries).await?;
        fs::write(entries.join(job), "").await
    }

    /// Removes what is recorded of a CronJob, if anything is.
    pub async fn remove(&self, cron_job: &CronJob) -> io::Result<()> {
        match fs::remove_dir_all(self.entries(cron_job)).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Why the ledger cannot be used.
    pub fn check(&self) -> Result<(), String> {
        let directory = &self.directory;
        match directory.metadata() {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(format!("{} is not a directory", directory.display())),
            Err(error) => Err(format!("{}: {error}", directory.display())),
        }
    }

    /// Names of objects have no `_`.
    fn entries(&self, cron_job: &CronJob) -> PathBuf {
        let namespace = cron_job.namespace().unwrap_or_default();
        self.directory
            .join(format!("{namespace}_{}", cron_job.name_any()))
    }
}

#[cfg(test)]
pub mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::api::tests::cron_job;

    impl Ledger {
        /// An empty ledger, and its directory, which is removed when it is dropped.
        pub fn empty() -> (Self, TempDir) {
            let directory = TempDir::new().unwrap();
            (Self::new(directory.path().to_owned()), directory)
        }

        /// The names of the recorded Jobs.
        pub fn jobs(&self, cron_job: &CronJob) -> Vec<String> {
            let entries = std::fs::read_dir(self.entries(cron_job));
            let mut jobs: Vec<_> = entries
                .into_iter()
                .flatten()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            jobs.sort_unstable();
            jobs
        }
    }

    #[tokio::test]
    async fn records_are_removed_with_their_cron_job() {
        let (ledger, _directory) = Ledger::empty();
        let cron_job = cron_job(serde_json::json!({}));
        for job in ["a", "b", "a"] {
            ledger.record(&cron_job, job).await.unwrap();
        }
        assert_eq!(ledger.jobs(&cron_job), ["a", "b"]);
        for _ in 0..2 {
            ledger.remove(&cron_job).await.unwrap();
            assert!(ledger.jobs(&cron_job).is_empty());
        }
    }

    #[test]
    fn a_missing_directory_fails_the_check() {
        let (ledger, _directory) = Ledger::empty();
        assert_eq!(ledger.check(), Ok(()));
        let missing = Ledger::new(ledger.directory.join("missing"));
        assert!(missing.check().unwrap_err().contains("missing"));
    }
}
