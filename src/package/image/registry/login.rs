//! Logs in to a registry, with what the user has for it.

use anyhow::{Context, Result};
use oci_client::RegistryOperation;
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;

use super::{CONNECT_TIMEOUT, Purpose, Registry, Transport};
use crate::http;
use crate::package::image::credentials::{Credentials, TokenServer};
use crate::package::image::failure::Failure;

/// A client for requests that are not of a registry, but about it.
pub fn client(transport: Transport) -> Result<reqwest::Client> {
    let client = http::client()
        .connect_timeout(CONNECT_TIMEOUT)
        .danger_accept_invalid_certs(transport.skips_verification);
    client.build().context("cannot connect to the registry")
}

impl Registry<'_> {
    /// Logs in. Returns what to log in with again when a token is not valid any more, and what a single request is
    /// authorized with.
    pub(super) async fn log_in(&self) -> Result<(RegistryAuth, RegistryAuth), Failure> {
        let auth = match Credentials::of(self.image.resolve_registry())? {
            Credentials::Known(auth) => auth,
            Credentials::Identity(identity) => {
                self.request("logging in", 0, async || self.exchange(&identity).await).await?
            }
        };
        let authenticate = async || self.authenticate(&auth).await;
        let token = self.request("logging in", 0, authenticate).await?;
        let access = token.map_or_else(|| auth.clone(), RegistryAuth::Bearer);
        Ok((auth, access))
    }

    async fn exchange(&self, identity: &str) -> Result<RegistryAuth, Failure> {
        match TokenServer::find(&self.http, &self.root()).await? {
            Some(server) => server.exchange(&self.http, &self.scope(), identity).await,
            None => {
                let problem = "the registry takes no identity token".to_owned();
                Err(OciDistributionError::AuthenticationFailure(problem).into())
            }
        }
    }

    /// Returns a token, if the registry needs one.
    async fn authenticate(&self, auth: &RegistryAuth) -> Result<Option<String>, Failure> {
        let operation = match self.purpose {
            Purpose::Find | Purpose::Pull => RegistryOperation::Pull,
            Purpose::Push | Purpose::Sign => RegistryOperation::Push,
        };
        let log_in = async || self.client.auth(&self.image, auth, operation).await;
        match log_in().await {
            Err(OciDistributionError::AuthenticationFailure(_)) => {
                self.check_token_server(auth).await?;
                Ok(log_in().await?)
            }
            result => Ok(result?),
        }
    }

    /// Fails if the server of tokens is overloaded: the client does not distinguish that from a refusal.
    async fn check_token_server(&self, auth: &RegistryAuth) -> Result<(), Failure> {
        if let Some(server) = TokenServer::find(&self.http, &self.root()).await?
            && let Some(answer) = server.ask(&self.http, &self.scope(), auth).await?
            && answer.may_pass()
        {
            return Err(Failure::Answer(answer));
        }
        Ok(())
    }

    /// The address of the registry.
    pub(super) fn root(&self) -> String {
        let scheme = if self.transport.is_http { "http" } else { "https" };
        format!("{scheme}://{}", self.image.resolve_registry())
    }

    /// What a token has to permit.
    fn scope(&self) -> String {
        format!("repository:{}:{}", self.image.repository(), self.purpose.actions())
    }
}
