//! The variables of a path.
//!
//! A malformed id is answered like a missing one and like somebody else's, so that the three cannot be told apart: a
//! [`PathParam`] that is an id refuses with its noun's `not_found`, in the words the store uses.

use crate::call::request::Call;
use crate::route::input::Input;
use crate::route::operation::Operation;
use crate::spec::captures::VARIABLES_MAX;
use base::{Error, Result};
use serde_json::{Value, json};
use std::borrow::Cow;

/// A type that stands in a path.
pub trait PathParam: Sized + Send {
    /// Reads a segment (percent-decoded, never empty).
    fn parse(text: &str) -> Result<Self>;
    /// Its JSON schema.
    fn schema() -> Value;
}

/// Makes id types path parameters: `path_ids! { InputId, "Input"; }`. The noun is that of the resource's `not_found`.
#[macro_export]
macro_rules! path_ids {
    ($($id:ty, $noun:literal;)*) => {$(
        impl $crate::PathParam for $id {
            fn parse(text: &str) -> base::Result<Self> {
                $crate::input::path::uuid(text, $noun).map(<$id>::from)
            }

            fn schema() -> ::serde_json::Value {
                ::serde_json::json!({ "type": "string", "format": "uuid" })
            }
        }
    )*};
}

/// Those of all ids that have such a noun.
macro_rules! ids_with_noun {
    ($($(#[$doc:meta])* $id:ident $($noun:literal)?;)*) => {
        path_ids! { $($(base::ids::$id, $noun;)?)* }
    };
}

base::each_id!(ids_with_noun);

/// A UUID in its hyphenated form; any other text is a resource that does not exist.
pub fn uuid(text: &str, noun: &str) -> Result<uuid::Uuid> {
    let hyphenated = text.len() == uuid::fmt::Hyphenated::LENGTH;
    uuid::Uuid::parse_str(text).ok().filter(|_| hyphenated).ok_or_else(|| Error::not_found(noun))
}

/// Any text, for paths that are not ids.
impl PathParam for String {
    fn parse(text: &str) -> Result<Self> {
        Ok(text.to_owned())
    }

    fn schema() -> Value {
        json!({ "type": "string" })
    }
}

impl PathParam for u32 {
    fn parse(text: &str) -> Result<Self> {
        text.parse().map_err(|_| Error::new(base::Code::NotFound))
    }

    fn schema() -> Value {
        json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })
    }
}

/// The variables of the path: one type, or a tuple of as many as the path has.
#[derive(Debug)]
pub struct Path<T>(pub T);

/// The decoded variables of one request, handed out in the path's order.
pub struct Segments<'a> {
    call: &'a Call,
    next: usize,
}

impl<'a> Segments<'a> {
    fn take(&mut self) -> Result<Cow<'a, str>> {
        let at = self.next;
        self.next += 1;
        let path = self.call.parts.uri.path();
        self.call.captures().get(path, at).ok_or_else(|| Error::not_found("Path"))
    }
}

/// One variable or several, in the path's order.
pub trait PathParams: Sized + Send {
    fn parse(segments: &mut Segments<'_>) -> Result<Self>;
    fn schemas() -> Vec<Value>;
}

impl<T: PathParam> PathParams for T {
    fn parse(segments: &mut Segments<'_>) -> Result<Self> {
        <T as PathParam>::parse(&segments.take()?)
    }

    fn schemas() -> Vec<Value> {
        vec![T::schema()]
    }
}

macro_rules! path_tuples {
    ($($name:ident),*) => {
        impl<$($name: PathParam),*> PathParams for ($($name,)*) {
            fn parse(segments: &mut Segments<'_>) -> Result<Self> {
                Ok(($(<$name as PathParam>::parse(&segments.take()?)?,)*))
            }

            fn schemas() -> Vec<Value> {
                vec![$($name::schema()),*]
            }
        }
    };
}

path_tuples!(A, B);
path_tuples!(A, B, C);

impl<T: PathParams> Input for Path<T> {
    async fn extract(call: &mut Call) -> Result<Self> {
        T::parse(&mut Segments { call, next: 0 }).map(Path)
    }

    fn describe(operation: &mut Operation<'_>) {
        let schemas = T::schemas();
        debug_assert!(schemas.len() <= VARIABLES_MAX);
        operation.path_parameters(schemas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ids::JobId;

    #[test]
    fn a_malformed_id_reads_like_a_missing_one() {
        let id = JobId::new();
        assert_eq!(<JobId as PathParam>::parse(&id.to_string()).unwrap(), id);
        let simple = id.0.simple().to_string();
        for bad in ["1", "not-an-id", &simple, &format!("{{{id}}}"), &format!("urn:uuid:{id}")] {
            let error = <JobId as PathParam>::parse(bad).unwrap_err();
            assert_eq!(error.to_string(), Error::not_found("Job").to_string(), "{bad}");
        }
    }
}
