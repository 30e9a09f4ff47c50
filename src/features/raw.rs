//! Signed links: a file for whoever holds its link, for a short while.
//!
//! A slice that gives such links out names them in its `links`; this one checks the signature and the time and hands over.
//! A link that is damaged, over, or leads to something that is gone is one and the same 404.

use crate::base::{Code, Error, Result};
use crate::engine::link::Links;
use crate::features::Feature;
use crate::http::{Anonymous, Call, Download, Handler, Need, Operation, Output, Path, Response, Route};

pub static FEATURE: Feature = Feature {
    name: "raw",
    routes: &[Route::get("/api/v1/raw/{token}", "downloadRaw", &Handler::new(download))
        .about("The file behind a signed link; the link is the credential.")
        .fails(&[Code::NotFound])],
    needs: &[Need::of::<Links>()],
    ..Feature::NONE
};

/// What every link that leads nowhere is answered with.
pub fn gone() -> Error {
    Error::not_found("File")
        .message("The link is not valid, or its time is over: ask for a new one where you got it.")
}

/// What a link leads to; a file on the disk can be gone on with where a download broke off.
struct Linked(Download);

impl Output for Linked {
    fn respond(self, call: &Call) -> Result<Response> {
        self.0.respond(call)
    }

    fn describe(operation: &mut Operation<'_>) {
        operation.file_response();
    }
}

async fn download(caller: Anonymous, Path(token): Path<String>) -> Result<Linked> {
    let target = caller.service::<Links>().open(&token, caller.now()).ok_or_else(gone)?;
    let mut links = super::ALL.iter().flat_map(|feature| feature.links);
    let link = links.find(|link| link.kind == target.kind).ok_or_else(gone)?;
    (link.open)(caller, target.subject).await.map(Linked)
}
