//! What holds of accounts, organizations and keys when many callers come at once, lie about where they come from, or are
//! not any more what they were. The plain paths are in `auth`, `cli_auth`, `orgs` and `api_keys`.

mod crowds;
mod ends;
mod gates;
mod keys;
mod limits;
mod once;
mod owners;

use server::client::Reply;

/// Sends everything at once; gives the answers in the order in which they were sent.
async fn together<F: Future<Output = Reply>>(requests: impl IntoIterator<Item = F>) -> Vec<Reply> {
    futures::future::join_all(requests).await
}

/// How many answers have each status, the lowest first.
fn statuses(replies: &[Reply]) -> Vec<(u16, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for reply in replies {
        *counts.entry(reply.status.as_u16()).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}
