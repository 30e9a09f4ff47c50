//! What a browser is answered: it is led on, or it is told why not, in words for whoever sits before it.

use super::people::Refusal;
use base::Result;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue, LOCATION, REFERRER_POLICY, SET_COOKIE};
use server::{Call, Html, Operation, Output, Response, ResponseBody};

/// The page that says why somebody is not signed in.
const PAGE: &str = include_str!("../../../../../data/pages/sign-in-failed.html");

/// Why somebody is not signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// There is no provider.
    Off,
    /// The provider does not answer.
    Away,
    /// It says what does not hold: its configuration, or ours, is wrong, or somebody is between.
    Wrong,
    /// The way back is not of a sign-in that this browser began just now.
    NotBegun,
    /// The person turned back at the provider, or it refused them.
    TurnedBack,
    /// Too many have failed from here, or too many come at once.
    TooMany,
    Refused(Refusal),
}

impl Trouble {
    /// Status, headline, and what to do.
    fn told(self) -> (StatusCode, &'static str, &'static str) {
        const FORBIDDEN: StatusCode = StatusCode::FORBIDDEN;
        match self {
            Trouble::Off => (
                StatusCode::NOT_FOUND,
                "There is no sign-in with company accounts here",
                "Sign in with your address and password.",
            ),
            Trouble::Away => (
                StatusCode::BAD_GATEWAY,
                "Your company's sign-in does not answer",
                "Try again in a moment. If it stays so, tell whoever operates this box: the log says what was asked and what came \
                 of it. Owners with a password can sign in with it meanwhile.",
            ),
            Trouble::Wrong => (
                StatusCode::BAD_GATEWAY,
                "Your company's sign-in said something that does not hold",
                "Nobody was signed in. Try again; if it stays so, tell whoever operates this box: the log says what is wrong.",
            ),
            Trouble::NotBegun => (
                StatusCode::BAD_REQUEST,
                "This sign-in was not begun here, or it took too long",
                "Begin again: a sign-in is good for ten minutes, once, and in the browser that began it.",
            ),
            Trouble::TurnedBack => (
                FORBIDDEN,
                "Your company's sign-in did not let you through",
                "You turned back there, or your account may not use this box. Ask whoever looks after your company's accounts.",
            ),
            Trouble::TooMany => (
                StatusCode::TOO_MANY_REQUESTS,
                "Too many sign-ins have failed from your network",
                "Wait a few minutes and begin again.",
            ),
            Trouble::Refused(refusal) => {
                let (title, advice) = refused(refusal);
                let is_ours = matches!(refusal, Refusal::NoOrganization | Refusal::GroupsElsewhere);
                (if is_ours { StatusCode::BAD_GATEWAY } else { FORBIDDEN }, title, advice)
            }
        }
    }
}

fn refused(refusal: Refusal) -> (&'static str, &'static str) {
    match refusal {
        Refusal::NoAddress => (
            "Your company's sign-in does not tell your email address",
            "An account here has one. Ask whoever looks after your company's accounts to give it out (the scope \"email\").",
        ),
        Refusal::Unverified => (
            "Your email address is not verified",
            "Your company's sign-in does not say that your address is verified. Verify it there, and sign in again.",
        ),
        Refusal::Domain => (
            "Your email address is not of a domain that may sign in here",
            "Sign in with your account of the company that this box belongs to.",
        ),
        Refusal::NoGroup => (
            "Your account may not use this box",
            "None of your groups leads here. Ask whoever looks after your company's accounts; sign in again once you are in one.",
        ),
        Refusal::GroupsElsewhere => (
            "You are in more groups than fit into a sign-in",
            "Tell whoever operates this box: groups must be given as roles of the application, or fewer of them.",
        ),
        Refusal::SeveralOrganizations => (
            "Your groups lead to several organizations",
            "A person belongs to one. Ask whoever looks after your company's accounts to leave you in the groups of one.",
        ),
        Refusal::NotJoined => (
            "Your email address has an account here already",
            "It signs in with its password. Whether it may be joined with your company's account decides whoever operates this box.",
        ),
        Refusal::AddressTaken => (
            "Your email address belongs to another account",
            "Somebody else of your company has signed in with this address before. Tell whoever operates this box.",
        ),
        Refusal::MemberElsewhere => (
            "Your account is a member of another organization",
            "Sign in to it with your password. To come in with your company's account, leave that organization first.",
        ),
        Refusal::Full => (
            "The organization has as many members as it may have",
            "Ask an owner of your organization to remove somebody.",
        ),
        Refusal::LastOwner => (
            "You are the last owner of your present organization",
            "Your groups lead to another one. Make another member an owner first.",
        ),
        Refusal::NoOrganization => (
            "There is no organization to sign in to",
            "Tell whoever operates this box: the log says which one the configuration names.",
        ),
    }
}

/// An answer to a browser.
pub struct Answered {
    to: To,
    cookies: Vec<HeaderValue>,
}

enum To {
    Place(String),
    /// And the path of the console.
    Page(Trouble, String),
}

impl Answered {
    /// Leads it there.
    pub fn lead(place: String) -> Answered {
        Answered { to: To::Place(place), cookies: Vec::new() }
    }

    /// Tells why not, with a way to the console at this path.
    pub fn trouble(trouble: Trouble, console: String) -> Answered {
        Answered { to: To::Page(trouble, console), cookies: Vec::new() }
    }

    #[must_use]
    pub fn cookie(mut self, cookie: HeaderValue) -> Answered {
        self.cookies.push(cookie);
        self
    }
}

impl Output for Answered {
    fn respond(self, call: &Call) -> Result<Response> {
        let mut response = match self.to {
            To::Place(place) => {
                let place =
                    HeaderValue::try_from(place).map_err(|e| base::Error::internal("lead a browser", e))?;
                let mut response = Response::new(ResponseBody::empty());
                *response.status_mut() = StatusCode::SEE_OTHER;
                response.headers_mut().insert(LOCATION, place);
                response
            }
            To::Page(trouble, console) => {
                let (status, title, advice) = trouble.told();
                let page = PAGE
                    .replace("{title}", title)
                    .replace("{advice}", advice)
                    .replace("{console}", &console)
                    .replace("{request}", call.request_id().as_str());
                let mut response = Html(Bytes::from(page)).respond(call)?;
                *response.status_mut() = status;
                response
            }
        };
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        for cookie in self.cookies {
            headers.append(SET_COOKIE, cookie);
        }
        Ok(response)
    }

    fn describe(operation: &mut Operation<'_>) {
        Html::describe(operation);
    }
}
