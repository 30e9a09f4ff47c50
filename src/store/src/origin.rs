//! Who acts: the caller behind a request, the operator, or the box itself.
//!
//! The trunk puts an origin around every request, and every write that the request makes carries it, whichever slice
//! makes it. So a handler cannot forget who, and an audit row cannot name somebody else. Work outside a request (tasks,
//! feeds, a driver that goes on after the answer) is the box's own unless it is begun inside [`Origin::scope`].

use super::principal::{AuthMethod, Principal};
use base::ids::{ApiKeyId, OrgId, RequestId, UserId};
use std::net::IpAddr;
use std::sync::{Arc, LazyLock, OnceLock};

tokio::task_local! {
    static CURRENT: Arc<Origin>;
}

static SYSTEM: LazyLock<Arc<Origin>> = LazyLock::new(|| Arc::new(Origin::of(Actor::System)));

/// Who did something. People and keys are ids; what they are called is looked up when it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The box itself: background work.
    System,
    /// Whoever can open the operator's socket.
    Operator,
    /// Somebody who has shown no credential.
    Anonymous,
    User(UserId),
    ApiKey {
        key: ApiKeyId,
        maker: UserId,
    },
}

impl Actor {
    /// The person behind it, if there is one.
    pub fn person(self) -> Option<UserId> {
        match self {
            Actor::User(user) | Actor::ApiKey { maker: user, .. } => Some(user),
            Actor::System | Actor::Operator | Actor::Anonymous => None,
        }
    }
}

/// Who acts, from where, in which request.
#[derive(Debug)]
pub struct Origin {
    base: Actor,
    /// Known once the credential was checked.
    caller: OnceLock<(Actor, Option<OrgId>)>,
    ip: Option<IpAddr>,
    request_id: Option<RequestId>,
}

impl Origin {
    fn of(base: Actor) -> Origin {
        Origin { base, caller: OnceLock::new(), ip: None, request_id: None }
    }

    /// The box itself.
    pub fn system() -> Arc<Origin> {
        Arc::clone(&SYSTEM)
    }

    /// A command on the operator's socket.
    pub fn operator() -> Arc<Origin> {
        Arc::new(Origin::of(Actor::Operator))
    }

    /// A request, anonymous until [`Origin::identify`].
    pub fn request(ip: IpAddr, request_id: RequestId) -> Arc<Origin> {
        let base = Origin::of(Actor::Anonymous);
        Arc::new(Origin { ip: Some(ip), request_id: Some(request_id), ..base })
    }

    /// The request's credential was checked: it is `principal`'s. The first time counts.
    pub fn identify(&self, principal: &Principal) {
        let user = principal.user();
        let actor = match principal.method() {
            AuthMethod::Jwt => Actor::User(user),
            AuthMethod::ApiKey(key) => Actor::ApiKey { key, maker: user },
        };
        self.caller.get_or_init(|| (actor, principal.org()));
    }

    pub fn actor(&self) -> Actor {
        self.caller.get().map_or(self.base, |(actor, _)| *actor)
    }

    /// The organization of the caller, if they have shown a credential and are in one.
    pub fn org(&self) -> Option<OrgId> {
        self.caller.get().and_then(|(_, org)| *org)
    }

    pub fn ip(&self) -> Option<IpAddr> {
        self.ip
    }

    pub fn request_id(&self) -> Option<&RequestId> {
        self.request_id.as_ref()
    }

    /// Who acts here: the origin that this task runs in, else the box.
    pub fn current() -> Arc<Origin> {
        CURRENT.try_with(Arc::clone).unwrap_or_else(|_| Origin::system())
    }

    /// Runs `future`; every write begun in it is this origin's. What it spawns is not: hand that its own scope.
    pub async fn scope<F: Future>(self: Arc<Self>, future: F) -> F::Output {
        CURRENT.scope(self, future).await
    }
}
