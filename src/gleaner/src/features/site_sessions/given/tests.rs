//! What is handed over in every form, and what is refused of it.

use super::*;
use serde_json::json;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn shop() -> Domain {
    Domain::parse("shop.test").unwrap()
}

fn of(values: Value) -> Vec<KeptCookie> {
    match cookies(&values, &shop(), NOW).unwrap().values {
        KeptValues::Cookies(cookies) => cookies,
        KeptValues::Headers(_) => unreachable!("cookies were asked for"),
    }
}

fn told(error: &Error) -> &str {
    error.detail().unwrap()
}

#[test]
fn one_cookie_in_every_form() {
    let expected = KeptCookie {
        name: "sid".to_owned(),
        value: "a=b c".to_owned(),
        host: Some(("www.shop.test".to_owned(), true)),
        path: "/in".to_owned(),
        secure: Some(true),
        http_only: true,
        expires_at: Some(Timestamp(1_900_000_000_000)),
    };
    let exported = json!({
        "name": "sid", "value": "a=b c", "domain": "www.shop.test", "hostOnly": true, "path": "/in", "secure": true,
        "httpOnly": true, "sameSite": "lax", "session": false, "storeId": "0", "expirationDate": 1_900_000_000.0,
    });
    let file =
        "# Netscape HTTP Cookie File\n\n#HttpOnly_www.shop.test\tFALSE\t/in\tTRUE\t1900000000\tsid\ta=b c\n";
    for values in [
        json!([exported]),
        json!(json!([exported]).to_string()),
        json!({ "cookies": [exported], "origins": [] }),
        json!(json!({ "cookies": [exported] }).to_string()),
        json!(file),
        json!(file.lines().last().unwrap()),
    ] {
        assert!(of(values.clone()) == [expected.clone()], "{values}");
    }
    let bare = KeptCookie {
        host: None,
        path: "/".into(),
        secure: None,
        http_only: false,
        expires_at: None,
        ..expected
    };
    for values in [
        json!("sid=a=b c"),
        json!(" cookie: sid=a=b c; "),
        json!({ "sid": "a=b c" }),
        json!([{ "name": "sid", "value": "a=b c", "domain": null, "expires": -1 }]),
    ] {
        assert!(of(values.clone()) == [bare.clone()], "{values}");
    }
}

#[test]
fn hosts_ends_and_doubles() {
    let one = |more: Value| {
        let mut cookie = json!({ "name": "a", "value": "1" });
        cookie.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        cookie
    };
    for (more, host) in [
        (json!({ "domain": ".Shop.test" }), Some(("shop.test", false))),
        (json!({ "domain": "shop.test" }), Some(("shop.test", true))),
        (json!({ "domain": "shop.test", "hostOnly": false }), Some(("shop.test", false))),
        (json!({ "domain": "" }), None),
    ] {
        let host = host.map(|(host, alone)| (host.to_owned(), alone));
        assert_eq!(of(json!([one(more.clone())]))[0].host, host, "{more}");
    }
    let mixed = json!([
        one(json!({ "expires": 1_799_999_999 })),
        one(json!({ "domain": "other.test" })),
        one(json!({ "value": "2", "expires": 1_900_000_000_000_i64 })),
        one(json!({ "value": "3", "expires": "2028-01-01T00:00:00Z" })),
        one(json!({ "name": "b", "expires": 1_850_000_000 })),
    ]);
    let given = cookies(&mixed, &shop(), NOW).unwrap();
    assert_eq!((given.left_out, given.names), (2, vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(of(mixed)[0].value, "3", "the later of two counts");
    assert_eq!(given.expires_at, "2028-01-01T00:00:00Z".parse().ok());
    assert_eq!(given.ends_at, Some(Timestamp(1_850_000_000_000)));
    let endless = json!([one(json!({})), one(json!({ "name": "b", "expires": 1_850_000_000 }))]);
    let endless = cookies(&endless, &shop(), NOW).unwrap();
    assert_eq!((endless.expires_at, endless.ends_at), (Some(Timestamp(1_850_000_000_000)), None));
}

#[test]
fn a_refusal_names_the_place_and_not_the_value() {
    let many: Vec<_> = (0..101).map(|n| json!({ "name": format!("c{n}"), "value": "1" })).collect();
    for (values, reason) in [
        (json!(null), "values: must be a list"),
        (json!(7), "values: must be a list"),
        (json!([]), "values: has no cookie"),
        (json!(""), "values: has no cookie"),
        (json!({}), "values: has no cookie"),
        (json!(["secret"]), "values[0]: must be an object"),
        (json!([{ "value": "secret" }]), "values[0].name: is missing"),
        (json!([{ "name": "a" }]), "values[0].value: is missing"),
        (json!([{ "name": "a", "value": 7 }]), "values[0].value: must be a text"),
        (json!([{ "name": "a b", "value": "secret" }]), "values[0].name: must be"),
        (json!([{ "name": "", "value": "secret" }]), "values[0].name: must be"),
        (json!([{ "name": "a", "value": "secret\r\nX: 1" }]), "values[0].value: of a must be"),
        (json!([{ "name": "a", "value": "secret;x" }]), "values[0].value: of a must be"),
        (json!([{ "name": "a", "value": "sécret" }]), "values[0].value: of a must be"),
        (json!([{ "name": "a", "value": "secret", "path": "x" }]), "values[0].path: must begin"),
        (json!([{ "name": "a", "value": "secret", "domain": "a b" }]), "values[0].domain: is not a host"),
        (
            json!([{ "name": "a", "value": "secret", "domain": "shop.test/x" }]),
            "values[0].domain: is not a host",
        ),
        (json!([{ "name": "a", "value": "secret", "secure": "yes" }]), "values[0].secure: must be true"),
        (
            json!([{ "name": "a", "value": "secret", "expires": "soon" }]),
            "values[0].expires: is not an RFC 3339",
        ),
        (json!([{ "name": "a", "value": "secret", "expires": [] }]), "values[0].expires: must be a number"),
        (
            json!([{ "name": "a", "value": "secret", "domain": "other.test" }]),
            "has no cookie for shop.test: 1 are of",
        ),
        (json!([{ "name": "a", "value": "secret", "expires": 1 }]), "0 are of other domains, 1 are over"),
        (json!("secret"), "values: its cookie 1 has no ="),
        (json!("a=1\nsecret"), "values: must be one line"),
        (json!("[secret]"), "values: is no JSON at line 1"),
        (json!("# Netscape\nsecret\tx"), "values: line 2 has not the fields"),
        (json!(many), "values: has 101 cookies; at most 100"),
        (json!([{ "name": "a", "value": "s".repeat(32 << 10) }]), "values: take 32770 bytes; at most 32768"),
    ] {
        let error = cookies(&values, &shop(), NOW).unwrap_err();
        assert!(told(&error).contains(reason), "{values}: {}", told(&error));
        assert!(!told(&error).contains("secret"), "{}", told(&error));
    }
}

#[test]
fn headers_in_both_forms_and_those_that_are_refused() {
    for values in [
        json!({ "Authorization": "Bearer secret", "X-Token": " t " }),
        json!("Authorization: Bearer secret\r\n\nX-Token:t\n"),
    ] {
        let given = headers(&values).unwrap();
        assert_eq!(given.names, ["authorization", "x-token"]);
        let lines = [("Authorization", "Bearer secret"), ("X-Token", "t")];
        let lines = lines.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        assert_eq!(given.values, KeptValues::Headers(lines));
    }
    let many: Map<String, Value> = (0..33).map(|n| (format!("x-{n}"), json!("1"))).collect();
    for (values, reason) in [
        (json!(null), "values: must be an object"),
        (json!([]), "values: must be an object"),
        (json!({}), "values: must have 1 to 32 headers, not 0"),
        (json!(many), "values: must have 1 to 32 headers, not 33"),
        (json!("secret"), "values: line 1 is no header"),
        (json!({ "x": 7 }), "values.x: must be a text"),
        (json!({ "x": "" }), "values.x: must have a value"),
        (json!({ "x": "secret\r\nY: 1" }), "values.x: must have a value"),
        (json!({ "x": "sécret" }), "values.x: must have a value"),
        (json!({ "x": "secret\tx" }), "values.x: must have a value"),
        (json!({ "a b": "secret" }), "values.a b: is not a header's name"),
        (json!({ "Host": "secret" }), "values.Host: is written by the box itself"),
        (json!({ "content-length": "1" }), "values.content-length: is written by the box itself"),
        (json!({ "Transfer-Encoding": "x" }), "is written by the box itself"),
        (json!({ "Connection": "x" }), "is written by the box itself"),
        (json!({ "Proxy-Authorization": "secret" }), "is written by the box itself"),
        (json!({ "Cookie": "secret" }), "values.Cookie: belongs into a session of the kind cookies"),
        (json!({ "X-A": "1", "x-a": "2" }), "is given twice"),
        (json!({ "x": "s".repeat(32 << 10) }), "values: take 32769 bytes"),
    ] {
        let error = headers(&values).unwrap_err();
        assert!(told(&error).contains(reason), "{values}: {}", told(&error));
        assert!(!told(&error).contains("secret"), "{}", told(&error));
    }
}
