//! The credentials that the user has for a registry, as docker and podman keep them.

use docker_credential::{CredentialRetrievalError, DockerCredential};
use http_auth::parse_challenges;
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use reqwest::header::WWW_AUTHENTICATE;
use reqwest::{Client, Response};
use serde::Deserialize;

use super::failure::Failure;

/// The key of Docker Hub in the files with credentials.
const DOCKER_HUB: (&str, &str) = ("index.docker.io", "https://index.docker.io/v1/");
/// What opctl calls itself where it asks for tokens.
const CLIENT_ID: &str = "opctl";

/// What the user has for a registry.
pub enum Credentials {
    /// Nothing, or a name and a password.
    Known(RegistryAuth),
    /// A token that the registry exchanges for one that permits something.
    Identity(String),
}

impl Credentials {
    /// Those for a registry.
    ///
    /// # Errors
    /// If a file with credentials is invalid, or if a helper fails.
    pub fn of(registry: &str) -> Result<Self, Failure> {
        let server = if registry == DOCKER_HUB.0 { DOCKER_HUB.1 } else { registry };
        let stores = [docker_credential::get_credential, docker_credential::get_podman_credential];
        for store in stores {
            match store(server) {
                Ok(DockerCredential::UsernamePassword(user, password)) => {
                    return Ok(Self::Known(RegistryAuth::Basic(user, password)));
                }
                Ok(DockerCredential::IdentityToken(token)) => return Ok(Self::Identity(token)),
                Err(
                    CredentialRetrievalError::NoCredentialConfigured
                    | CredentialRetrievalError::ConfigNotFound
                    | CredentialRetrievalError::ConfigReadError,
                ) => {}
                Err(error) => return Err(Failure::Credentials(error.to_string())),
            }
        }
        Ok(Self::Known(RegistryAuth::Anonymous))
    }
}

/// The answer of a server of tokens.
#[derive(Deserialize)]
struct Token {
    access_token: String,
}

/// Exchanges an identity token for one that permits `actions`, such as `pull,push`, in a repository
/// (<https://distribution.github.io/distribution/spec/auth/oauth/>). `root` is the address of the registry.
///
/// # Errors
/// If the registry has no server of tokens, or if that refuses.
pub async fn exchange(
    client: &Client,
    root: &str,
    repository: &str,
    actions: &str,
    identity: &str,
) -> Result<RegistryAuth, OciDistributionError> {
    let ping = client.get(format!("{root}/v2/")).send().await?;
    let header = ping.headers().get(WWW_AUTHENTICATE).and_then(|header| header.to_str().ok());
    let challenges = header.and_then(|header| parse_challenges(header).ok()).unwrap_or_default();
    let bearer =
        challenges.iter().find(|challenge| challenge.scheme.eq_ignore_ascii_case("bearer"));
    let parameter = |name: &str| {
        let mut parameters = bearer?.params.iter();
        let (_, value) = parameters.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(value.to_unescaped())
    };
    let Some(realm) = parameter("realm") else {
        let problem = "the registry takes no identity token";
        return Err(OciDistributionError::AuthenticationFailure(problem.to_owned()));
    };
    // It must not be sent where others can read it.
    if root.starts_with("https:") && !realm.starts_with("https:") {
        let problem = format!("the tokens come from {realm}, which is not encrypted");
        return Err(OciDistributionError::AuthenticationFailure(problem));
    }
    let service = parameter("service").unwrap_or_default();
    let scope = format!("repository:{repository}:{actions}");
    let form = [
        ("grant_type", "refresh_token"),
        ("service", &service),
        ("client_id", CLIENT_ID),
        ("scope", &scope),
        ("refresh_token", identity),
    ];
    let response = succeed(client.post(realm).form(&form).send().await?)?;
    let token: Token = response.json().await?;
    Ok(RegistryAuth::Bearer(token.access_token))
}

/// A server of tokens has no other words for what it refuses than the status.
fn succeed(response: Response) -> Result<Response, OciDistributionError> {
    match response.status().as_u16() {
        400 | 401 | 403 => {
            let problem = "the identity token is not valid any more";
            Err(OciDistributionError::AuthenticationFailure(problem.to_owned()))
        }
        _ => Ok(response.error_for_status()?),
    }
}
