//! Routes: for which jobs a published workflow stands in (data/docs/api.md, "Jobs and dispatch").

use base::web::WebUrl;
use base::{Error, Result};

/// The route of every job that no other workflow takes.
pub const EVERYBODY: &str = "*";
const DOMAIN: &str = "domain:";

/// `*`, or `domain:` and a host in its normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route(String);

impl Route {
    /// Reads a route; a refusal names `route`.
    pub fn parse(text: &str) -> Result<Route> {
        if text == EVERYBODY {
            return Ok(Route(text.to_owned()));
        }
        let host = text.strip_prefix(DOMAIN).ok_or_else(|| {
            Error::invalid(
                "route",
                "must be * (every job), domain:<domain> such as domain:example.com, or null",
            )
        })?;
        let refused = |reason: String| Error::invalid("route", format!("the domain {reason}"));
        // The URL parser knows what a host is; whatever else a URL has must not be there.
        let url = WebUrl::parse(&format!("http://{host}/")).map_err(|e| refused(e.to_string()))?;
        if url.as_str() != format!("http://{}/", url.host()) {
            return Err(refused("must be a host name and nothing more".to_owned()));
        }
        Ok(Route(format!("{DOMAIN}{}", url.host().trim_end_matches('.'))))
    }

    pub fn into_string(self) -> String {
        self.0
    }

    /// The routes that take a job for `url`, the most particular first: its host, its registrable domain, everybody.
    pub fn of_url(url: &WebUrl) -> Vec<String> {
        let host = url.host().trim_end_matches('.');
        let domain = url.domain();
        let mut routes = vec![format!("{DOMAIN}{host}")];
        if domain.as_str() != host {
            routes.push(format!("{DOMAIN}{}", domain.as_str()));
        }
        routes.push(EVERYBODY.to_owned());
        routes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_a_star_or_a_host() {
        for (text, route) in [
            ("*", "*"),
            ("domain:Example.COM", "domain:example.com"),
            ("domain:www.example.com.", "domain:www.example.com"),
            ("domain:münchen.de", "domain:xn--mnchen-3ya.de"),
            ("domain:127.0.0.1", "domain:127.0.0.1"),
        ] {
            assert_eq!(Route::parse(text).unwrap().into_string(), route);
        }
        for text in [
            "",
            "**",
            "example.com",
            "domain:",
            "domain:a b",
            "domain:example.com/x",
            "domain:example.com:8080",
            "domain:u@example.com",
            "domain:example.com?x",
            "Domain:example.com",
        ] {
            let refused = Route::parse(text).unwrap_err();
            assert!(refused.detail().unwrap().starts_with("route: "), "{text}");
        }
    }

    #[test]
    fn the_most_particular_route_comes_first() {
        let of = |url: &str| Route::of_url(&WebUrl::parse(url).unwrap());
        assert_eq!(
            of("http://shop.example.co.uk:8080/x"),
            ["domain:shop.example.co.uk", "domain:example.co.uk", "*"]
        );
        assert_eq!(of("http://example.com/"), ["domain:example.com", "*"]);
    }
}
