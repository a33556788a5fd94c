//! What convinces a server of who is asking: found at the last moment, for one request, and for nobody else.
//!
//! Two places say it. `weir.yaml` declares credentials: whose, of which kind and from where; it is the project's word and
//! comes first, once whoever runs it has stored the same words for that server. `.weir/credentials.local` keeps what `weir auth add` was given on this machine: it fills in the secret where
//! the project names no place, and it serves servers that the project says nothing about. Within each, the principal itself
//! comes before its groups, and these before everyone.
//!
//! Nothing is remembered between calls but, in the redactor, what has to be taken out of what comes back.

mod entry;
mod file;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_secrets::{LookUpError, Places, Redactor};
use weir_spec::{Credential, CredentialKind, Principal, SecretRef};
use weir_types::{Explain, Fault, Secret};

pub use self::entry::{Entry, Given, Holder, HolderError, is_header_name};
pub use self::file::{CredentialFile, CredentialFileError};

/// The credentials of a project on this machine.
#[derive(Clone, Debug)]
pub struct Credentials {
    declared: BTreeMap<String, BTreeMap<Principal, Credential>>,
    file: CredentialFile,
    places: Places,
    redactor: Redactor,
}

/// A header to send with one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Its name.
    pub header: String,
    /// Its whole value.
    pub value: Secret,
}

/// Why a credential cannot be had. No error has a secret in it.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// What was stored cannot be read.
    #[error(transparent)]
    File(#[from] CredentialFileError),
    /// The project declares it, and nothing is stored.
    #[error("there is no credential for `{server}` on behalf of `{principal}`")]
    Missing {
        /// The server, as specs name it.
        server: String,
        /// Whose it would be.
        principal: String,
    },
    /// The project says where it is, and nobody has approved on this machine that it is sent to that server.
    #[error(
        "the credential of `{principal}` for `{server}` comes from `{from}`, which was never approved on this machine"
    )]
    NotApproved {
        /// The server, as specs name it.
        server: String,
        /// Whose it is.
        principal: String,
        /// Where it is said to be.
        from: SecretRef,
    },
    /// The place it is said to be in has none.
    #[error("the credential of `{principal}` for `{server}` comes from `{from}`, but {source}")]
    LookUp {
        /// The server, as specs name it.
        server: String,
        /// Whose it is.
        principal: String,
        /// Where it is said to be.
        from: SecretRef,
        /// Why it is not.
        source: LookUpError,
    },
    /// The server wants one, and nobody has said anything about it.
    #[error("`{server}` wants a credential, and there is none for `{principal}`")]
    Wanted {
        /// The server, as specs name it.
        server: String,
        /// On whose behalf it was asked.
        principal: String,
    },
    /// The server wants another one.
    #[error("`{server}` does not accept the credential that it was sent for `{principal}`")]
    NotAccepted {
        /// The server, as specs name it.
        server: String,
        /// On whose behalf it was asked.
        principal: String,
    },
    /// It cannot be part of a request.
    #[error("the credential of `{principal}` for `{server}` {why}")]
    Unusable {
        /// The server, as specs name it.
        server: String,
        /// Whose it is.
        principal: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A variable of a server that is started here cannot be had.
    #[error("{0}")]
    Variable(String),
}

impl Explain for CredentialError {
    fn code(&self) -> &'static str {
        match self {
            Self::File(error) => error.code(),
            Self::Missing { .. } => "credentials::missing",
            Self::NotApproved { .. } => "credentials::not-approved",
            Self::LookUp { .. } => "credentials::not-found",
            Self::Wanted { .. } => "credentials::wanted",
            Self::NotAccepted { .. } => "credentials::not-accepted",
            Self::Unusable { .. } => "credentials::unusable",
            Self::Variable(_) => "credentials::no-variable",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::File(error) => error.help(),
            Self::Missing { server, principal } | Self::Wanted { server, principal } => {
                format!("add it with `{}`", add(server, principal)).into()
            }
            Self::NotApproved { server, principal, from } => {
                format!("approve it with `{} --from {}`", add(server, principal), quoted(&from.to_string()))
                    .into()
            }
            Self::LookUp { server, principal, .. } => {
                format!("put it there, or store another with `{}`", add(server, principal)).into()
            }
            Self::NotAccepted { server, principal } | Self::Unusable { server, principal, .. } => {
                format!("store another with `{}`", add(server, principal)).into()
            }
            Self::Variable(_) => "set it, or correct `env` in the agent's spec".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::File(error) => error.fault(),
            Self::Missing { .. } | Self::Wanted { .. } | Self::LookUp { .. } | Self::Variable(_) => {
                Fault::Missing
            }
            Self::NotApproved { .. } => Fault::Denied,
            Self::NotAccepted { .. } | Self::Unusable { .. } => Fault::Input,
        }
    }
}

fn add(server: &str, principal: &str) -> String {
    format!("weir auth add {} --principal {}", quoted(server), quoted(principal))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")).into() }
}

/// What was found to be sent, and whose it is.
struct Chosen {
    holder: Holder,
    kind: CredentialKind,
    header: Option<String>,
    given: Given,
}

impl Credentials {
    /// The credentials that a manifest declares and a file keeps. References are looked up in `places`; what is found is told
    /// to `redactor`.
    pub fn new(
        declared: BTreeMap<String, BTreeMap<Principal, Credential>>,
        file: CredentialFile,
        places: Places,
        redactor: Redactor,
    ) -> Self {
        Self { declared, file, places, redactor }
    }

    /// What takes the secrets out of whatever comes back. Every clone knows what this one learns.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The header that a request to `server` on behalf of `principal`, who is in `groups` (`group:…`), has to carry; none if
    /// nothing is declared or stored for them. Looked up anew each time, so that a secret that was changed takes effect.
    ///
    /// # Errors
    /// When one is declared or stored and cannot be had.
    ///
    /// # Cancel safety
    /// Dropping it ends what it started.
    pub async fn resolve(
        &self,
        server: &str,
        principal: &str,
        groups: &[String],
    ) -> Result<Option<Resolved>, CredentialError> {
        let ranks = Ranks { principal, groups };
        let Some(chosen) = self.chosen(server, &ranks).await? else { return Ok(None) };
        let secret = match &chosen.given {
            Given::Secret(secret) => secret.clone(),
            Given::From(from) => {
                self.places.look_up(from).await.map_err(|source| CredentialError::LookUp {
                    server: server.to_owned(),
                    principal: chosen.holder.to_string(),
                    from: from.clone(),
                    source,
                })?
            }
        };
        self.redactor.learn(&secret);
        let resolved = header(&chosen, &secret).map_err(|why| CredentialError::Unusable {
            server: server.to_owned(),
            principal: chosen.holder.to_string(),
            why,
        })?;
        // The value as a whole may be echoed without its first word, or with another; what matters is learned above.
        self.redactor.learn(&resolved.value);
        Ok(Some(resolved))
    }

    /// The declared variables of a server that is started here. What else it is given is [`Places::inherited`].
    ///
    /// # Errors
    /// When one of them cannot be had.
    pub async fn environment(
        &self,
        references: &BTreeMap<String, SecretRef>,
    ) -> Result<BTreeMap<String, Secret>, CredentialError> {
        let found = self.places.environment(references).await.map_err(CredentialError::Variable)?;
        for secret in found.values() {
            self.redactor.learn(secret);
        }
        Ok(found)
    }

    /// Where references are looked up.
    pub fn places(&self) -> &Places {
        &self.places
    }

    async fn chosen(&self, server: &str, ranks: &Ranks<'_>) -> Result<Option<Chosen>, CredentialError> {
        let declared = self.declared.get(server).and_then(|all| {
            let holders = all.iter().map(|(who, what)| (Holder::Principal(who.clone()), what));
            ranks.nearest(holders, |(holder, _)| holder)
        });
        if let Some((holder, Credential { kind, from: Some(from), header })) = &declared {
            self.check_approved(server, holder, from).await?;
            let (holder, header) = (holder.clone(), header.clone());
            return Ok(Some(Chosen { holder, kind: *kind, header, given: Given::From(from.clone()) }));
        }
        let stored = self.stored(server).await?;
        let stored = ranks.nearest(stored.into_iter(), |entry| &entry.holder);
        match (declared, stored) {
            (Some((_, Credential { kind, header, .. })), Some(entry)) => Ok(Some(Chosen {
                holder: entry.holder,
                kind: *kind,
                // The kind is the project's word; the name of a header may be either's.
                header: header.clone().or(entry.header),
                given: entry.given,
            })),
            (None, Some(Entry { holder, kind, header, given, .. })) => {
                Ok(Some(Chosen { holder, kind, header, given }))
            }
            (Some((holder, _)), None) => {
                Err(CredentialError::Missing { server: server.to_owned(), principal: holder.to_string() })
            }
            (None, None) => Ok(None),
        }
    }

    /// What only the project names is neither started nor sent: a cloned one could name any variable, any file and any server.
    /// Whoever wants it has stored the very same words for that server.
    async fn check_approved(
        &self,
        server: &str,
        holder: &Holder,
        from: &SecretRef,
    ) -> Result<(), CredentialError> {
        let wanted = self.placed(from);
        let is_it = |entry: &Entry| matches!(&entry.given, Given::From(from) if self.placed(from) == wanted);
        if self.stored(server).await?.iter().any(is_it) {
            return Ok(());
        }
        let (server, principal, from) = (server.to_owned(), holder.to_string(), from.clone());
        Err(CredentialError::NotApproved { server, principal, from })
    }

    /// A file is the same file, however it is named: `weir auth add` keeps whole paths.
    fn placed(&self, from: &SecretRef) -> SecretRef {
        match from {
            SecretRef::File(path) => {
                SecretRef::File(self.places.directory.join(path).to_string_lossy().into_owned())
            }
            SecretRef::Env(_) | SecretRef::Exec(_) => from.clone(),
        }
    }

    async fn stored(&self, server: &str) -> Result<Vec<Entry>, CredentialFileError> {
        let file = self.file.clone();
        let loaded = tokio::task::spawn_blocking(move || file.load()).await;
        let entries = loaded.map_err(|_| CredentialFileError::broken_off(self.file.path()))??;
        Ok(entries.into_iter().filter(|entry| entry.server == server).collect())
    }
}

/// Who asks, and as whom they may.
struct Ranks<'a> {
    principal: &'a str,
    groups: &'a [String],
}

impl Ranks<'_> {
    /// The one that is nearest to who asks: their own, then one of a group of theirs (the first by name), then anyone's.
    fn nearest<T>(&self, all: impl Iterator<Item = T>, holder: impl Fn(&T) -> &Holder) -> Option<T> {
        let rank = |of: &Holder| match of {
            Holder::Anyone => Some((2, String::new())),
            Holder::Principal(principal) => {
                let name = principal.to_string();
                match name == self.principal {
                    true => Some((0, name)),
                    false => self.groups.contains(&name).then_some((1, name)),
                }
            }
        };
        let ranked = all.filter_map(|each| Some((rank(holder(&each))?, each)));
        ranked.min_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, each)| each)
    }
}

fn header(chosen: &Chosen, secret: &Secret) -> Result<Resolved, &'static str> {
    let secret = secret.expose();
    let (name, value) = match chosen.kind {
        CredentialKind::Bearer | CredentialKind::Oauth => ("authorization", format!("Bearer {secret}")),
        CredentialKind::Basic if !secret.contains(':') => return Err("is not `user:password`"),
        CredentialKind::Basic => ("authorization", format!("Basic {}", STANDARD.encode(secret))),
        CredentialKind::Header => match chosen.header.as_deref() {
            Some(name) => (name, secret.to_owned()),
            None => return Err("names no header"),
        },
    };
    // A project may name another header for a token; the words of the value stay.
    let name = chosen.header.as_deref().unwrap_or(name);
    if !is_header_name(name) {
        return Err("names something that is no header");
    }
    if value.chars().any(|c| c.is_control() && c != '\t') || value.trim() != value {
        return Err("has characters that cannot be sent in a header");
    }
    Ok(Resolved { header: name.to_ascii_lowercase(), value: Secret::new(value) })
}
