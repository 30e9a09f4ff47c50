//! Forged, worn-out and misplaced credentials: access tokens made with everything but the right to make them, tokens of
//! people who are not what they were, and API keys where a person is asked for.

use crate::harness::{Appliance, Joined, PASSWORD, expect, get, join, post, refused, text};
use base::ids::UserId;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use gleaner::features::auth::{Auth, USERS};
use http::Method;
use ring::hmac::{self, HMAC_SHA256, HMAC_SHA384, HMAC_SHA512};
use ring::signature::{Ed25519KeyPair, KeyPair};
use secrets::keyring::{Keyring, Purpose};
use serde_json::{Value, json};
use server::RouteGroup;
use server::client::{Client, Reply};
use std::collections::BTreeSet;
use std::path::PathBuf;

const ME: &str = "/api/v1/auth/me";
const CURRENT: &str = "/api/v1/orgs/current";
/// A route of each gate: any caller, a browser, a member, a permission, the console's mount guard.
const GATES: &[&str] = &[
    ME,
    "/api/v1/cli-auth/info?user_code=BCDF-GHJK",
    CURRENT,
    "/api/v1/orgs/current/members",
    "/api/v1/bi/tables",
];
/// Operations that want a person's own session (routes of the design, "browser").
const BROWSER: &[&str] = &[
    "getCliAuthInfo",
    "approveCliAuth",
    "createOrg",
    "deleteOrg",
    "acceptInvite",
    "requestAccountExport",
    "getAccountExport",
    "deleteAccount",
    "listSessions",
    "endSession",
    "endOtherSessions",
];

fn key_file(at: &Appliance) -> PathBuf {
    at.data_dir().with_extension("key")
}

/// Whoever has the box's key file and a good token, and wants another one.
struct Forger {
    keyring: Keyring,
    /// Every text or bytes that a verifier could be made to take for the key.
    secrets: Vec<Vec<u8>>,
    header: String,
    payload: Value,
    good: String,
}

impl Forger {
    fn of(at: &Appliance, token: &str) -> Forger {
        let file: toml::Table = std::fs::read_to_string(key_file(at)).unwrap().parse().unwrap();
        let secret = file["signing"][0]["secret"].as_str().unwrap();
        let raw = STANDARD.decode(secret).unwrap();
        let [header, payload, _] = token.split('.').collect::<Vec<_>>()[..] else { panic!("{token}") };
        let decoded = |part| String::from_utf8(URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
        Forger {
            keyring: Keyring::load(&key_file(at)).unwrap(),
            secrets: vec![raw, secret.as_bytes().to_vec(), Vec::new(), b"secret".to_vec()],
            header: decoded(header),
            payload: serde_json::from_str(&decoded(payload)).unwrap(),
            good: token.to_owned(),
        }
    }

    /// With the box's own signature, as only the box can make it.
    fn signed(&self, header: &str, payload: &str) -> String {
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
        let (_, tag) = self.keyring.sign(Purpose::AccessToken, text.as_bytes());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(tag))
    }

    /// The own header and signature over changed claims.
    fn claims(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut payload = self.payload.clone();
        change(&mut payload);
        self.signed(&self.header, &payload.to_string())
    }

    /// Another algorithm in the header, signed with everything that could be mistaken for its key.
    fn other_algorithms(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let payload = URL_SAFE_NO_PAD.encode(self.payload.to_string());
        for name in [
            "none", "None", "nOnE", "", "HS384", "HS512", "RS256", "PS256", "ES256", "EdDSA", "hs256",
            "HS256 ",
        ] {
            let header = self.header.replace("HS256", name);
            let text = format!("{}.{payload}", URL_SAFE_NO_PAD.encode(&header));
            all.push((format!("alg {name} without a signature"), format!("{text}.")));
            all.push((
                format!("alg {name} with the box's own tag"),
                self.signed(&header, &self.payload.to_string()),
            ));
            let signature = self.good.rsplit('.').next().unwrap();
            all.push((format!("alg {name} with the old signature"), format!("{text}.{signature}")));
            for (n, secret) in self.secrets.iter().enumerate() {
                for algorithm in [HMAC_SHA256, HMAC_SHA384, HMAC_SHA512] {
                    let tag = hmac::sign(&hmac::Key::new(algorithm, secret), text.as_bytes());
                    let what = format!("alg {name}, {algorithm:?} with secret {n}");
                    all.push((what, format!("{text}.{}", URL_SAFE_NO_PAD.encode(tag))));
                }
            }
        }
        all
    }

    /// The right algorithm under keys that are not the signing key, and a key that comes along in the header.
    fn foreign_signatures(&self) -> Vec<(String, String)> {
        let signed = self.good.rsplit_once('.').unwrap().0;
        let mut tags: Vec<(String, Vec<u8>)> = vec![
            (
                "the key of another purpose".into(),
                self.keyring.sign(Purpose::Link, signed.as_bytes()).1.to_vec(),
            ),
            ("no bytes".into(), Vec::new()),
            (
                "a shorter tag".into(),
                self.keyring.sign(Purpose::AccessToken, signed.as_bytes()).1[..31].to_vec(),
            ),
            ("zeros".into(), vec![0; 32]),
        ];
        for (n, secret) in self.secrets.iter().enumerate() {
            let tag = hmac::sign(&hmac::Key::new(HMAC_SHA256, secret), signed.as_bytes());
            tags.push((format!("secret {n}"), tag.as_ref().to_vec()));
        }
        let tokens =
            tags.into_iter().map(|(what, tag)| (what, format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))));
        let mut all: Vec<_> = tokens.collect();
        let pair = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(pair.as_ref()).unwrap();
        let own = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
        let jwk =
            format!(r#"{{"alg":"EdDSA","typ":"at+jwt","jwk":{{"kty":"OKP","crv":"Ed25519","x":"{own}"}}}}"#);
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(&jwk), signed.split('.').nth(1).unwrap());
        let tag = URL_SAFE_NO_PAD.encode(pair.sign(text.as_bytes()).as_ref());
        all.push(("a key in the header".into(), format!("{text}.{tag}")));
        for added in
            [r#","jku":"http://127.0.0.1/keys""#, r#","crit":["exp"]"#, r#","zip":"DEF""#, r#","b64":false"#]
        {
            let header = self.header.replace('}', &format!("{added}}}"));
            all.push((format!("header with {added}"), self.signed(&header, &self.payload.to_string())));
        }
        for (from, to) in [
            ("at+jwt", "JWT"),
            ("at+jwt", "jwt"),
            ("\"typ\":\"at+jwt\",", ""),
            ("\"kid\":\"", "\"kid\":\"../"),
        ] {
            let header = self.header.replace(from, to);
            assert_ne!(header, self.header, "{from} is not in the header");
            all.push((format!("{to} for {from}"), self.signed(&header, &self.payload.to_string())));
        }
        all
    }

    /// Claims that the box would not make, under its own signature.
    fn other_claims(&self, now: f64) -> Vec<(String, String)> {
        let set = |name: &str, value: Value| {
            (format!("{name} {value}"), self.claims(|claims| claims[name] = value))
        };
        let mut all = vec![
            set("exp", json!(now - 0.001)),
            set("exp", json!(now)),
            set("exp", json!(0)),
            set("exp", json!(-1)),
            set("exp", json!(now + 3_600.0)),
            set("exp", json!(1e300)),
            set("exp", json!("never")),
            set("exp", json!(null)),
            set("nbf", json!(now + 3_600.0)),
            set("nbf", json!(1e300)),
            set("nbf", json!("soon")),
            set("iat", json!("now")),
            set("iss", json!("other")),
            set("iss", json!(["gleaner"])),
            set("iss", json!("gleaner-api")),
            set("aud", json!("other-api")),
            set("aud", json!("gleaner")),
            set("aud", json!("")),
            set("sub", json!(UserId::new().to_string())),
            set("sub", json!("")),
            set("sub", json!("00000000-0000-0000-0000-000000000000")),
            set("sub", json!([self.payload["sub"]])),
            set("sub", json!(7)),
        ];
        for name in ["iss", "aud", "sub", "iat", "exp"] {
            let without = self.claims(|claims| drop(claims.as_object_mut().unwrap().shift_remove(name)));
            all.push((format!("without {name}"), without));
        }
        let text = self.payload.to_string();
        let twice = text.replacen('{', &format!(r#"{{"sub":"{}","#, UserId::new()), 1);
        for (what, payload) in
            [("two subjects", twice.as_str()), ("a list", "[]"), ("no object", "null"), ("nothing", "")]
        {
            all.push((what.to_owned(), self.signed(&self.header, payload)));
        }
        all.push(("something behind the claims".into(), self.signed(&self.header, &format!("{text}{text}"))));
        all
    }

    /// The good token, taken apart and put together wrongly.
    fn garbled(&self) -> Vec<(String, String)> {
        let parts: Vec<_> = self.good.split('.').collect();
        let [header, payload, signature] = parts[..] else { panic!("{}", self.good) };
        let padded = |part: &str| URL_SAFE.encode(URL_SAFE_NO_PAD.decode(part).unwrap());
        let mut all: Vec<(String, String)> = [
            ("a part missing", format!("{header}.{payload}")),
            ("only the claims", payload.to_owned()),
            ("a part too many", format!("{}.{signature}", self.good)),
            ("parts in another order", format!("{payload}.{header}.{signature}")),
            ("padding", format!("{header}.{payload}.{}", padded(signature))),
            ("padding of the claims", format!("{header}.{}=.{signature}", payload)),
            ("blank parts", "..".to_owned()),
            ("five parts", format!("{header}.{payload}.{payload}.{payload}.{signature}")),
            ("quotes", format!("\"{}\"", self.good)),
            ("other capitals", self.good.to_uppercase()),
            ("a blank inside", format!("{header}. {payload}.{signature}")),
            ("two tokens", format!("{0},{0}", self.good)),
            ("very long", format!("{header}.{}.{signature}", payload.repeat(100))),
            (
                "JSON",
                format!(r#"{{"payload":"{payload}","protected":"{header}","signature":"{signature}"}}"#),
            ),
        ]
        .map(|(what, token)| (what.to_owned(), token))
        .into();
        for cut in (1..self.good.len()).step_by(7) {
            all.push((format!("cut at {cut}"), self.good[..cut].to_owned()));
        }
        all
    }
}

/// A 401 in its own envelope, whatever the path (data/docs/api.md, "Errors").
fn unauthorized(reply: &Reply, what: &str) {
    assert_eq!(reply.status.as_u16(), 401, "{what}: {}", reply.text());
    assert!(reply.json["error"].is_string(), "{what}: a 401 is flat: {}", reply.text());
    assert_eq!(reply.header("www-authenticate"), "Bearer", "{what}");
}

#[tokio::test]
async fn no_forged_token_passes_any_gate() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let credentials = json!({ "email": owner.email, "password": PASSWORD });
    let login = expect(post(&at.client(), "/api/v1/auth/login", &credentials).await, 200);
    let token = text(&login, "accessToken");
    let forger = Forger::of(&at, token);
    // What the forger makes is good as long as nothing is wrong with it: what follows is refused for its one fault.
    let same = forger.signed(&forger.header, &forger.payload.to_string());
    let begun = forger.claims(|claims| claims["nbf"] = claims["iat"].clone());
    for good in [token, same.as_str(), begun.as_str()] {
        expect(get(&at.client().bearer(good), ME).await, 200);
        expect(get(&at.client().bearer(good), "/api/v1/bi/tables").await, 200);
    }
    let now = at.clock.now().millis() as f64 / 1e3;
    let mut forged = forger.other_algorithms();
    forged.extend(forger.foreign_signatures());
    forged.extend(forger.other_claims(now));
    forged.extend(forger.garbled());
    assert!(forged.len() > 250, "{}", forged.len());
    for (n, (what, token)) in forged.iter().enumerate() {
        let client = at.client().bearer(token);
        unauthorized(&get(&client, ME).await, what);
        let other = GATES[n % GATES.len()];
        unauthorized(&get(&client, other).await, &format!("{what} at {other}"));
    }
    for gate in GATES {
        unauthorized(&get(&at.client().bearer(&forged[0].1), gate).await, gate);
    }
    at.stop().await;
}

#[tokio::test]
async fn a_token_counts_in_the_authorization_header_only_and_once() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let credentials = json!({ "email": owner.email, "password": PASSWORD });
    let login = expect(post(&at.client(), "/api/v1/auth/login", &credentials).await, 200);
    let token = text(&login, "accessToken");
    let with = |name: &str, value: String| at.client().header(name, &value);
    expect(get(&with("authorization", format!("bearer  {token} ")), ME).await, 200);
    for (what, client) in [
        ("a cookie", with("cookie", format!("access_token={token}; token={token}"))),
        ("another header", with("x-access-token", token.to_owned())),
        ("the proxy's header", with("proxy-authorization", format!("Bearer {token}"))),
        ("no scheme", with("authorization", token.to_owned())),
        ("another scheme", with("authorization", format!("Token {token}"))),
        ("Basic", with("authorization", format!("Basic {}", STANDARD.encode(format!("{token}:"))))),
        ("two credentials", with("authorization", format!("Bearer {token}, Bearer {token}"))),
        ("a key before it", with("authorization", format!("Bearer {} {token}", owner.key))),
    ] {
        unauthorized(&get(&client, ME).await, what);
    }
    unauthorized(&get(&at.client(), &format!("{ME}?access_token={token}")).await, "the query");
    let twice = format!(
        "GET {ME} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nauthorization: Bearer {token}\r\n\
         connection: close\r\n\r\n"
    );
    let answer = crate::hostile::raw(crate::hostile::address(&at), twice.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("more than once"), "{answer}");
    at.stop().await;
}

#[tokio::test]
async fn tokens_outlive_a_new_signing_key_but_not_the_end_of_theirs() {
    let mut at = Appliance::start().await;
    let owner = at.member("ada").await;
    let credentials = json!({ "email": owner.email, "password": PASSWORD });
    let log_in = async |at: &Appliance| {
        let login = expect(post(&at.client(), "/api/v1/auth/login", &credentials).await, 200);
        text(&login, "accessToken").to_owned()
    };
    let old = log_in(&at).await;
    let path = key_file(&at);
    let mut file: toml::Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
    let signing = file["signing"].as_array_mut().unwrap();
    let fresh: toml::Table =
        format!("id = \"0000abcd\"\nsecret = \"{}\"", STANDARD.encode([7; 32])).parse().unwrap();
    signing.insert(0, fresh.into());
    std::fs::write(&path, file.to_string()).unwrap();
    at.restart().await;
    let new = log_in(&at).await;
    for token in [&old, &new] {
        expect(get(&at.client().bearer(token), ME).await, 200);
    }
    file["signing"].as_array_mut().unwrap().pop();
    std::fs::write(&path, file.to_string()).unwrap();
    at.restart().await;
    unauthorized(&get(&at.client().bearer(&old), ME).await, "a token of a key that is gone");
    expect(get(&at.client().bearer(&new), ME).await, 200);
    at.stop().await;
}

#[tokio::test]
async fn a_removed_member_s_token_names_a_person_without_an_organization() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let Joined { id, browser: bob, .. } = join(&at, &owner.browser, "bob", "admin").await;
    for gate in GATES.iter().filter(|gate| !gate.contains("cli-auth")) {
        expect(get(&bob, gate).await, 200);
    }
    let removed = owner.browser.delete(&format!("/api/v1/orgs/current/members/{id}")).await.unwrap();
    assert_eq!(removed.status, 204);
    let me = expect(get(&bob, ME).await, 200);
    assert!(me["organization"].is_null() && me["role"].is_null() && me["permissions"] == json!([]), "{me}");
    for path in [CURRENT, "/api/v1/orgs/current/members", "/api/v1/jobs", "/api/v1/api-keys"] {
        refused(&get(&bob, path).await, 403, "No organization exists for this user", "");
    }
    let job = json!({ "url": "http://example.com" });
    refused(&post(&bob, "/api/v1/jobs", &job).await, 403, "No organization exists for this user", "");
    for path in ["/api/v1/bi/tables", "/api/v1/bi/queries"] {
        let refusal = get(&bob, path).await;
        assert_eq!((refusal.status.as_u16(), &refusal.json["error"]["code"]), (403, &json!("no_org")));
        assert_eq!(refusal.json["error"]["request_id"], refusal.header("x-request-id"));
    }
    at.stop().await;
}

#[tokio::test]
async fn an_erased_person_s_credentials_are_401_everywhere() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let Joined { id, token, browser: bob } = join(&at, &owner.browser, "bob", "admin").await;
    let key = expect(post(&bob, "/api/v1/api-keys", &json!({ "name": "his" })).await, 201);
    let credentials = json!({ "email": "bob@example.com", "password": PASSWORD });
    let login = expect(post(&at.client(), "/api/v1/auth/login", &credentials).await, 200);
    // What is left when an account is erased is nothing: no row stands behind the credentials any more.
    let user: UserId = id.parse().unwrap();
    let auth = at.app().services().service::<Auth>();
    assert!(auth.system().write(move |tx| tx.delete(&USERS, &user)).await.unwrap());
    for credential in [token.as_str(), text(&login, "accessToken"), text(&key, "secret")] {
        for gate in GATES {
            unauthorized(
                &get(&at.client().bearer(credential), gate).await,
                &format!("{credential} at {gate}"),
            );
        }
    }
    let refresh = json!({ "refreshToken": login["refreshToken"] });
    refused(&post(&at.client(), "/api/v1/auth/refresh", &refresh).await, 401, "Invalid refresh token", "");
    refused(
        &post(&at.client(), "/api/v1/auth/login", &credentials).await,
        401,
        "Invalid email or password",
        "",
    );
    at.stop().await;
}

#[tokio::test]
async fn a_token_from_before_a_reset_is_401_at_every_gate_and_keys_live_on() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    expect(post(&at.client(), "/api/v1/auth/forgot-password", &json!({ "email": owner.email })).await, 200);
    let reset = json!({ "token": at.mailed_token("glp_").await, "password": "another long passphrase" });
    expect(post(&at.client(), "/api/v1/auth/reset-password", &reset).await, 200);
    for gate in GATES {
        unauthorized(&get(&owner.browser, gate).await, gate);
    }
    refused(&get(&owner.browser, ME).await, 401, "Invalid authentication token", "session has ended");
    expect(get(&owner.api, CURRENT).await, 200);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_key_never_passes_where_a_person_is_asked_for() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let mut seen = BTreeSet::new();
    for RouteGroup { routes, .. } in gleaner::app::routes() {
        for route in routes {
            let path = route.variables().fold(route.path().to_owned(), |path, variable| {
                path.replace(&format!("{{{variable}}}"), &UserId::new().to_string())
            });
            // A gate asks before anything of the request is read, so a body that is none changes nothing.
            let method: Method = route.method().parse().unwrap();
            let reply = call(&owner.api, method, &path).await;
            let place = format!("{} {}", route.method(), route.path());
            let asks = reply.json["message"]
                .as_str()
                .is_some_and(|message| message.contains("an API key will not do"));
            if BROWSER.contains(&route.id()) {
                refused(&reply, 403, "Insufficient permissions", "an API key will not do");
                seen.insert(route.id());
            }
            assert_eq!(asks, BROWSER.contains(&route.id()), "{place}: {}", reply.text());
        }
    }
    for id in ["getCliAuthInfo", "approveCliAuth", "createOrg", "acceptInvite"] {
        assert!(seen.contains(id), "{id} is no operation any more");
    }
    at.stop().await;
}

async fn call(client: &Client, method: Method, path: &str) -> Reply {
    let has_body = matches!(method, Method::POST | Method::PUT | Method::PATCH);
    client.send(method, path, has_body.then_some(&json!({}))).await.unwrap()
}
