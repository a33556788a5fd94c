//! The variables of a server that is started here: what references stand for, looked up at the last moment.

use std::collections::BTreeMap;
use std::path::Path;

use weir_secrets::Places;
use weir_types::SecretRef;

/// The whole environment of a server. The error says which variable is missing and why, and no value.
pub(crate) async fn of_server(
    references: &BTreeMap<String, SecretRef>,
    variables: &BTreeMap<String, String>,
    directory: &Path,
) -> Result<BTreeMap<String, String>, String> {
    let places = Places { variables: variables.clone(), directory: directory.to_owned() };
    let declared = places.environment(references).await?;
    let mut environment = places.inherited();
    environment.extend(declared.into_iter().map(|(name, secret)| (name, secret.expose().to_owned())));
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_gets_what_is_declared_and_what_it_needs_to_start() {
        let variables = [("PATH", "/bin"), ("TOKEN", "from env"), ("X", "no")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let references = BTreeMap::from([("GIVEN".to_owned(), "env:TOKEN".parse().unwrap())]);
        let found = of_server(&references, &variables, Path::new(".")).await.unwrap();
        let expected = [("GIVEN", "from env"), ("PATH", "/bin")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        let references = BTreeMap::from([("GIVEN".to_owned(), "env:NOWHERE".parse().unwrap())]);
        let missing = of_server(&references, &variables, Path::new(".")).await;
        assert_eq!(missing, Err("`GIVEN` comes from `env:NOWHERE`, but that variable is not set".to_owned()));
    }
}
