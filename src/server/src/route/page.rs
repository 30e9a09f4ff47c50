//! Pages of the slices for people: a slice declares one as the endpoint of a route.

use crate::call::request::{Call, RequestStage};
use crate::docs;
use crate::route::gate::{Anonymous, Gate};
use crate::route::operation::Operation;
use crate::route::output::{Html, Output, WithHeaders};
use crate::route::table::Endpoint;
use crate::wire::body::Response;
use base::Result;
use futures::future::BoxFuture;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY};

/// A page that anybody may read.
pub struct WebPage {
    title: &'static str,
    content: PageContent,
}

enum PageContent {
    Guide(&'static str),
    Errors(&'static str),
    Linked { html: &'static str, script: &'static str },
}

impl WebPage {
    /// Markdown, with a way to the reference.
    pub const fn guide(title: &'static str, markdown: &'static str) -> WebPage {
        WebPage { title, content: PageContent::Guide(markdown) }
    }

    /// Markdown about errors, with a way to all of them.
    pub const fn about_errors(title: &'static str, markdown: &'static str) -> WebPage {
        WebPage { title, content: PageContent::Errors(markdown) }
    }

    /// What a mailed link leads to, whose token is behind the `#`: HTML with one script, which may call the box and is the
    /// only one that runs there.
    pub const fn linked(title: &'static str, html: &'static str, script: &'static str) -> WebPage {
        WebPage { title, content: PageContent::Linked { html, script } }
    }

    fn respond(&self, call: &Call) -> Result<Response> {
        let prefix = call.prefix();
        match self.content {
            PageContent::Guide(text) => {
                Html(docs::page_of_slice(prefix, self.title, text).into()).respond(call)
            }
            PageContent::Errors(text) => {
                Html(docs::error_page(prefix, self.title, text).into()).respond(call)
            }
            PageContent::Linked { html, script } => {
                WithHeaders::new(Html(docs::link_page(self.title, html, script).into()))
                    .header(CONTENT_SECURITY_POLICY, docs::link_policy(script))
                    .header(CACHE_CONTROL, HeaderValue::from_static("no-store"))
                    .header(REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
                    .respond(call)
            }
        }
    }
}

impl Endpoint for WebPage {
    fn call<'a>(&'a self, call: &'a mut Call) -> BoxFuture<'a, Result<Response>> {
        Box::pin(async move {
            Anonymous::admit(call)?;
            call.check_query()?;
            call.progress.reach(RequestStage::Begun);
            self.respond(call)
        })
    }

    fn describe(&self, operation: &mut Operation<'_>) {
        Anonymous::describe(operation);
        Html::describe(operation);
    }
}
