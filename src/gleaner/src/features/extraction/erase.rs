//! What this slice keeps of an organization outside of the store: pages. The search index is its consumer's.

use crate::features::Holding;
use base::Error;
use blob::BlobStore;

pub(super) static HOLDINGS: &[Holding] = &[Holding {
    name: "pages",
    remove: |context, org| {
        Box::pin(async move {
            let removed = context.service::<BlobStore>().org(org.0).delete_all().await;
            removed.map(|usage| usage.objects).map_err(|e| Error::internal("remove pages", e))
        })
    },
}];
