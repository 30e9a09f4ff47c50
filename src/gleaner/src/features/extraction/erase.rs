//! What this slice keeps of an organization outside of the store: pages, and their words in the search index.

use super::feed::SearchFeed;
use crate::features::Holding;
use base::{Error, Result};
use blob::BlobStore;

pub(super) static HOLDINGS: &[Holding] = &[
    Holding {
        name: "pages",
        remove: |context, org| {
            Box::pin(async move {
                let removed = context.service::<BlobStore>().org(org.0).delete_all().await;
                removed.map(|usage| usage.objects).map_err(|e| Error::internal("remove pages", e))
            })
        },
    },
    Holding {
        name: "search documents",
        remove: |context, org| {
            Box::pin(async move {
                let feed = context.service::<SearchFeed>();
                let removed = tokio::task::spawn_blocking(move || feed.remove_org(org)).await;
                removed.map_err(|e| Error::internal("remove documents", e)).and_then(Result::from)
            })
        },
    },
];
