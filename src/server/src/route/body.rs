//! The body of a request or an answer, as JSON.

/// JSON: as an input the request's body, as an output a 200. The answer to a GET carries a strong entity tag and is a
/// 304 for a caller who has it already.
#[derive(Clone, Copy, Debug)]
pub struct Body<T>(pub T);
