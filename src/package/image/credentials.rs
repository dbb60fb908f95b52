//! The credentials that the user has for a registry, as docker and podman keep them.

use docker_credential::{CredentialRetrievalError, DockerCredential};
use http_auth::parse_challenges;
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use reqwest::header::WWW_AUTHENTICATE;
use reqwest::{Client, RequestBuilder};
use serde::Deserialize;

use super::answer::Answer;
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

/// Gives tokens that permit something in a registry
/// (<https://distribution.github.io/distribution/spec/auth/>).
pub struct TokenServer {
    realm: String,
    service: String,
}

impl TokenServer {
    /// The one of the registry with the address `root`, if it has one.
    ///
    /// # Errors
    /// If the registry does not answer, or if tokens would be sent where others can read them.
    pub async fn find(client: &Client, root: &str) -> Result<Option<Self>, OciDistributionError> {
        let ping = client.get(format!("{root}/v2/")).send().await?;
        let header = ping.headers().get(WWW_AUTHENTICATE).and_then(|header| header.to_str().ok());
        let challenges =
            header.and_then(|header| parse_challenges(header).ok()).unwrap_or_default();
        let bearer =
            challenges.iter().find(|challenge| challenge.scheme.eq_ignore_ascii_case("bearer"));
        let parameter = |name: &str| {
            let mut parameters = bearer?.params.iter();
            let (_, value) = parameters.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
            Some(value.to_unescaped())
        };
        let Some(realm) = parameter("realm") else { return Ok(None) };
        if root.starts_with("https:") && !realm.starts_with("https:") {
            let problem = format!("the tokens come from {realm}, which is not encrypted");
            return Err(OciDistributionError::AuthenticationFailure(problem));
        }
        Ok(Some(Self { realm, service: parameter("service").unwrap_or_default() }))
    }

    /// Asks for a token for `scope`. Returns the answer, unless there is a token.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn ask(
        &self,
        client: &Client,
        scope: &str,
        auth: &RegistryAuth,
    ) -> Result<Option<Answer>, OciDistributionError> {
        let query = [("service", self.service.as_str()), ("scope", scope)];
        let request = authorized(client.get(&self.realm).query(&query), auth);
        Ok(Answer::of(&request.send().await?))
    }

    /// Exchanges an identity token for one that permits `scope`
    /// (<https://distribution.github.io/distribution/spec/auth/oauth/>).
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn exchange(
        &self,
        client: &Client,
        scope: &str,
        identity: &str,
    ) -> Result<RegistryAuth, Failure> {
        let form = [
            ("grant_type", "refresh_token"),
            ("service", &self.service),
            ("client_id", CLIENT_ID),
            ("scope", scope),
            ("refresh_token", identity),
        ];
        let post = client.post(&self.realm).form(&form).send().await;
        let response = post.map_err(OciDistributionError::from)?;
        match Answer::of(&response) {
            // It has no other words for what it refuses than the status.
            Some(Answer { status: 400 | 401 | 403, .. }) => {
                let problem = "the identity token is not valid any more".to_owned();
                Err(OciDistributionError::AuthenticationFailure(problem).into())
            }
            Some(answer) => Err(Failure::Answer(answer)),
            None => {
                let token: Token = response.json().await.map_err(OciDistributionError::from)?;
                Ok(RegistryAuth::Bearer(token.access_token))
            }
        }
    }
}

/// A request with credentials.
pub fn authorized(request: RequestBuilder, auth: &RegistryAuth) -> RequestBuilder {
    match auth {
        RegistryAuth::Anonymous => request,
        RegistryAuth::Basic(user, password) => request.basic_auth(user, Some(password)),
        RegistryAuth::Bearer(token) => request.bearer_auth(token),
    }
}
