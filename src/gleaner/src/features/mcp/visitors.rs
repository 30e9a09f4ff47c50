//! Which hosts and origins a message may name.
//!
//! A page in somebody's browser can send requests to a box in their network, under a name that it has made point there (DNS
//! rebinding). It has no key, and so could do nothing; the protocol wants such requests refused before anything is looked at.

use super::config::McpConfig;
use base::web::WebUrl;
use base::{Code, Error, Result};
use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use std::net::IpAddr;
use url::Host;

/// The hosts and origins that are let in.
#[derive(Debug)]
pub(super) struct Visitors {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Visitors {
    /// Those of the configuration, and the address under which people reach the box.
    pub fn new(config: &McpConfig, url: &str) -> Result<Visitors> {
        let own = WebUrl::parse(url).map_err(|e| Error::invalid("server.public_url", e.to_string()))?;
        let mut visitors =
            Visitors { hosts: vec![own.host().to_ascii_lowercase()], origins: vec![own.origin().to_owned()] };
        for host in &config.hosts {
            let is_host = host.parse::<Authority>().is_ok_and(|it| it.host() == host && it.port().is_none());
            if !is_host {
                return Err(Error::invalid("mcp.hosts", format!("{host} is no host name")));
            }
            visitors.hosts.push(host.to_ascii_lowercase());
        }
        for origin in &config.origins {
            let parsed = WebUrl::parse(origin).ok().map(|url| url.origin().to_owned());
            let origin = parsed.filter(|parsed| parsed == origin.trim_end_matches('/'));
            visitors.origins.push(origin.ok_or_else(|| {
                Error::invalid("mcp.origins", "names origins such as https://tools.example:8443")
            })?);
        }
        Ok(visitors)
    }

    /// Refuses a request under another name, or from a page of another origin.
    pub fn check(&self, headers: &HeaderMap) -> Result<()> {
        let host = headers.get(HOST).map(|host| host.to_str().unwrap_or("?"));
        if let Some(host) = host.filter(|host| !self.is_own(host)) {
            return Err(Error::new(Code::AuthForbidden).message(format!(
                "Host: {host} is no name of this box; its operator lists names in mcp.hosts."
            )));
        }
        let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or("?"));
        match origin.filter(|origin| !self.is_listed(origin)) {
            None => Ok(()),
            Some(origin) => Err(Error::new(Code::AuthForbidden).message(format!(
                "Origin: pages of {origin} may not use this; the box's operator lists origins in mcp.origins."
            ))),
        }
    }

    /// Whether pages of an origin may use the box: those that are listed, and those of programs on the caller's own machine.
    fn is_listed(&self, origin: &str) -> bool {
        let is_near = WebUrl::parse(origin).is_ok_and(|url| match url.host_kind() {
            Host::Ipv4(ip) => ip.is_loopback(),
            Host::Ipv6(ip) => ip.is_loopback(),
            Host::Domain(name) => name == "localhost",
        });
        is_near || self.origins.iter().any(|own| own.eq_ignore_ascii_case(origin))
    }

    /// Whether a host is the box's: an address cannot be made to point elsewhere, nor can `localhost`.
    fn is_own(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        host.parse::<IpAddr>().is_ok() || host == "localhost" || self.hosts.contains(&host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visitors() -> Visitors {
        let config = McpConfig {
            hosts: vec!["Box.lan".to_owned()],
            origins: vec!["https://tools.example:8443".to_owned()],
        };
        Visitors::new(&config, "https://gleaner.example/box").unwrap()
    }

    fn admits(host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        visitors().check(&headers).is_ok()
    }

    #[test]
    fn names_of_the_box_and_pages_that_are_listed() {
        for host in
            ["gleaner.example", "box.lan:8080", "127.0.0.1:8080", "[::1]:8080", "localhost", "10.0.0.7"]
        {
            assert!(admits(host, None), "{host}");
        }
        for host in ["evil.example", "gleaner.example.evil.example", "localhost.evil.example", "a b"] {
            assert!(!admits(host, None), "{host}");
        }
        for origin in
            ["https://gleaner.example", "https://tools.example:8443", "http://localhost:6274", "http://[::1]"]
        {
            assert!(admits("localhost", Some(origin)), "{origin}");
        }
        for origin in [
            "null",
            "http://gleaner.example",
            "https://tools.example",
            "http://localhost.evil.example",
            "https://evil.example",
        ] {
            assert!(!admits("localhost", Some(origin)), "{origin}");
        }
    }

    #[test]
    fn what_is_no_origin_or_host_ends_the_start() {
        let tried = |hosts: &[&str], origins: &[&str]| {
            let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
            Visitors::new(
                &McpConfig { hosts: texts(hosts), origins: texts(origins) },
                "http://127.0.0.1:8080",
            )
        };
        assert!(tried(&["box.lan"], &["http://a.example"]).is_ok());
        for host in ["box.lan:80", "a/b", "", "http://box.lan"] {
            assert!(tried(&[host], &[]).unwrap_err().to_string().contains("mcp.hosts"), "{host}");
        }
        for origin in ["*", "tools.example", "https://tools.example/path", "null"] {
            assert!(tried(&[], &[origin]).unwrap_err().to_string().contains("mcp.origins"), "{origin}");
        }
    }
}
