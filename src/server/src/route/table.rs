//! A route is data: method, path, operation id, and the handler behind a uniform call.
//!
//! [`Handler`] turns `async fn(Gate, Inputs…) -> Result<Output>` into an [`Endpoint`]. The gate comes first, so no
//! input is read for a caller who is not admitted, and a handler without a gate does not compile. One request costs one
//! boxed future; everything inside it is static dispatch.

use crate::call::request::{Call, RequestStage};
use crate::route::gate::Gate;
use crate::route::input::Input;
use crate::route::operation::Operation;
use crate::route::output::Output;
use crate::spec::mount::{self, Mount};
use crate::spec::permit::Entitlement;
use crate::spec::route::{RouteSpec, Verb};
use crate::wire::body::Response;
use base::{Code, Result};
use futures::future::BoxFuture;
use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

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
pub(crate) fn mounted(
    groups: &[RouteGroup],
) -> impl Iterator<Item = (&'static str, &'static Route, &'static Mount)> {
    let mounts: Vec<_> = groups.iter().filter_map(|group| group.mount).collect();
    let routes = groups.iter().flat_map(|group| group.routes.iter().map(|route| (group.name, route)));
    routes.map(move |(name, route)| (name, route, mount::of(route.path(), mounts.iter().copied())))
}

/// One operation: what is known of it, and its handler.
pub struct Route {
    spec: RouteSpec,
    endpoint: &'static dyn Endpoint,
}

impl Route {
    const fn new(verb: Verb, path: &'static str, id: &'static str, endpoint: &'static dyn Endpoint) -> Route {
        Route { spec: RouteSpec::new(verb, path, id), endpoint }
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
        self.spec.about = sentence;
        self
    }

    /// Takes bodies up to the large limit (URL upload, test-xpath), for which there is more time.
    #[must_use]
    pub const fn large_body(mut self) -> Route {
        self.spec.set_large_body();
        self
    }

    /// Takes a body of up to `bytes_max` as a stream ([`StreamBody`](crate::StreamBody)), within so many seconds.
    #[must_use]
    pub const fn streamed_body(mut self, bytes_max: usize, secs: u64) -> Route {
        self.spec.body_bytes_max = bytes_max;
        self.spec.time_max = Duration::from_secs(secs);
        self
    }

    /// May take longer than other requests.
    #[must_use]
    pub const fn time_max_secs(mut self, secs: u64) -> Route {
        self.spec.time_max = Duration::from_secs(secs);
        self
    }

    /// Its answers carry a credential (a token, a signed link): nobody may keep them, a browser least of all.
    #[must_use]
    pub const fn secret(mut self) -> Route {
        self.spec.secret = true;
        self
    }

    /// Waits as long as its caller wants it to: that it takes long says nothing of the box.
    #[must_use]
    pub const fn waits(mut self) -> Route {
        self.spec.may_wait = true;
        self
    }

    /// Answered at once however much its caller has taken: cheap, and asked by who watches the box.
    #[must_use]
    pub(crate) const fn unscheduled(mut self) -> Route {
        self.spec.is_scheduled = false;
        self
    }

    /// Only for organizations whose plan has this, instead of what its mount asks for.
    #[must_use]
    pub const fn plan(mut self, entitlement: Entitlement) -> Route {
        self.spec.plan = Some(entitlement);
        self
    }

    /// Errors that the handler itself answers with, for the reference. Gates and inputs add theirs.
    #[must_use]
    pub const fn fails(mut self, codes: &'static [Code]) -> Route {
        self.spec.codes = codes;
        self
    }

    /// Errors that the handler answers with under another status than the code's own, for the reference.
    #[must_use]
    pub const fn fails_as(mut self, codes: &'static [(u16, Code)]) -> Route {
        self.spec.codes_as = codes;
        self
    }

    pub(crate) fn spec(&self) -> &RouteSpec {
        &self.spec
    }

    pub(crate) fn endpoint(&self) -> &'static dyn Endpoint {
        self.endpoint
    }
}

impl Deref for Route {
    type Target = RouteSpec;

    fn deref(&self) -> &RouteSpec {
        &self.spec
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
                    let (scheduler, key) = (Arc::clone(&call.state().scheduler), call.fairness_key());
                    let is_scheduled = call.route().is_scheduled && !call.is_inner;
                    let work = pin!(async {
                        call.progress.reach(RequestStage::Begun);
                        (self.function)(gate, $($name),*).await?.respond(call)
                    });
                    if is_scheduled { scheduler.run(key, work).await } else { work.await }
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
