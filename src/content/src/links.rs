//! Where links and images of a page lead, seen from its base.

use page::html::Document;
use url::Url;

/// Bytes of a link; longer ones are data and no address, and a long base would make each of a page's links as long.
const LINK_BYTES_MAX: usize = 2_000;

/// Resolves a page's links.
#[derive(Clone, Debug)]
pub struct Links {
    base: Option<Url>,
}

impl Links {
    /// For a page that was fetched from `url`; its `<base>` is followed.
    pub fn new(document: &Document, url: Option<&Url>) -> Links {
        let declared = document.base_href().filter(|href| href.len() <= LINK_BYTES_MAX).map(str::trim);
        let base = match (declared, url) {
            (Some(href), Some(url)) => url.join(href).ok().or_else(|| Some(url.clone())),
            (Some(href), None) => Url::parse(href).ok(),
            (None, url) => url.cloned(),
        };
        Links { base: base.filter(|base| base.as_str().len() <= LINK_BYTES_MAX) }
    }

    /// The address of a link; `None` for scripts, data, what is no address, and places on the page itself.
    pub fn resolve(&self, href: &str) -> Option<String> {
        let href = href.trim();
        if href.is_empty() || href.starts_with('#') {
            return None;
        }
        self.join(href)
            .filter(|url| matches!(url.scheme(), "http" | "https" | "mailto" | "tel" | "ftp"))
            .map(Into::into)
    }

    /// The address of an image.
    pub fn resolve_image(&self, source: &str) -> Option<String> {
        let source = source.trim();
        if source.is_empty() {
            return None;
        }
        self.join(source).filter(|url| matches!(url.scheme(), "http" | "https")).map(Into::into)
    }

    fn join(&self, href: &str) -> Option<Url> {
        if href.len() > LINK_BYTES_MAX {
            return None;
        }
        let url = match &self.base {
            Some(base) => base.join(href),
            None => Url::parse(href),
        };
        url.ok().filter(|url| url.as_str().len() <= LINK_BYTES_MAX)
    }
}
