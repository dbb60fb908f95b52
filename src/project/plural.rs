//! The plural of a kind, by the conventions of Kubernetes and kubebuilder.

/// Words that Kubernetes users pluralise differently from the dictionary.
const IRREGULAR: &[(&str, &str)] = &[
    ("agenda", "agendas"),
    ("firmware", "firmwares"),
    ("hardware", "hardwares"),
    ("medium", "media"),
    ("schema", "schemas"),
    ("software", "softwares"),
    ("virus", "viruses"),
];

/// Words with these endings take an `s`, also where English has no plural (`mails`, `traffics`), as in
/// kubebuilder.
const PLAIN_ENDINGS: &[char] = &['b', 'c', 'd', 'g', 'k', 'l', 'n', 'p', 'r', 't', 'w'];

/// The exceptions: words with these endings do not take an `s`.
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

/// The default plural of a kind.
pub fn default(kind: &str) -> String {
    let word = kind.to_ascii_lowercase();
    if let Some((_, plural)) = IRREGULAR.iter().find(|(singular, _)| *singular == word) {
        return (*plural).to_owned();
    }
    // Loading the dictionary takes longer than the rest of the command, and most kinds do not need it.
    if word.ends_with(PLAIN_ENDINGS) && !IRREGULAR_ENDINGS.iter().any(|end| word.ends_with(end)) {
        return regular(kind);
    }
    pluralizer::pluralize(&word, 2, false)
}

/// The plural that `PROJECT` omits. This rule is frozen: a newer pluraliser must not change the meaning
/// of a project.
pub fn regular(kind: &str) -> String {
    let word = kind.to_ascii_lowercase();
    if let Some(stem) = word.strip_suffix('y')
        && !stem.ends_with(['a', 'e', 'i', 'o', 'u'])
    {
        return format!("{stem}ies");
    }
    let takes_es = ["s", "x", "z", "ch", "sh"].iter().any(|end| word.ends_with(end));
    format!("{word}{}", if takes_es { "es" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_plurals_follow_kubernetes() {
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
    fn regular_plurals_do_not_use_the_dictionary() {
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
