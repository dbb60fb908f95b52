//! The plural of a kind, as Kubernetes' own kinds and kubebuilder's users know it.

/// Where the dictionary differs from the habits of Kubernetes.
const IRREGULAR: &[(&str, &str)] = &[
    ("agenda", "agendas"),
    ("firmware", "firmwares"),
    ("hardware", "hardwares"),
    ("medium", "media"),
    ("schema", "schemas"),
    ("software", "softwares"),
    ("virus", "viruses"),
];

/// Words that end in these letters take an `s`, as kubebuilder has it also where English knows no
/// plural (`mails`, `traffics`).
const PLAIN_ENDINGS: &[char] = &['b', 'c', 'd', 'g', 'k', 'l', 'n', 'p', 'r', 't', 'w'];

/// The ends of those that do not.
const IRREGULAR_ENDINGS: &[&str] = &[
    "aircraft",
    "automaton",
    "bison",
    "child",
    "children",
    "criterion",
    "deer",
    "equipment",
    "foot",
    "hedron",
    "information",
    "man",
    "men",
    "person",
    "phenomenon",
    "salmon",
    "sheep",
    "shrimp",
    "swine",
    "trout",
];

/// The plural that a kind gets unless the user names another.
pub fn default(kind: &str) -> String {
    let word = kind.to_ascii_lowercase();
    if let Some((_, plural)) = IRREGULAR.iter().find(|(singular, _)| *singular == word) {
        return (*plural).to_owned();
    }
    // The dictionary takes longer to load than the rest of the command to run, and most kinds do without.
    if word.ends_with(PLAIN_ENDINGS) && !IRREGULAR_ENDINGS.iter().any(|end| word.ends_with(end)) {
        return regular(kind);
    }
    pluralizer::pluralize(&word, 2, false)
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
            ("Subscription", "subscriptions"),
            ("Token", "tokens"),
            ("Mail", "mails"),
            ("Traffic", "traffics"),
            ("WorkPlan", "workplans"),
            ("Person", "people"),
            ("Child", "children"),
            ("Deer", "deer"),
            ("Virus", "viruses"),
            ("ConfigMap", "configmaps"),
            ("Album", "albums"),
            ("Quorum", "quora"),
            ("Checksum", "checksums"),
            ("Chef", "chefs"),
            ("Proof", "proofs"),
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
