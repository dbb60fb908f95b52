//! The plural of a kind, as Kubernetes' own kinds and kubebuilder's users know it.

/// Where the word rules of English differ from the habits of Kubernetes.
const HABITS: &[(&str, &str)] = &[
    ("agenda", "agendas"),
    ("firmware", "firmwares"),
    ("hardware", "hardwares"),
    ("health", "healths"),
    ("mail", "mails"),
    ("medium", "media"),
    ("schema", "schemas"),
    ("software", "softwares"),
    ("traffic", "traffics"),
    ("virus", "viruses"),
];

/// The plural that a kind gets unless the user names another.
pub fn default(kind: &str) -> String {
    let word = kind.to_ascii_lowercase();
    match HABITS.iter().find(|(singular, _)| *singular == word) {
        Some((_, plural)) => (*plural).to_owned(),
        None => pluralizer::pluralize(&word, 2, false),
    }
}

/// The plural that `PROJECT` leaves out. This rule is frozen: a project must not change its meaning
/// with a newer pluraliser.
pub fn regular(kind: &str) -> String {
    let word = kind.to_ascii_lowercase();
    if let Some(stem) = word.strip_suffix('y')
        && !stem.ends_with(['a', 'e', 'i', 'o', 'u'])
    {
        return format!("{stem}ies");
    }
    let hisses = ["s", "x", "z", "ch", "sh"].iter().any(|end| word.ends_with(end));
    format!("{word}{}", if hisses { "es" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_those_of_kubernetes() {
        for (kind, plural) in [
            ("Proxy", "proxies"),
            ("Series", "series"),
            ("Ingress", "ingresses"),
            ("Bus", "buses"),
            ("Status", "statuses"),
            ("Box", "boxes"),
            ("Type", "types"),
            ("URLMap", "urlmaps"),
            ("A", "as"),
            ("Policy", "policies"),
            ("NetworkPolicy", "networkpolicies"),
            ("Gateway", "gateways"),
            ("Database", "databases"),
            ("Memcached", "memcacheds"),
            ("Endpoints", "endpoints"),
            ("Index", "indices"),
            ("Chassis", "chassis"),
            ("Data", "data"),
            ("Schema", "schemas"),
            ("Redis", "redis"),
            ("StorageClass", "storageclasses"),
            ("Lease", "leases"),
            ("Quota", "quotas"),
            ("ResourceQuota", "resourcequotas"),
            ("Node", "nodes"),
            ("Queue", "queues"),
            ("Batch", "batches"),
            ("Mesh", "meshes"),
            ("Cache", "caches"),
            ("Topic", "topics"),
            ("Key", "keys"),
            ("Query", "queries"),
            ("S3Bucket", "s3buckets"),
            ("WebServer", "webservers"),
            ("PostgresCluster", "postgresclusters"),
            ("Prometheus", "prometheuses"),
        ] {
            assert_eq!(default(kind), plural, "{kind}");
        }
    }

    #[test]
    fn regular_plurals() {
        for (kind, plural) in [
            ("Memcached", "memcacheds"),
            ("Proxy", "proxies"),
            ("Key", "keys"),
            ("Bus", "buses"),
            ("Index", "indexes"),
        ] {
            assert_eq!(regular(kind), plural);
        }
    }
}
