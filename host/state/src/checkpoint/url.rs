//! The URL of a place for checkpoints.

use super::target::CheckpointTarget;
use crate::{Error, Result};
use opendal_core::{Operator, services::Memory};
use std::path::Path;

/// A URL, taken apart.
#[derive(Debug)]
struct Url<'a> {
    scheme: &'a str,
    /// Between the slashes and what follows.
    authority: &'a str,
    /// Without the slash that it begins with.
    path: &'a str,
    /// Names and values.
    query: Vec<(&'a str, &'a str)>,
}

impl<'a> Url<'a> {
    fn parse(url: &'a str) -> Result<Self> {
        let invalid = || {
            Error::invalid(format!(
                "`{url}` is no place for checkpoints: write file:///directory, \
                 s3://bucket/prefix or memory://"
            ))
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(invalid)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let query = query
            .split('&')
            .filter(|part| !part.is_empty())
            .map(|part| part.split_once('=').ok_or_else(invalid))
            .collect::<Result<_>>()?;
        Ok(Self { scheme, authority, path, query })
    }

    /// Fails if there is a setting that is not among these.
    fn check_settings(&self, known: &[&str]) -> Result<()> {
        match self.query.iter().find(|(name, _)| !known.contains(name)) {
            None => Ok(()),
            Some((name, _)) => Err(Error::invalid(format!(
                "a URL with {}:// has no setting `{name}`; there are: {}",
                self.scheme,
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ))),
        }
    }
}

impl CheckpointTarget {
    /// The place that a URL names:
    ///
    /// | URL | what |
    /// |---|---|
    /// | `file:///absolute/directory` | [`CheckpointTarget::directory`], synced |
    /// | `s3://bucket/prefix?region=..&endpoint=..` | an object store (feature `s3`) |
    /// | `memory://` | nothing that outlives the value: for tests |
    ///
    /// Credentials for S3 are never in the URL: they come from where the tools of AWS look for them
    /// (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN` of the environment,
    /// profiles, web identity, the metadata service of the machine). So does the region
    /// (`AWS_REGION`) where the URL says none. `endpoint` (`http://host:port`) is for other
    /// services with the interface of S3.
    ///
    /// ```
    /// use howdah_state::{CheckpointStore, CheckpointTarget};
    ///
    /// # fn main() -> howdah_state::Result<()> {
    /// let store = CheckpointStore::open(CheckpointTarget::from_url("memory://")?)?;
    /// assert!(store.list().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for any other URL, and for `s3` in a build without that feature;
    /// `Storage` when the client cannot be made.
    pub fn from_url(url: &str) -> Result<Self> {
        let parsed = Url::parse(url)?;
        match parsed.scheme {
            "file" => {
                parsed.check_settings(&[])?;
                if !parsed.authority.is_empty() || parsed.path.is_empty() {
                    return Err(Error::invalid(format!(
                        "`{url}` names no local directory: write file:///absolute/directory"
                    )));
                }
                Self::directory(&Path::new("/").join(parsed.path), true)
            }
            "memory" => {
                parsed.check_settings(&[])?;
                Self::operator(Operator::new(Memory::default()).map_err(no_client)?, "")
            }
            "s3" => s3(url, &parsed),
            other => Err(Error::invalid(format!(
                "`{url}`: there is no `{other}` for checkpoints; use file, s3 or memory, or make \
                 an operator of your own"
            ))),
        }
    }
}

fn no_client(error: opendal_core::Error) -> Error {
    let message = format!("cannot make the client of a checkpoint target: {error}");
    Error::with_source(crate::ErrorKind::InvalidArgument, message, error)
}

#[cfg(not(feature = "s3"))]
fn s3(url: &str, _: &Url<'_>) -> Result<CheckpointTarget> {
    Err(Error::invalid(format!(
        "`{url}` needs S3, which is not in this build: build with the feature `s3`"
    )))
}

#[cfg(feature = "s3")]
fn s3(url: &str, parsed: &Url<'_>) -> Result<CheckpointTarget> {
    use opendal_core::{HttpTransporter, OperationContext};
    use opendal_http_transport_reqwest::ReqwestTransport;
    use opendal_service_s3::S3;

    parsed.check_settings(&["region", "endpoint"])?;
    if parsed.authority.is_empty() {
        return Err(Error::invalid(format!("`{url}` names no bucket: write s3://bucket/prefix")));
    }
    // Another part of the program may have chosen before: that one stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = S3::default().bucket(parsed.authority);
    for (name, value) in &parsed.query {
        builder = match *name {
            "region" => builder.region(value),
            _ => builder.endpoint(value),
        };
    }
    let transport = HttpTransporter::new(ReqwestTransport::default());
    let operator = Operator::new(builder).map_err(no_client)?;
    let context = OperationContext::new().with_http_transport(transport);
    CheckpointTarget::operator(operator.with_context(context), parsed.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_of_a_directory_is_that_directory() {
        let target = CheckpointTarget::from_url("file:///some/where").unwrap();
        assert_eq!(target.describe("x"), "/some/where/x");
    }

    #[test]
    fn url_that_names_no_place_is_refused_with_what_to_write() {
        for (url, message) in [
            ("somewhere", "write file:///directory"),
            ("file://relative/path", "write file:///absolute/directory"),
            ("ftp://host/path", "there is no `ftp`"),
            ("file:///path?sync=no", "no setting `sync`"),
        ] {
            let error = CheckpointTarget::from_url(url).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(message), "{url}: {error}");
        }
    }

    #[cfg(not(feature = "s3"))]
    #[test]
    fn s3_without_the_feature_is_refused() {
        let error = CheckpointTarget::from_url("s3://bucket/prefix").unwrap_err();
        assert!(error.to_string().contains("feature `s3`"), "{error}");
    }
}
