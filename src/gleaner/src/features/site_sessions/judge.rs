//! What a site's answer says of the session that was sent: the page came, or a login is asked for.
//!
//! A login is asked for by 401, by 403 unless a rule of the bot detection spoke, by a redirect to a path that is called
//! login or the like, and by a page that has a field for a password and nothing that leads to a logout. Such a page came
//! with 200, and is not the page that was asked for: its attempt has failed, so that no login page becomes a result.

use fetch::{Attempt, CostSource, FetchRequest, NOT_ASKED, Outcome};
use page::html::Document;

/// The rule of attempts that a login page ended.
const LOGIN_PAGE: &str = "login_page";
/// The rule of a 403 that says nothing more.
const BARE_403: &str = "http_403";
/// What the last part of a login page's path is called, without what divides its words and what follows a point.
const LOGIN_WORDS: [&str; 9] =
    ["login", "signin", "logon", "wplogin", "userlogin", "loginpage", "loginform", "anmelden", "connexion"];
/// Parts of addresses that lead out: who can log out is in.
const LOGOUT_WORDS: [&str; 7] =
    ["logout", "signout", "logoff", "log-out", "sign-out", "abmelden", "deconnexion"];

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionVerdict {
    Accepted,
    Refused,
    /// It was sent, and the answer says nothing of it.
    Unclear,
}

/// What the attempt of this request says of its session, if one was sent; and the attempt, which has failed where it
/// brought a login page.
pub async fn judge(request: &FetchRequest, mut attempt: Attempt) -> (Attempt, Option<SessionVerdict>) {
    let is_sent = request.session.as_ref().is_some_and(|session| session.is_sent_to(&request.url));
    let has_answered = attempt.http_status.is_some() && attempt.rule.as_deref() != Some(NOT_ASKED);
    if !is_sent || !has_answered {
        return (attempt, None);
    }
    let verdict = match (attempt.outcome, attempt.http_status) {
        (Outcome::Success, _) => match asks_for_login(request, &attempt).await {
            true => SessionVerdict::Refused,
            false => SessionVerdict::Accepted,
        },
        (_, Some(401)) => SessionVerdict::Refused,
        (_, Some(403)) if !is_challenge(&attempt) => SessionVerdict::Refused,
        _ => SessionVerdict::Unclear,
    };
    if verdict == SessionVerdict::Refused {
        let reason = "the site asks for a login: it does not accept the site session (any more)";
        attempt.error = Some(match attempt.error.take() {
            Some(error) => format!("{error}; {reason}"),
            None => reason.to_owned(),
        });
    }
    if verdict == SessionVerdict::Refused && attempt.outcome == Outcome::Success {
        attempt.outcome = Outcome::TargetError;
        attempt.rule = Some(LOGIN_PAGE.to_owned());
        attempt.page = None;
        attempt.charge = 0;
        if attempt.cost_source == CostSource::Table {
            attempt.credits = 0;
        }
    }
    (attempt, Some(verdict))
}

/// Whether a rule knew the page of a bot detection, and not only its status.
fn is_challenge(attempt: &Attempt) -> bool {
    attempt.rule.as_deref().is_some_and(|rule| rule != BARE_403)
}

async fn asks_for_login(request: &FetchRequest, attempt: &Attempt) -> bool {
    let Some(page) = &attempt.page else { return false };
    let path = page.url.as_url().path();
    if is_login_path(path) && !is_login_path(request.url.as_url().path()) {
        return true;
    }
    let (body, content_type) = (page.body.clone(), page.headers.content_type.clone());
    // A page may take a while to read.
    let read = tokio::task::spawn_blocking(move || is_login_page(&body, content_type.as_deref()));
    read.await.unwrap_or(false)
}

/// Whether one part of a path is called as login pages are: `/account/login`, `/Sign-In.aspx`.
fn is_login_path(path: &str) -> bool {
    path.split('/').any(|part| {
        let stem = part.split('.').next().unwrap_or_default();
        let stem: String = stem.chars().filter(|c| !matches!(c, '-' | '_')).collect();
        LOGIN_WORDS.contains(&stem.to_ascii_lowercase().as_str())
    })
}

/// Whether a page has a field for a password, and no way out for who is in.
fn is_login_page(body: &[u8], content_type: Option<&str>) -> bool {
    let word = b"password";
    if !body.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word)) {
        return false;
    }
    let document = Document::parse_bytes(body, content_type);
    let of = |name: &str| {
        let elements = document.lookup_name(name).map(|name| document.elements_named(name));
        elements.into_iter().flatten()
    };
    let says = |node, attribute: &str, words: &[&str]| {
        let value = document.attribute_named(node, attribute).unwrap_or_default().to_ascii_lowercase();
        words.iter().any(|word| value.contains(word))
    };
    let is_password = |node| {
        let kind = document.attribute_named(node, "type").unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("password")
    };
    let leads_out = of("a").any(|node| says(node, "href", &LOGOUT_WORDS))
        || of("form").any(|node| says(node, "action", &LOGOUT_WORDS));
    !leads_out && of("input").any(is_password)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::web::{Domain, WebUrl};
    use bytes::Bytes;
    use fetch::{Page, SessionCookie, SessionValues, SiteSession};
    use std::sync::Arc;

    fn asked(path: &str) -> FetchRequest {
        let url = WebUrl::parse(&format!("https://shop.test{path}")).unwrap();
        let cookie = SessionCookie {
            name: "sid".to_owned(),
            value: "1".to_owned(),
            host: None,
            path: "/in".to_owned(),
            secure: None,
            http_only: false,
        };
        let domain = Domain::parse("shop.test").unwrap();
        let session = SiteSession::new(domain, SessionValues::Cookies(vec![cookie]));
        FetchRequest { session: Some(Arc::new(session)), ..FetchRequest::new(url) }
    }

    fn failed(status: u16, rule: Option<&str>) -> Attempt {
        let attempt = Attempt::failed(Outcome::of_status(status), "no");
        Attempt { http_status: Some(status), rule: rule.map(str::to_owned), ..attempt }
    }

    fn brought(path: &str, body: &str) -> Attempt {
        let page = Page {
            url: WebUrl::parse(&format!("https://shop.test{path}")).unwrap(),
            redirects: Vec::new(),
            headers: fetch::PageHeaders::default(),
            body: Bytes::from(body.to_owned()),
        };
        let attempt = Attempt::failed(Outcome::Success, "");
        Attempt { http_status: Some(200), page: Some(page), error: None, charge: 1, credits: 1, ..attempt }
    }

    #[tokio::test]
    async fn answers_that_ask_for_a_login_are_known() {
        use SessionVerdict::{Accepted, Refused, Unclear};
        let form = "<form><input name=p type=PassWord></form>";
        let inside = format!("{form}<a href='/user/logout?x=1'>bye</a>");
        for (attempt, verdict) in [
            (failed(401, None), Refused),
            (failed(403, None), Refused),
            (failed(403, Some(BARE_403)), Refused),
            (failed(403, Some("challenge")), Unclear),
            (failed(404, None), Unclear),
            (failed(500, None), Unclear),
            (brought("/in", "<p>orders"), Accepted),
            (brought("/in", "<p>forgot your password?"), Accepted),
            (brought("/in", form), Refused),
            (brought("/in", &inside), Accepted),
            (brought("/Account/Sign-In.aspx", "<p>hello"), Refused),
            (brought("/blog/login-tips", "<p>hello"), Accepted),
        ] {
            let told = format!("{attempt:?}");
            let (after, said) = judge(&asked("/in"), attempt.clone()).await;
            assert_eq!(said, Some(verdict), "{told}");
            let is_kept = after.page.is_some() == (attempt.page.is_some() && verdict == Accepted);
            assert!(is_kept, "a login page is no page: {told}");
            let hint =
                after.error.as_deref().unwrap_or_default().contains("does not accept the site session");
            assert_eq!(hint, verdict == Refused, "{told}");
        }
        let (after, _) = judge(&asked("/in"), brought("/in", form)).await;
        assert_eq!((after.outcome, after.charge, after.credits), (Outcome::TargetError, 0, 0));
        assert!(after.is_final() && !after.is_billable());
    }

    #[tokio::test]
    async fn what_was_not_sent_is_not_judged() {
        let form = "<form><input name=p type=password></form>";
        let other = asked("/elsewhere");
        assert_eq!(judge(&other, failed(401, None)).await.1, None, "its cookie is for another path");
        let none = FetchRequest { session: None, ..asked("/in") };
        let (after, said) = judge(&none, brought("/in", form)).await;
        assert!(said.is_none() && after.page.is_some());
        let silent = Attempt::failed(Outcome::Timeout, "");
        assert_eq!(judge(&asked("/in"), silent).await.1, None);
        // Who asks for the login page gets it, as long as it looks like something else.
        let (after, said) = judge(&asked("/in/login"), brought("/in/login", "<p>you are in")).await;
        assert!(said == Some(SessionVerdict::Accepted) && after.page.is_some());
    }
}
