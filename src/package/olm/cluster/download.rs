//! Manifests from files and from the internet.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::error::UserError;
use crate::http;
use crate::package::olm::Object;
use crate::package::olm::object::LIMIT;
use crate::package::olm::source::read_file;

/// How long a server may take for a file.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The objects of files and URLs, in their order.
///
/// # Errors
/// A [`UserError`] if one of them cannot be read.
pub fn manifests(sources: &[String]) -> Result<Vec<Object>> {
    let mut objects = Vec::new();
    for source in sources {
        let text = match source.starts_with("https://") || source.starts_with("http://") {
            true => download(source)?,
            false => read_file(Path::new(source)).map_err(|error| {
                UserError::failure(format!("cannot read {source}: {error}")).with_hint(
                    "`--manifests` is a file or a URL, such as those of a release of OLM",
                )
            })?,
        };
        objects.extend(Object::parse_all(&text, source)?);
    }
    Ok(objects)
}

fn download(url: &str) -> Result<String> {
    let request = async {
        let client = http::client().timeout(TIMEOUT).build()?;
        client.get(url).send().await?.error_for_status()?.bytes().await
    };
    let bytes = http::runtime()?.block_on(request).map_err(|error| {
        let problem = anyhow::Error::from(error.without_url());
        UserError::failure(format!("cannot download {url}: {problem:#}"))
            .with_hint("download the file in another way, and name it with `--manifests FILE`")
    })?;
    LIMIT.read(&*bytes).with_context(|| format!("cannot read {url}"))
}
