//! Which build is deployed: a fold of the stream `engine:deployments`. Whoever deploys appends to it, whoever serves follows it,
//! in this process or in another.

use std::borrow::Cow;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use weir_events::{About, DeploymentMade, Payload};
use weir_journal::{AppendError, Expected, Journal, NewEvent, PAGE_MAX, Part, ReadError};
use weir_types::{BranchId, Event, Explain, Fault, Hash, Seq, StreamName};

/// How often an append that somebody else was faster with is decided again.
const ATTEMPTS_MAX: usize = 16;

/// How far back a rollback can go.
const BEFORE_MAX: usize = 1_000;

/// What is deployed, and what was before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deployments {
    /// What a rollback goes back through; the newest last.
    builds: Vec<Hash>,
    /// The newest event.
    seq: Seq,
}

/// What somebody wants deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deploy {
    /// This build.
    Build(Hash),
    /// What was there before.
    Rollback,
}

/// Why nothing was deployed.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// The journal cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The journal cannot be written.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// There is nothing to go back to.
    #[error("there is no deployment to go back to")]
    NothingBefore,
    /// Others deploy all the time.
    #[error("somebody else deployed at the same time")]
    Busy,
}

impl Explain for DeployError {
    fn code(&self) -> &'static str {
        match self {
            Self::Read(error) => error.code(),
            Self::Append(error) => error.code(),
            Self::NothingBefore => "engine::nothing-before",
            Self::Busy => "engine::deploying",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Read(error) => error.help(),
            Self::Append(error) => error.help(),
            Self::NothingBefore => "name a build: `weir deploy HASH`".into(),
            Self::Busy => "look at what is deployed now, then try again".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Read(error) => error.fault(),
            Self::Append(error) => error.fault(),
            Self::NothingBefore | Self::Busy => Fault::Conflict,
        }
    }
}

impl Deployments {
    /// Reads all of them.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn read(journal: &dyn Journal) -> Result<Self, ReadError> {
        let mut deployments = Self::default();
        if journal.head(&branch()).await?.is_none() {
            return Ok(deployments);
        }
        loop {
            let page = journal.read(&branch(), deployments.seq, PAGE_MAX).await?;
            for event in &page {
                deployments.apply(event);
            }
            if page.len() < PAGE_MAX {
                return Ok(deployments);
            }
        }
    }

    /// What is deployed.
    pub fn current(&self) -> Option<Hash> {
        self.builds.last().copied()
    }

    /// What a rollback would deploy.
    pub fn before(&self) -> Option<Hash> {
        self.builds.len().checked_sub(2).and_then(|index| self.builds.get(index)).copied()
    }

    /// Every change of what is deployed after these, as it comes.
    pub fn follow(&self, journal: &dyn Journal) -> BoxStream<'static, Result<DeploymentMade, ReadError>> {
        let tail = journal.tail(&branch(), self.seq);
        let made = tail.filter_map(|event| async move {
            match event {
                Ok(event) => decode(&event).map(Ok),
                Err(error) => Some(Err(error)),
            }
        });
        made.boxed()
    }

    fn apply(&mut self, event: &Event) {
        self.seq = event.seq;
        let Some(made) = decode(event) else { return };
        if made.rollback {
            self.builds.pop();
        }
        if self.current() != Some(made.manifest) {
            self.builds.push(made.manifest);
        }
        if self.builds.len() > BEFORE_MAX {
            self.builds.remove(0);
        }
    }

    /// What deploying this would say; nothing, if it is what is there.
    fn change(&self, deploy: Deploy, by: &str) -> Result<Option<DeploymentMade>, DeployError> {
        let (manifest, rollback) = match deploy {
            Deploy::Build(hash) => (hash, false),
            Deploy::Rollback => (self.before().ok_or(DeployError::NothingBefore)?, true),
        };
        let previous = self.current();
        let made = DeploymentMade { manifest, previous, by: by.to_owned(), rollback };
        Ok((previous != Some(manifest)).then_some(made))
    }

    /// Deploys. Nothing is written if it is deployed already. What is to be deployed must have been checked: whoever follows
    /// takes it as it is.
    ///
    /// # Errors
    /// When there is nothing to go back to, or the journal cannot be written.
    pub async fn make(
        journal: &dyn Journal,
        deploy: Deploy,
        by: &str,
    ) -> Result<Option<DeploymentMade>, DeployError> {
        for _ in 0..ATTEMPTS_MAX {
            let deployments = Self::read(journal).await?;
            let Some(made) = deployments.change(deploy, by)? else { return Ok(None) };
            let expected = match deployments.seq {
                Seq(0) => Expected::NoStream,
                seq => Expected::Exactly(seq),
            };
            let part = Part { expected, ..Part::new(branch(), vec![encode(&made)]) };
            match journal.append(vec![part]).await {
                Ok(_) => return Ok(Some(made)),
                // Somebody else was faster: what they deployed is what was there before.
                Err(AppendError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(DeployError::Busy)
    }
}

#[expect(clippy::expect_used, reason = "the name is a valid one")]
fn branch() -> BranchId {
    BranchId::main("engine:deployments".parse::<StreamName>().expect("a valid name"))
}

fn decode(event: &Event) -> Option<DeploymentMade> {
    (event.kind.as_str() == DeploymentMade::KIND)
        .then(|| serde_json::from_slice(&event.payload).ok())
        .flatten()
}

fn encode(made: &DeploymentMade) -> NewEvent {
    #[expect(clippy::expect_used, reason = "hashes and text can always be written as JSON")]
    let payload = made.encode().expect("a deployment can always be written as JSON");
    let about = About { actor: Some(made.by.clone()), ..About::default() };
    NewEvent::new(DeploymentMade::kind(), payload).with_meta(about.encode().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_blobs::MemoryBlobs;
    use weir_journal::MemoryJournal;

    use super::*;

    fn hash(name: &str) -> Hash {
        Hash::of(name.as_bytes())
    }

    async fn deploy(journal: &dyn Journal, deploy: Deploy) -> Option<Hash> {
        let made = Deployments::make(journal, deploy, "user:ada").await.unwrap();
        let current = Deployments::read(journal).await.unwrap().current();
        if let Some(made) = &made {
            assert_eq!(Some(made.manifest), current);
        }
        made.map(|made| made.manifest)
    }

    #[tokio::test]
    async fn a_rollback_goes_back_through_what_was_deployed() {
        let journal = MemoryJournal::new(Arc::new(MemoryBlobs::new()));
        let [a, b, c] = ["a", "b", "c"].map(hash);
        assert_eq!(Deployments::read(&journal).await.unwrap(), Deployments::default());
        for build in [a, b, c] {
            assert_eq!(deploy(&journal, Deploy::Build(build)).await, Some(build));
        }
        assert_eq!(deploy(&journal, Deploy::Build(c)).await, None, "it is there already");
        assert_eq!(deploy(&journal, Deploy::Rollback).await, Some(b));
        assert_eq!(deploy(&journal, Deploy::Rollback).await, Some(a));
        let nothing = Deployments::make(&journal, Deploy::Rollback, "user:ada").await;
        assert!(matches!(nothing, Err(DeployError::NothingBefore)), "{nothing:?}");
        // What was gone back from can be deployed again, and gone back from again.
        assert_eq!(deploy(&journal, Deploy::Build(c)).await, Some(c));
        assert_eq!(deploy(&journal, Deploy::Rollback).await, Some(a));
    }

    #[tokio::test]
    async fn those_who_follow_hear_of_every_deployment_after_what_they_know() {
        let journal = MemoryJournal::new(Arc::new(MemoryBlobs::new()));
        let [a, b] = ["a", "b"].map(hash);
        deploy(&journal, Deploy::Build(a)).await;
        let known = Deployments::read(&journal).await.unwrap();
        let mut heard = known.follow(&journal);
        deploy(&journal, Deploy::Build(b)).await;
        deploy(&journal, Deploy::Rollback).await;
        let first = heard.next().await.unwrap().unwrap();
        assert_eq!((first.manifest, first.previous, first.rollback), (b, Some(a), false));
        let second = heard.next().await.unwrap().unwrap();
        assert_eq!((second.manifest, second.previous, second.rollback), (a, Some(b), true));
    }

    #[tokio::test]
    async fn those_who_deploy_at_once_come_one_after_the_other() {
        let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new(Arc::new(MemoryBlobs::new())));
        let all = (0..8).map(|n| {
            let journal = Arc::clone(&journal);
            let deploy = Deploy::Build(hash(&n.to_string()));
            tokio::spawn(async move { Deployments::make(&*journal, deploy, "user:ada").await.unwrap() })
        });
        for task in all.collect::<Vec<_>>() {
            assert!(task.await.unwrap().is_some());
        }
        let read = Deployments::read(&*journal).await.unwrap();
        assert_eq!((read.builds.len(), read.seq), (8, Seq(8)));
    }
}
