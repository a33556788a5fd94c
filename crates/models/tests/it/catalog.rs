//! Every model of the built-in catalog can be connected to.

use weir_models::{Endpoint, HttpClient, connect, usual_key_env};
use weir_types::Catalog;

#[test]
fn every_model_has_a_place_a_key_and_room() {
    let client = HttpClient::new();
    for (name, card) in Catalog::builtin().unwrap().iter() {
        let model = connect(card, name, Endpoint::of(card, name, None), &client);
        assert_eq!(model.unwrap().wire(), card.wire, "{name}");
        let (provider, _) = name.split_once('/').unwrap();
        assert!(card.key_env.is_some() || usual_key_env(provider).is_some(), "{name} has no key");
        assert!(card.output_max < card.context_window, "{name} leaves no room for a question");
        let price = card.price.unwrap();
        assert!(price.cache_read <= price.input && price.input <= price.output, "{name} costs {price:?}");
    }
}
