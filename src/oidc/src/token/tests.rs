use super::*;
use crate::Keys;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
};
use serde_json::json;

const RSA: &[u8] = include_bytes!("../../../../tests/data/oidc/rsa.p8");
const NOW: i64 = 1_800_000_000;
const EXPECTED: Expected<'static> = Expected { issuer: "https://id.example", client_id: "box", now: NOW };

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn claims() -> Value {
    json!({ "iss": "https://id.example", "sub": "ada", "aud": "box", "exp": NOW + 300, "iat": NOW, "nonce": "n" })
}

fn token(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
    format!("{message}.{}", b64(sign(message.as_bytes())))
}

fn rsa() -> RsaKeyPair {
    RsaKeyPair::from_pkcs8(RSA).unwrap()
}

fn rsa_signed(pair: &RsaKeyPair, how: &'static dyn RsaEncoding, message: &[u8]) -> Vec<u8> {
    let mut signed = vec![0; pair.public().modulus_len()];
    pair.sign(how, &SystemRandom::new(), message, &mut signed).unwrap();
    signed
}

fn rsa_jwk(id: &str) -> Value {
    let pair = rsa();
    let public = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(pair.public());
    json!({ "kty": "RSA", "kid": id, "use": "sig", "n": b64(public.n), "e": b64(public.e) })
}

fn keys(all: &[Value]) -> Keys {
    Keys::parse(json!({ "keys": all }).to_string().as_bytes()).unwrap()
}

fn rs256(claims: &Value) -> String {
    let pair = rsa();
    token(&json!({ "alg": "RS256", "kid": "r" }), claims, |message| {
        rsa_signed(&pair, &RSA_PKCS1_SHA256, message)
    })
}

fn check(claims: &Value) -> Result<Claims, Fault> {
    Claims::check(&keys(&[rsa_jwk("r")]), &rs256(claims), &EXPECTED, "n", Some("access"))
}

#[test]
fn each_kind_of_signature_is_verified_under_its_own_kind_of_key() {
    let random = SystemRandom::new();
    let ec = |how, size: usize, curve: &str, id: &str| {
        let document = EcdsaKeyPair::generate_pkcs8(how, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(how, document.as_ref(), &random).unwrap();
        let public = pair.public_key().as_ref()[1..].to_vec();
        let jwk = json!({ "kty": "EC", "crv": curve, "kid": id, "x": b64(&public[..size]), "y": b64(&public[size..]) });
        (pair, jwk)
    };
    let (p256, p256_jwk) = ec(&ECDSA_P256_SHA256_FIXED_SIGNING, 32, "P-256", "e");
    let (p384, p384_jwk) = ec(&ECDSA_P384_SHA384_FIXED_SIGNING, 48, "P-384", "f");
    let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let ed = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let ed_jwk = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "d", "x": b64(ed.public_key().as_ref()) });
    let all = keys(&[rsa_jwk("r"), p256_jwk, p384_jwk, ed_jwk]);
    let pair = rsa();
    let sign = |alg: &str, message: &[u8]| match alg {
        "RS256" => rsa_signed(&pair, &RSA_PKCS1_SHA256, message),
        "PS256" => rsa_signed(&pair, &RSA_PSS_SHA256, message),
        "ES256" => p256.sign(&random, message).unwrap().as_ref().to_vec(),
        "ES384" => p384.sign(&random, message).unwrap().as_ref().to_vec(),
        _ => ed.sign(message).as_ref().to_vec(),
    };
    for (alg, id) in [("RS256", "r"), ("PS256", "r"), ("ES256", "e"), ("ES384", "f"), ("EdDSA", "d")] {
        let good = token(&json!({ "alg": alg, "kid": id }), &claims(), |message| sign(alg, message));
        Claims::check(&all, &good, &EXPECTED, "n", None).unwrap_or_else(|fault| panic!("{alg}: {fault}"));
        let unnamed = token(&json!({ "alg": alg }), &claims(), |message| sign(alg, message));
        assert!(Claims::check(&all, &unnamed, &EXPECTED, "n", None).is_ok(), "{alg} without a key's name");
        // Said to be of another algorithm, under each key.
        for other in ["RS256", "PS256", "ES256", "ES384", "EdDSA"].into_iter().filter(|other| *other != alg) {
            let wrong = token(&json!({ "alg": other, "kid": id }), &claims(), |message| sign(alg, message));
            assert!(Claims::check(&all, &wrong, &EXPECTED, "n", None).is_err(), "{alg} as {other}");
        }
        let mut other = claims();
        other["sub"] = json!("eve");
        let (head, rest) = good.split_once('.').unwrap();
        let (_, signature) = rest.split_once('.').unwrap();
        let changed = format!("{head}.{}.{signature}", b64(other.to_string()));
        assert!(Claims::check(&all, &changed, &EXPECTED, "n", None).is_err(), "{alg} changed");
    }
    // A key that is said to be for one algorithm is for no other.
    let mut only = rsa_jwk("r");
    only["alg"] = json!("PS256");
    assert_eq!(
        Claims::check(&keys(&[only]), &rs256(&claims()), &EXPECTED, "n", None).unwrap_err(),
        Fault::UnknownKey
    );
}

#[test]
fn no_token_is_taken_at_its_own_word() {
    let all =
        keys(&[rsa_jwk("r"), json!({ "kty": "oct", "kid": "s", "k": b64("a secret of the provider's") })]);
    let refused = |text: &str| Claims::check(&all, text, &EXPECTED, "n", None).unwrap_err();
    for alg in ["none", "None", "", "HS256", "HS512", "RS1", "ES256K"] {
        let bare = token(&json!({ "alg": alg, "kid": "r" }), &claims(), |_| Vec::new());
        assert!(matches!(refused(&bare), Fault::Token(_)), "{alg}");
    }
    // The public key as a secret, in the forms in which it may be lying about.
    let jwk = rsa_jwk("r");
    let modulus = URL_SAFE_NO_PAD.decode(jwk["n"].as_str().unwrap()).unwrap();
    for secret in [jwk.to_string().into_bytes(), modulus, b"a secret of the provider's".to_vec()] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        for id in ["r", "s"] {
            let forged = token(&json!({ "alg": "HS256", "kid": id }), &claims(), |message| {
                hmac::sign(&key, message).as_ref().to_vec()
            });
            assert!(matches!(refused(&forged), Fault::Token(_)));
        }
    }
    let pair = rsa();
    let with_header =
        |header: Value| token(&header, &claims(), |message| rsa_signed(&pair, &RSA_PKCS1_SHA256, message));
    assert!(matches!(
        refused(&with_header(json!({ "alg": "RS256", "kid": "r", "crit": ["exp"] }))),
        Fault::Token(_)
    ));
    // A key in the header is not looked at.
    let own = with_header(json!({ "alg": "RS256", "kid": "new", "jwk": rsa_jwk("new") }));
    assert_eq!(refused(&own), Fault::UnknownKey);
    for text in [
        "",
        "a.b",
        "a.b.c",
        "a.b.c.d",
        "..",
        &"x".repeat(TOKEN_BYTES_MAX + 1),
        &rs256(&claims()).replace('.', "=."),
    ] {
        assert!(matches!(refused(text), Fault::Token(_)), "{}", &text[..text.len().min(20)]);
    }
}

#[test]
fn each_claim_must_hold() {
    check(&claims()).unwrap();
    let hash = b64(&digest(&ring::digest::SHA256, b"access").as_ref()[..16]);
    for (key, good) in [
        ("aud", json!(["box"])),
        ("azp", json!("box")),
        ("exp", json!(NOW - SKEW_SECS + 1)),
        ("iat", json!(NOW + SKEW_SECS)),
        ("iat", json!(NOW - AGE_SECS_MAX)),
        ("nbf", json!(NOW + SKEW_SECS)),
        ("at_hash", json!(hash)),
        ("exp", json!(NOW as f64 + 0.5)),
    ] {
        let mut changed = claims();
        changed[key] = good.clone();
        check(&changed).unwrap_or_else(|fault| panic!("{key}: {good}: {fault}"));
    }
    for (key, bad) in [
        ("iss", json!("https://id.example/")),
        ("iss", json!(null)),
        ("aud", json!("other")),
        ("aud", json!([])),
        ("aud", json!(["box", "other"])),
        ("azp", json!("other")),
        ("sub", json!(null)),
        ("sub", json!("")),
        ("sub", json!("s".repeat(256))),
        ("exp", json!(null)),
        ("exp", json!(NOW - SKEW_SECS)),
        ("exp", json!("4000000000")),
        ("iat", json!(NOW + SKEW_SECS + 1)),
        ("iat", json!(NOW - AGE_SECS_MAX - SKEW_SECS - 1)),
        ("iat", json!(null)),
        ("nbf", json!(NOW + SKEW_SECS + 1)),
        ("nonce", json!(null)),
        ("nonce", json!("of another sign-in")),
        ("at_hash", json!(b64(&digest(&ring::digest::SHA256, b"another").as_ref()[..16]))),
    ] {
        let mut changed = claims();
        changed[key] = bad.clone();
        assert!(matches!(check(&changed), Err(Fault::Token(_))), "{key}: {bad}");
    }
    let mut several = claims();
    (several["aud"], several["azp"]) = (json!(["other", "box"]), json!("box"));
    check(&several).unwrap();
    // A claim that is there twice is nobody's word.
    let doubled = r#"{"iss":"https://id.example","sub":"ada","sub":"eve","aud":"box","exp":1800000300,"iat":1800000000,"nonce":"n"}"#;
    let pair = rsa();
    let message = format!("{}.{}", b64(r#"{"alg":"RS256","kid":"r"}"#), b64(doubled));
    let text = format!("{message}.{}", b64(rsa_signed(&pair, &RSA_PKCS1_SHA256, message.as_bytes())));
    assert!(Claims::check(&keys(&[rsa_jwk("r")]), &text, &EXPECTED, "n", None).is_err());
}

#[test]
fn claims_are_found_where_providers_put_them() {
    let mut said = claims();
    said["realm_access"] = json!({ "roles": ["a", 7, "b"] });
    said["https://acme.example/groups"] = json!("one");
    said["email_verified"] = json!("true");
    said["_claim_names"] = json!({ "groups": "src1" });
    let read = check(&said).unwrap();
    assert_eq!(read.list("realm_access.roles").unwrap(), ["a", "b"]);
    assert_eq!(read.list("https://acme.example/groups").unwrap(), ["one"]);
    assert_eq!(
        (read.list("groups"), read.is_elsewhere("groups"), read.is_elsewhere("roles")),
        (None, true, false)
    );
    assert_eq!((read.flag("email_verified"), read.flag("sub"), read.flag("none")), (Some(true), None, None));
    let more = json!({ "sub": "ada", "email": "ada@acme.example", "email_verified": false });
    let read = read.with_userinfo(more.to_string().as_bytes()).unwrap();
    // What is signed goes before what is only told.
    assert_eq!((read.text("email"), read.flag("email_verified")), (Some("ada@acme.example"), Some(true)));
    let other = json!({ "sub": "eve", "email": "x@y.example" });
    assert!(read.with_userinfo(other.to_string().as_bytes()).is_err());
}

#[test]
fn keys_of_other_kinds_are_passed_over() {
    let mut encryption = rsa_jwk("r");
    encryption["use"] = json!("enc");
    let short = json!({ "kty": "EC", "crv": "P-256", "kid": "r", "x": "AA", "y": "AA" });
    let none = keys(&[
        encryption,
        short,
        json!("text"),
        json!({ "kty": "RSA" }),
        json!({ "kty": "AKP", "kid": "r" }),
    ]);
    assert!(none.is_empty());
    assert!(Keys::parse(b"[]").is_err() && Keys::parse(b"<html>").is_err());
    // Zeros in front of a modulus, as some providers write it.
    let mut padded = rsa_jwk("r");
    let modulus = URL_SAFE_NO_PAD.decode(padded["n"].as_str().unwrap()).unwrap();
    padded["n"] = json!(b64([&[0], modulus.as_slice()].concat()));
    assert!(Claims::check(&keys(&[padded]), &rs256(&claims()), &EXPECTED, "n", None).is_ok());
}

#[test]
fn a_logout_token_is_no_id_token_and_the_other_way_round() {
    let all = keys(&[rsa_jwk("r")]);
    let logout = json!({
        "iss": "https://id.example", "aud": "box", "iat": NOW, "exp": NOW + 60, "jti": "j", "sub": "ada", "sid": "s",
        "events": { LOGOUT_EVENT: {} },
    });
    let read = Logout::check(&all, &rs256(&logout), &EXPECTED).unwrap();
    assert_eq!(
        (read.subject.as_deref(), read.session.as_deref(), read.id.as_str()),
        (Some("ada"), Some("s"), "j")
    );
    assert!(Claims::check(&all, &rs256(&logout), &EXPECTED, "n", None).is_err());
    assert!(Logout::check(&all, &rs256(&claims()), &EXPECTED).is_err());
    for (key, bad) in [
        ("iss", json!("https://evil.example")),
        ("aud", json!("other")),
        ("events", json!({})),
        ("nonce", json!("n")),
        ("jti", json!(null)),
        ("exp", json!(NOW - SKEW_SECS)),
        ("iat", json!(NOW - 4_000)),
    ] {
        let mut changed = logout.clone();
        changed[key] = bad;
        assert!(Logout::check(&all, &rs256(&changed), &EXPECTED).is_err(), "{key}");
    }
    let mut nobody = logout;
    (nobody["sub"], nobody["sid"]) = (json!(null), json!(null));
    assert!(Logout::check(&all, &rs256(&nobody), &EXPECTED).is_err());
}
