//! Any request of the API.

use crate::commands::Api;
use crate::failure::{Failure, Outcome};
use crate::http::Payload;
use crate::output::Sink;
use crate::session::{Session, open_reader};
use http::Method;

const METHODS: [Method; 5] = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

pub async fn api(session: &Session, given: &Api) -> Outcome<()> {
    let upper = given.method.to_ascii_uppercase();
    let method = METHODS.into_iter().find(|method| method.as_str() == upper);
    let method = method.ok_or_else(|| {
        Failure::usage("METHOD", format!("\"{}\" is none of GET, POST, PUT, PATCH, DELETE", given.method))
    })?;
    let path = full_path(&given.path)?;
    let payload = match &given.body {
        None => Payload::None,
        Some(file) => Payload::Stream(given.content_type.clone(), open_reader("--body", file).await?),
    };
    let mut answer = session.remote.send(method, &path, &[], payload).await?.good().await?;
    let mut sink = Sink::open(given.output.as_deref())?;
    let mut ends_line = true;
    while let Some(part) = answer.part().await? {
        ends_line = part.last() == Some(&b'\n');
        sink.write(&part)?;
        sink.flush()?;
    }
    let is_text = answer
        .headers
        .get("content-type")
        .is_some_and(|media| media.as_bytes().starts_with(b"application/json"));
    if is_text && !ends_line && given.output.is_none() {
        sink.write(b"\n")?;
    }
    sink.end()
}

/// A path as it is asked for.
fn full_path(path: &str) -> Outcome<String> {
    if path.contains("://") {
        return Err(Failure::usage("PATH", "is an address; give the path behind the box's"));
    }
    if path.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(Failure::usage("PATH", "has a space; write it as %20"));
    }
    Ok(match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("/api/v1/{path}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_under_the_api_unless_they_say_otherwise() {
        assert_eq!(full_path("jobs?limit=5").unwrap(), "/api/v1/jobs?limit=5");
        assert_eq!(full_path("/health").unwrap(), "/health");
        for wrong in ["https://evil.example/", "a b", "a\nb"] {
            assert!(full_path(wrong).is_err(), "{wrong}");
        }
    }
}
