//! What handlers and tasks work with: the store, the clock, and a map from type to part.
//!
//! The map keeps the trunk free of resources: a slice hangs its own engine here under the engine's type, names it in
//! its `needs`, and [`Services::check`] refuses to start a box in which one is missing. So a look-up in a handler
//! cannot fail in a box that serves.

use base::clock::Clock;
use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;
use store::{Store, System};

type ServicePart = Arc<dyn Any + Send + Sync>;

/// The store, the clock and the parts that app hung up.
#[derive(Clone)]
pub struct Services {
    store: Store,
    system: System,
    parts: HashMap<TypeId, ServicePart>,
}

impl Services {
    pub fn new(store: Store) -> Services {
        Services { system: store.system(), store, parts: HashMap::new() }
    }

    /// Hangs up a part, replacing one of the same type.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, part: Arc<T>) -> Services {
        self.hang(part);
        self
    }

    /// The same in place.
    pub fn hang<T: Any + Send + Sync>(&mut self, part: Arc<T>) {
        self.parts.insert(TypeId::of::<T>(), part);
    }

    /// The part of this type.
    ///
    /// # Panics
    /// When there is none, which [`Services::check`] excludes for every part a slice declares.
    pub fn service<T: Any + Send + Sync>(&self) -> Arc<T> {
        self.find::<T>()
            .unwrap_or_else(|| panic!("no part {} was hung up; declare it in `needs`", type_name::<T>()))
    }

    /// The part of this type, if there is one.
    pub fn find<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.parts.get(&TypeId::of::<T>()).and_then(|part| Arc::clone(part).downcast::<T>().ok())
    }

    /// The names of the `needs` that nobody hung up.
    pub fn check<'a>(&self, needs: impl IntoIterator<Item = &'a Need>) -> Result<(), Vec<&'static str>> {
        let missing: Vec<_> = needs
            .into_iter()
            .filter(|need| !self.parts.contains_key(&(need.type_id)()))
            .map(|need| (need.name)())
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Rows that belong to no organization. Only the gates without an organization, the supervisor and the operator's
    /// socket hand it out; no slice asks for it here.
    pub fn system(&self) -> &System {
        &self.system
    }

    pub fn clock(&self) -> &Clock {
        self.store.clock()
    }
}

/// A part that a slice cannot work without.
pub struct Need {
    type_id: fn() -> TypeId,
    name: fn() -> &'static str,
}

impl Need {
    pub const fn of<T: Any + Send + Sync>() -> Need {
        Need { type_id: TypeId::of::<T>, name: type_name::<T> }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::MIGRATIONS;
    use store::fault::FaultyDisk;

    struct Engine(u32);
    struct Other;

    #[test]
    fn a_missing_part_is_named_before_serving() {
        let store = Store::open_backend(|| FaultyDisk::new().backend(), Clock::system(), MIGRATIONS);
        let services = Services::new(store.unwrap()).with(Arc::new(Engine(7)));
        assert_eq!(services.service::<Engine>().0, 7);
        assert!(services.check([&Need::of::<Engine>()]).is_ok());
        let missing = services.check([&Need::of::<Engine>(), &Need::of::<Other>()]).unwrap_err();
        assert_eq!(missing.len(), 1);
        assert!(missing[0].ends_with("Other"));
    }
}
