//! Tokens that somebody else signs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::kit::{Person, Project, Server, within};

/// Thirty-two bytes that are nobody's secret.
const SECRET: &str = "for tests alone, thirty-two byte";

pub(crate) const RSA: [&[u8]; 2] =
    [include_bytes!("keys/test-only-rsa-1.der"), include_bytes!("keys/test-only-rsa-2.der")];
const EC: &[u8] = include_bytes!("keys/test-only-ec.der");

fn claims() -> Value {
    json!({"sub": "alice", "iss": "https://id.example", "aud": "weir", "exp": get_current_timestamp() + 600})
}

/// The claims with some of them changed; `null` takes one out.
pub(crate) fn with(changes: &Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => claims.as_object_mut().unwrap().remove(name),
            value => claims.as_object_mut().unwrap().insert(name.clone(), value.clone()),
        };
    }
    claims
}

pub(crate) fn signed(claims: &Value) -> String {
    encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap()
}

/// A token whose parts are exactly these texts, signed with the secret.
fn signed_text(header: &str, claims: &str) -> String {
    let part = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let message = format!("{}.{}", part(header), part(claims));
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256).unwrap();
    format!("{message}.{signature}")
}

pub(crate) async fn status(server: &Server, token: &str) -> u16 {
    Person::new(server, token).get("/sessions").await.status.as_u16()
}

pub(crate) fn shared(project: &Project) -> crate::kit::Serving {
    let serving = project.serve().env("WEIR_AUTH_JWT_SECRET", SECRET);
    serving.arg("--auth-audience").arg("weir").arg("--auth-issuer").arg("https://id.example")
}

#[tokio::test]
async fn only_what_holds_lets_in() {
    let project = Project::new();
    let server = shared(&project).start().await;
    let now = get_current_timestamp();
    for good in [
        json!({}),
        json!({"aud": ["other", "weir"]}),
        json!({"exp": now - 30}),
        json!({"nbf": now + 30, "iat": now + 30}),
        json!({"exp": now as f64 + 60.5}),
        json!({"admin": true, "anything": {"else": [1]}}),
    ] {
        assert_eq!(status(&server, &signed(&with(&good))).await, 200, "{good}");
    }
    for bad in [
        json!({"exp": now - 90}),
        json!({"exp": null}),
        json!({"exp": "tomorrow"}),
        json!({"exp": -1}),
        json!({"nbf": now + 90}),
        json!({"iat": now + 90}),
        json!({"iat": "yesterday"}),
        json!({"aud": "other"}),
        json!({"aud": ["other"]}),
        json!({"aud": null}),
        json!({"aud": 7}),
        json!({"iss": "https://evil.example"}),
        json!({"iss": null}),
        json!({"iss": ["https://id.example"]}),
        json!({"sub": null}),
        json!({"sub": ""}),
        json!({"sub": 7}),
        json!({"sub": "a b"}),
        json!({"sub": "a\u{0}"}),
        json!({"sub": "a".repeat(500)}),
    ] {
        assert_eq!(status(&server, &signed(&with(&bad))).await, 401, "{bad}");
    }
    let (good, text) = (signed(&claims()), claims().to_string());
    let head = r#"{"alg":"HS256","typ":"JWT"}"#;
    assert_eq!(status(&server, &signed_text(head, &text)).await, 200, "the helper signs as it should");
    let part = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let doubled = text.replacen('{', r#"{"sub":"bob","#, 1);
    let parts: Vec<&str> = good.split('.').collect();
    for (what, token) in [
        ("no algorithm", format!("{}.{}.", part(r#"{"alg":"none"}"#), part(&text))),
        ("no algorithm, signed", signed_text(r#"{"alg":"none"}"#, &text)),
        ("no algorithm, spelt otherwise", signed_text(r#"{"alg":"nOnE"}"#, &text)),
        ("another algorithm", signed_text(r#"{"alg":"HS512"}"#, &text)),
        ("a public algorithm", signed_text(r#"{"alg":"RS256"}"#, &text)),
        ("two algorithms", signed_text(r#"{"alg":"none","alg":"HS256"}"#, &text)),
        ("no header", signed_text("{}", &text)),
        ("demands", signed_text(r#"{"alg":"HS256","crit":["b64"]}"#, &text)),
        ("a claim twice", signed_text(head, &doubled)),
        ("claims that are a list", signed_text(head, "[1]")),
        ("claims that are no JSON", signed_text(head, "{")),
        ("no signature", format!("{}.{}.", parts[0], parts[1])),
        ("two parts", format!("{}.{}", parts[0], parts[1])),
        ("four parts", format!("{good}.x")),
        ("another signature", format!("{}.{}.{}", parts[0], parts[1], part("x"))),
        ("other claims", format!("{}.{}.{}", parts[0], part(&text.replace("alice", "bob")), parts[2])),
        ("garbage", "garbage".to_owned()),
        ("dots", "..".to_owned()),
        ("no base64", "!!!.???.***".to_owned()),
        ("huge", format!("{}.{}", "a".repeat(20_000), good)),
        ("another secret", {
            let key = EncodingKey::from_secret(b"another secret of thirty-two byt");
            encode(&Header::new(Algorithm::HS256), &claims(), &key).unwrap()
        }),
    ] {
        assert_eq!(status(&server, &token).await, 401, "{what}");
    }
    assert_eq!(status(&server, &good).await, 200, "and it still answers");
    let said = server.log().iter().map(ToString::to_string).collect::<String>();
    assert!(!said.contains(&good) && !said.contains(SECRET), "no token is logged");
}

#[tokio::test]
async fn groups_count_if_their_claim_is_named() {
    let project = Project::new();
    let admin = signed(&with(&json!({"groups": ["admin"], "realm": {"roles": "admin"}})));
    let asks =
        async |server: &Server, token: &str| Person::new(server, token).get("/metrics").await.status.as_u16();
    let server = shared(&project).start().await;
    assert_eq!(asks(&server, &admin).await, 403, "nobody said that tokens have a say about groups");
    let server = shared(&project).arg("--auth-groups-claim").arg("groups").start().await;
    assert_eq!(asks(&server, &admin).await, 200);
    for none in [json!({}), json!({"groups": []}), json!({"groups": ["staff"]}), json!({"groups": null})] {
        assert_eq!(asks(&server, &signed(&with(&none))).await, 403, "{none}");
    }
    for odd in [
        json!({"groups": [7]}),
        json!({"groups": {"admin": true}}),
        json!({"groups": [""]}),
        json!({"groups": vec!["g"; 300]}),
    ] {
        assert_eq!(asks(&server, &signed(&with(&odd))).await, 401, "{odd}");
    }
    let server = shared(&project).arg("--auth-groups-claim").arg("realm.roles").start().await;
    assert_eq!(asks(&server, &admin).await, 200);
}

#[tokio::test]
async fn names_are_users_service_accounts_and_never_the_owner() {
    let project = Project::new();
    let server = shared(&project).arg("--auth-serviceaccount-prefix").arg("svc-").start().await;
    let whoami = async |sub: &str| {
        let token = signed(&with(&json!({"sub": sub})));
        let event = json!({"events": [{"kind": "note.made"}]});
        let said = Person::new(&server, &token).post("/streams/notes/events", &event).await;
        if said.status != 201 && said.status != 200 {
            return said.status.to_string();
        }
        let id = said.json()["id"].as_str().unwrap().to_owned();
        let streams = project.lines(&["streams"]);
        let names = streams.iter().map(|row| row["stream"].as_str().unwrap().to_owned());
        let mut found = String::new();
        for name in names.filter(|name| name.ends_with("/notes")) {
            if project.ok(&["cat", "--stream", &name, "--json"]).contains(&id) {
                found = name;
            }
        }
        found
    };
    assert_eq!(whoami("alice").await, "user:alice/notes");
    assert_eq!(whoami("svc-bot").await, "serviceaccount:bot/notes");
    assert_eq!(whoami("auth0|1/2").await, "user:auth0|1%2F2/notes");
    assert_eq!(whoami("serviceaccount:bot").await, "user:serviceaccount:bot/notes");
    let owner = project.json(&["whoami"])["principal"].as_str().unwrap().to_owned();
    let owner = owner.strip_prefix("user:").unwrap();
    assert_eq!(whoami(owner).await, "401 Unauthorized");
    let server = shared(&project).arg("--auth-owner-by-name").start().await;
    assert_eq!(status(&server, &signed(&with(&json!({"sub": owner})))).await, 200);
}

/// Answers every request with the same keys, until they change.
struct KeyServer {
    url: String,
    keys: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

impl KeyServer {
    async fn start(keys: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/jwks", listener.local_addr().unwrap());
        let (keys, asked) = (Arc::new(Mutex::new(keys)), Arc::new(AtomicUsize::new(0)));
        let (served, counted) = (Arc::clone(&keys), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let body = served.lock().unwrap().clone();
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                let status = if body.is_empty() { "500 Oops" } else { "200 OK" };
                let answer = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { url, keys, asked }
    }

    fn set(&self, keys: String) {
        *self.keys.lock().unwrap() = keys;
    }
}

pub(crate) fn jwk(key: &EncodingKey, algorithm: Algorithm, kid: &str) -> Jwk {
    let mut jwk = Jwk::from_encoding_key(key, algorithm).unwrap();
    jwk.common.key_id = Some(kid.to_owned());
    jwk
}

pub(crate) fn by(key: &EncodingKey, algorithm: Algorithm, kid: &str) -> String {
    let header = Header { kid: Some(kid.to_owned()), ..Header::new(algorithm) };
    encode(&header, &claims(), key).unwrap()
}

#[tokio::test]
async fn keys_behind_an_address_are_fetched_kept_and_fetched_again() {
    let [one, two] = RSA.map(EncodingKey::from_rsa_der);
    let curve = EncodingKey::from_ec_der(EC);
    let first = [jwk(&one, Algorithm::RS256, "one"), jwk(&curve, Algorithm::ES256, "curve")];
    let keys = KeyServer::start(json!({"keys": first}).to_string()).await;
    let project = Project::new();
    let serving = project.serve().arg("--auth-jwks").arg(&keys.url).arg("--auth-audience").arg("weir");
    let server = serving.arg("--auth-jwks-refresh").arg("1").start().await;
    let good = by(&one, Algorithm::RS256, "one");
    assert_eq!(status(&server, &good).await, 200);
    assert_eq!(status(&server, &by(&curve, Algorithm::ES256, "curve")).await, 200);
    let unnamed = encode(&Header::new(Algorithm::RS256), &claims(), &one).unwrap();
    assert_eq!(status(&server, &unnamed).await, 200, "a token need not name its key");
    assert_eq!(keys.asked.load(Ordering::SeqCst), 1, "keys are kept");

    // A public key is no secret, whatever it is called.
    let public = jwk(&one, Algorithm::RS256, "one");
    let public = serde_json::to_value(&public).unwrap();
    let modulus = BASE64_URL_SAFE_NO_PAD.decode(public["n"].as_str().unwrap()).unwrap();
    for secret in [
        modulus,
        public.to_string().into_bytes(),
        public["n"].as_str().unwrap().as_bytes().to_vec(),
        RSA[0].to_vec(),
    ] {
        let confused = EncodingKey::from_secret(&secret);
        assert_eq!(status(&server, &by(&confused, Algorithm::HS256, "one")).await, 401);
    }
    assert_eq!(status(&server, &by(&one, Algorithm::RS512, "one")).await, 401, "one algorithm for each key");
    assert_eq!(status(&server, &by(&two, Algorithm::RS256, "one")).await, 401);
    assert_eq!(status(&server, &by(&curve, Algorithm::ES256, "one")).await, 401);

    // A new key is asked for once somebody names it, and the old ones go with it.
    keys.set(json!({"keys": [jwk(&two, Algorithm::RS256, "two")]}).to_string());
    let next = by(&two, Algorithm::RS256, "two");
    let rotated = async { while status(&server, &next).await != 200 {} };
    within("the new key is known", rotated).await;
    assert_eq!(status(&server, &good).await, 401, "the old key is gone");

    // What cannot be had again stays as it was, and is not asked for at every request.
    keys.set(String::new());
    let before = keys.asked.load(Ordering::SeqCst);
    let strange = by(&one, Algorithm::RS256, "strange");
    let asked_again = async {
        while keys.asked.load(Ordering::SeqCst) == before {
            assert_eq!(status(&server, &strange).await, 401);
        }
    };
    within("the keys are asked for again", asked_again).await;
    for _ in 0..20 {
        assert_eq!(status(&server, &strange).await, 401);
    }
    assert_eq!(status(&server, &next).await, 200, "stale keys are better than none");
    server.logged("the keys that tokens are signed with stay as they were").await;
}

#[tokio::test]
async fn keys_may_be_in_a_file() {
    let key = EncodingKey::from_rsa_der(RSA[0]);
    let project = Project::new();
    let keys = json!({"keys": [jwk(&key, Algorithm::RS256, "one")]});
    project.write("jwks.json", &keys.to_string());
    let serving = project.serve().arg("--auth-jwks").arg("jwks.json").arg("--auth-audience").arg("weir");
    let server = serving.start().await;
    assert_eq!(status(&server, &by(&key, Algorithm::RS256, "one")).await, 200);
    assert_eq!(status(&server, &signed(&claims())).await, 401);
    project.write("jwks.json", r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#);
    let serving = project.serve().arg("--auth-jwks").arg("jwks.json").arg("--auth-audience").arg("weir");
    assert!(serving.refused().stderr.contains("cli::jwks"));
}
