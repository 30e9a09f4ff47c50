//! What an operation is, as data: where it answers, what it takes, how long it may go on. The handler is not in it
//! ([`Route`](crate::Route) has both), so that a request can carry this to its gate and its inputs.

use crate::spec::permit::Entitlement;
use base::Code;
use base::limits::{BODY_BYTES_MAX, BODY_BYTES_MAX_LARGE};
use http::Method;
use std::time::Duration;

/// A request may take this long, its body included, unless its route says otherwise.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// The same for one with a large body: what a line of a megabit a second takes, and some time for the work.
const LARGE_REQUEST_TIME_MAX: Duration = Duration::from_secs(90);

/// The methods that routes have; HEAD and OPTIONS are answered by the trunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Verb {
    pub(crate) const ALL: [Verb; 5] = [Verb::Get, Verb::Post, Verb::Put, Verb::Patch, Verb::Delete];

    /// The verb whose handler answers `method`: GET's answers HEAD.
    pub(crate) fn of(method: &Method) -> Option<Verb> {
        Some(match *method {
            Method::GET | Method::HEAD => Verb::Get,
            Method::POST => Verb::Post,
            Method::PUT => Verb::Put,
            Method::PATCH => Verb::Patch,
            Method::DELETE => Verb::Delete,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::Post => "POST",
            Verb::Put => "PUT",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
        }
    }
}

/// What is known of an operation without its handler.
#[derive(Debug)]
pub struct RouteSpec {
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    pub(crate) id: &'static str,
    pub(crate) about: &'static str,
    pub(crate) body_bytes_max: usize,
    pub(crate) time_max: Duration,
    pub(crate) plan: Option<Entitlement>,
    pub(crate) codes: &'static [Code],
    pub(crate) codes_as: &'static [(u16, Code)],
    pub(crate) secret: bool,
    pub(crate) is_scheduled: bool,
    pub(crate) may_wait: bool,
}

impl RouteSpec {
    pub(crate) const fn new(verb: Verb, path: &'static str, id: &'static str) -> RouteSpec {
        RouteSpec {
            verb,
            path,
            id,
            about: "",
            body_bytes_max: BODY_BYTES_MAX,
            time_max: REQUEST_TIME_MAX,
            plan: None,
            codes: &[],
            codes_as: &[],
            secret: false,
            is_scheduled: true,
            may_wait: false,
        }
    }

    /// See [`Route::large_body`](crate::Route::large_body).
    pub(crate) const fn set_large_body(&mut self) {
        self.body_bytes_max = BODY_BYTES_MAX_LARGE;
        self.time_max = LARGE_REQUEST_TIME_MAX;
    }

    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// The method's name on the wire.
    pub fn method(&self) -> &'static str {
        self.verb.name()
    }

    /// The path with its `{variables}`.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// The OpenAPI operation id.
    pub fn id(&self) -> &'static str {
        self.id
    }

    /// What it asks of a plan, beside its mount.
    pub fn entitlement(&self) -> Option<Entitlement> {
        self.plan
    }

    /// The names of the path's variables, in order.
    pub fn variables(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }
}
