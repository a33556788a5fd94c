//! Who is let in, without a server around it.

use super::*;

fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
    all.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
}

fn from(peer: &str) -> Option<Ends> {
    Some(Ends {
        peer: format!("{peer}:9").parse().unwrap(),
        local: "127.0.0.1:80".parse().unwrap(),
        user: PeerUser::Owner,
    })
}

fn proxy() -> Auth {
    let proxy = Proxy {
        header: HeaderName::from_static("x-user"),
        groups: Some(HeaderName::from_static("x-groups")),
        peers: vec!["10.0.0.1".parse().unwrap()],
    };
    Auth { proxy: Some(proxy), admins: vec!["user:root".to_owned()], ..Auth::default() }
}

#[tokio::test]
async fn a_proxy_is_known_by_where_it_is() {
    let auth = proxy();
    let named = headers(&[("x-user", "ada"), ("x-groups", "b, group:a,,a")]);
    let found = auth.resolve(&named, "/", from("10.0.0.1")).await.unwrap();
    let groups = vec!["group:a".to_owned(), "group:b".to_owned()];
    let lasting = |caller| Admitted { caller, standing: Standing::default() };
    assert_eq!(found, lasting(Caller { principal: "user:ada".to_owned(), groups }));
    assert!(auth.resolve(&named, "/", from("[::ffff:10.0.0.1]")).await.is_ok());
    for elsewhere in [from("10.0.0.2"), from("127.0.0.1"), None] {
        assert!(matches!(auth.resolve(&named, "/", elsewhere).await, Err(Unknown::NotAProxy)));
    }
    let owner = headers(&[("x-user", "root")]);
    assert!(matches!(auth.resolve(&owner, "/", from("10.0.0.1")).await, Err(Unknown::Refused(_))));
    let believed = Auth { owner_by_name: true, ..auth };
    assert!(believed.resolve(&owner, "/", from("10.0.0.1")).await.is_ok());
}

#[test]
fn what_says_who_asks_is_not_what_says_that_it_was_passed_on() {
    for (name, expected) in [
        ("x-auth-user", true),
        ("x-forwarded-user", true),
        ("x-forwarded-for", false),
        ("x-forwarded-prefix", false),
        ("cf-connecting-ip", false),
        ("authorization", false),
        ("x-api-key", false),
    ] {
        assert_eq!(Proxy::may_be(&HeaderName::from_static(name)), expected, "{name}");
    }
}

#[tokio::test]
async fn nobody_is_nobody_and_local_is_local() {
    let caller = Caller { principal: "user:ada".to_owned(), groups: vec![] };
    let local = Auth::local(caller.clone(), vec![]);
    for nothing in [headers(&[]), headers(&[("authorization", "Bearer sk-x")])] {
        assert_eq!(local.resolve(&nothing, "/", None).await.unwrap().caller, caller);
    }
    let ours = headers(&[("authorization", "Bearer weir_x")]);
    assert!(matches!(local.resolve(&ours, "/", None).await, Err(Unknown::Refused(_))));
    assert!(matches!(local.resolve(&headers(&[("via", "x")]), "/", None).await, Err(Unknown::Forwarded)));
    assert!(matches!(proxy().resolve(&headers(&[]), "/", None).await, Err(Unknown::Nobody)));
    let key = headers(&[("x-api-key", "weir_x")]);
    assert!(matches!(proxy().resolve(&key, "/sessions", None).await, Err(Unknown::Nobody)));
    assert!(matches!(proxy().resolve(&key, "/v1/models", None).await, Err(Unknown::Refused(_))));
}

/// The same connection of another user, or of one that is not known.
fn of_user(user: PeerUser) -> Option<Ends> {
    from("127.0.0.1").map(|ends| Ends { user, ..ends })
}

#[tokio::test]
async fn on_loopback_another_user_needs_a_token() {
    let owner = Caller { principal: "user:ada".to_owned(), groups: vec!["group:admin".to_owned()] };
    let token = "weir_0123456789012345678901234567890123456789012";
    let local = Auth { local_token: Some(Hash::of(token.as_bytes())), ..Auth::local(owner.clone(), vec![]) };
    let (none, any) = (headers(&[]), headers(&[("authorization", "Bearer sk-x")]));
    let good = headers(&[("authorization", &format!("Bearer {token}"))]);
    assert_eq!(local.resolve(&none, "/", of_user(PeerUser::Owner)).await.unwrap().caller, owner);
    assert_eq!(local.resolve(&any, "/", of_user(PeerUser::Owner)).await.unwrap().caller, owner);
    for user in [PeerUser::Other, PeerUser::Unknown] {
        for headers in [&none, &any] {
            let refused = local.resolve(headers, "/", of_user(user)).await;
            assert!(matches!(refused, Err(Unknown::OtherUser)), "{user:?} {refused:?}");
        }
        assert_eq!(local.resolve(&good, "/", of_user(user)).await.unwrap().caller, owner);
    }
    // It stands for nobody where everybody has to say who they are.
    let asked = Auth { local: None, ..local };
    assert!(matches!(asked.resolve(&good, "/", of_user(PeerUser::Owner)).await, Err(Unknown::Refused(_))));
}

#[test]
fn a_token_is_found_by_what_it_is_and_by_nothing_else() {
    let (text, issued) =
        tokens::issue("user:ada", &["b".to_owned(), "group:a".to_owned()], None, None).unwrap();
    assert!(text.expose().starts_with("weir_") && text.expose().len() == 48);
    assert_eq!(issued.groups, ["group:a", "group:b"]);
    assert!(!serde_json::to_string(&issued).unwrap().contains(text.expose()));
    for nobody in ["group:admin", "ada", "user:", "user:a b"] {
        assert!(tokens::issue(nobody, &[], None, None).is_err(), "{nobody}");
    }
}
