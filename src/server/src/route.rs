//! A route is data: method, path, operation id, and the handler behind a uniform call.
//!
//! [`Handler`] turns `async fn(Gate, Inputs…) -> Result<Output>` into an [`Endpoint`]. The gate comes first, so no
//! input is read for a caller who is not admitted, and a handler without a gate does not compile. One request costs one
//! boxed future; everything inside it is static dispatch.

use crate::body::Response;
use crate::call::{Call, Stage};
use crate::gate::Gate;
use crate::input::Input;
use crate::mount::{self, Mount};
use crate::openapi::Operation;
use crate::output::Output;
use crate::permit::Entitlement;
use base::limits::{BODY_BYTES_MAX, BODY_BYTES_MAX_LARGE};
use base::{Code, Result};
use futures::future::BoxFuture;
use http::Method;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
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
    pub(super) const ALL: [Verb; 5] = [Verb::Get, Verb::Post, Verb::Put, Verb::Patch, Verb::Delete];

    /// The verb whose handler answers `method`: GET's answers HEAD.
    pub(super) fn of(method: &Method) -> Option<Verb> {
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

/// Routes of one slice.
#[derive(Clone, Copy)]
pub struct RouteGroup {
    /// The slice's name, which is their OpenAPI tag.
    pub name: &'static str,
    pub routes: &'static [Route],
    /// What holds below a path of the slice's.
    pub mount: Option<&'static Mount>,
}

impl RouteGroup {
    /// Routes without a mount.
    pub const fn new(name: &'static str, routes: &'static [Route]) -> RouteGroup {
        RouteGroup { name, routes, mount: None }
    }
}

/// Every route of the groups with its mount.
pub(super) fn mounted(
    groups: &[RouteGroup],
) -> impl Iterator<Item = (&'static str, &'static Route, &'static Mount)> {
    let mounts: Vec<_> = groups.iter().filter_map(|group| group.mount).collect();
    let routes = groups.iter().flat_map(|group| group.routes.iter().map(|route| (group.name, route)));
    routes.map(move |(name, route)| (name, route, mount::of(route.path, mounts.iter().copied())))
}

/// One operation.
pub struct Route {
    pub(super) verb: Verb,
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) about: &'static str,
    pub(super) body_bytes_max: usize,
    pub(super) time_max: Duration,
    pub(super) plan: Option<Entitlement>,
    pub(super) codes: &'static [Code],
    pub(super) codes_as: &'static [(u16, Code)],
    pub(super) secret: bool,
    pub(super) in_turns: bool,
    pub(super) endpoint: &'static dyn Endpoint,
}

impl Route {
    const fn new(verb: Verb, path: &'static str, id: &'static str, endpoint: &'static dyn Endpoint) -> Route {
        Route {
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
            in_turns: true,
            endpoint,
        }
    }

    pub const fn get(path: &'static str, id: &'static str, endpoint: &'static dyn Endpoint) -> Route {
        Route::new(Verb::Get, path, id, endpoint)
    }

    pub const fn post(path: &'static str, id: &'static str, endpoint: &'static dyn Endpoint) -> Route {
        Route::new(Verb::Post, path, id, endpoint)
    }

    pub const fn put(path: &'static str, id: &'static str, endpoint: &'static dyn Endpoint) -> Route {
        Route::new(Verb::Put, path, id, endpoint)
    }

    pub const fn patch(path: &'static str, id: &'static str, endpoint: &'static dyn Endpoint) -> Route {
        Route::new(Verb::Patch, path, id, endpoint)
    }

    pub const fn delete(path: &'static str, id: &'static str, endpoint: &'static dyn Endpoint) -> Route {
        Route::new(Verb::Delete, path, id, endpoint)
    }

    /// One sentence for the reference: what the operation does.
    #[must_use]
    pub const fn about(mut self, sentence: &'static str) -> Route {
        self.about = sentence;
        self
    }

    /// Takes bodies up to the large limit (URL upload, test-xpath), for which there is more time.
    #[must_use]
    pub const fn large_body(mut self) -> Route {
        self.body_bytes_max = BODY_BYTES_MAX_LARGE;
        self.time_max = LARGE_REQUEST_TIME_MAX;
        self
    }

    /// May take longer than other requests.
    #[must_use]
    pub const fn time_max_secs(mut self, secs: u64) -> Route {
        self.time_max = Duration::from_secs(secs);
        self
    }

    /// Its answers carry a credential (a token, a signed link): nobody may keep them, a browser least of all.
    #[must_use]
    pub const fn secret(mut self) -> Route {
        self.secret = true;
        self
    }

    /// Answered at once however much its caller has taken: cheap, and asked by who watches the box.
    #[must_use]
    pub(super) const fn without_turns(mut self) -> Route {
        self.in_turns = false;
        self
    }

    /// Only for organizations whose plan has this, instead of what its mount asks for.
    #[must_use]
    pub const fn plan(mut self, entitlement: Entitlement) -> Route {
        self.plan = Some(entitlement);
        self
    }

    /// Errors that the handler itself answers with, for the reference. Gates and inputs add theirs.
    #[must_use]
    pub const fn fails(mut self, codes: &'static [Code]) -> Route {
        self.codes = codes;
        self
    }

    /// Errors that the handler answers with under another status than the code's own, for the reference.
    #[must_use]
    pub const fn fails_as(mut self, codes: &'static [(u16, Code)]) -> Route {
        self.codes_as = codes;
        self
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

/// What the router calls.
pub trait Endpoint: Send + Sync {
    /// Admits the caller, reads the inputs, runs the handler, makes the response.
    fn call<'a>(&'a self, call: &'a mut Call) -> BoxFuture<'a, Result<Response>>;

    /// Adds what the gate, the inputs and the output say about themselves to the reference.
    fn describe(&self, operation: &mut Operation<'_>);
}

/// An `async fn` as an [`Endpoint`]; `A` are its argument and output types.
pub struct Handler<F, A> {
    function: F,
    arguments: PhantomData<fn() -> A>,
}

impl<F, A> Handler<F, A>
where
    Handler<F, A>: Endpoint,
{
    pub const fn new(function: F) -> Handler<F, A> {
        Handler { function, arguments: PhantomData }
    }
}

macro_rules! handlers {
    ($($input:ident $name:ident),*) => {
        impl<F, Fut, G, O, $($input),*> Endpoint for Handler<F, (G, $($input,)* O)>
        where
            F: Fn(G, $($input),*) -> Fut + Send + Sync,
            Fut: Future<Output = Result<O>> + Send,
            G: Gate,
            O: Output,
            $($input: Input,)*
        {
            fn call<'a>(&'a self, call: &'a mut Call) -> BoxFuture<'a, Result<Response>> {
                Box::pin(async move {
                    let gate = G::admit(call)?;
                    call.check_query()?;
                    $(let $name = $input::extract(call).await?;)*
                    let (turns, holder) = (Arc::clone(call.api().turns()), call.holder());
                    let in_turns = call.route().in_turns;
                    let work = pin!(async {
                        call.progress.reach(Stage::Begun);
                        (self.function)(gate, $($name),*).await?.respond(call)
                    });
                    if in_turns { turns.run(holder, work).await } else { work.await }
                })
            }

            fn describe(&self, operation: &mut Operation<'_>) {
                G::describe(operation);
                $($input::describe(operation);)*
                O::describe(operation);
            }
        }
    };
}

handlers!();
handlers!(A a);
handlers!(A a, B b);
handlers!(A a, B b, C c);
handlers!(A a, B b, C c, D d);
