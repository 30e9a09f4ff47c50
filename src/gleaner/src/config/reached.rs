//! How a box is reached: by its address as people know it, and where it listens.

use super::Config;
use base::web::WebUrl;
use server::ListenAddress;

/// Whether programs of other machines can reach it there.
pub(super) fn is_tcp(address: &ListenAddress) -> bool {
    matches!(address, ListenAddress::Tcp(_))
}

impl Config {
    /// How people reach the box that listens at these; without a slash at the end. None where it is at Unix sockets only and
    /// the configuration does not say.
    pub fn public_url(&self, listening: &[ListenAddress]) -> Option<String> {
        // In its normal form, so that a path with a letter beyond ASCII is the one that browsers ask for.
        if let Ok(given) = WebUrl::parse(&self.server.public_url) {
            return Some(given.as_str().trim_end_matches('/').to_owned());
        }
        listening.iter().find(|address| is_tcp(address)).map(|address| self.local_url(address))
    }

    /// The box that listens there, without what may stand before it.
    pub fn local_url(&self, address: &ListenAddress) -> String {
        match address {
            ListenAddress::Unix(_) => address.to_string(),
            ListenAddress::Tcp(address) if self.tls().is_some() => format!("https://{address}"),
            ListenAddress::Tcp(address) => format!("http://{address}"),
        }
    }

    /// The path under which people reach the box, as in `/gleaner`; empty where it has a host of its own.
    pub fn public_path(&self) -> String {
        let given = WebUrl::parse(&self.server.public_url).ok();
        given.map_or(String::new(), |url| url.as_url().path().trim_end_matches('/').to_owned())
    }
}
