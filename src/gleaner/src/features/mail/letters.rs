//! The kinds of messages, with what stands in each.

use super::rows::MailKind;
use super::token::TOKEN_PLACE;
use base::{Error, Result};
use smtp::{Rendered, Template};

macro_rules! template {
    ($name:literal) => {
        Template {
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/mail/", $name, ".txt")),
            html: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/mail/", $name, ".html")),
        }
    };
}

static VERIFY_EMAIL: Template = template!("verify_email");
static RESET_PASSWORD: Template = template!("reset_password");
static INVITE: Template = template!("invite");
static RECHARGE_DECIDED: Template = template!("recharge_decided");
static OUTPUT_DISABLED: Template = template!("output_disabled");
static CONFIRM_RECIPIENT: Template = template!("confirm_recipient");

static TEST: Template = template!("test");
static DISK_LOW: Template = template!("disk_low");
static DISK_WELL: Template = template!("disk_well");
static BACKUP_FAILED: Template = template!("backup_failed");

/// Characters of somebody's name in a message.
const NAME_CHARS_MAX: usize = 80;

/// A message's kind and values. `url` is the box's address without a slash at the end. Where the token of a link belongs
/// stands [`TOKEN_PLACE`]: the token itself is kept sealed beside the text.
#[derive(Clone, Copy)]
pub enum Letter<'a> {
    VerifyEmail {
        name: &'a str,
        url: &'a str,
    },
    ResetPassword {
        name: &'a str,
        url: &'a str,
    },
    RechargeDecided {
        name: &'a str,
        org: &'a str,
        credits: u64,
        /// `approved` or `denied`.
        decision: &'a str,
        /// What the operator wrote.
        answer: Option<&'a str>,
        url: &'a str,
    },
    OutputDisabled {
        name: &'a str,
        org: &'a str,
        output: &'a str,
        /// Why the box has switched it off; completes "because".
        reason: &'a str,
        url: &'a str,
    },
    /// Asks somebody whether they want an output's letters.
    ConfirmRecipient {
        org: &'a str,
        output: &'a str,
        url: &'a str,
    },
    Invite {
        inviter: &'a str,
        inviter_email: &'a str,
        org: &'a str,
        role: &'a str,
        url: &'a str,
        /// Whether who has no account can make one with the invitation.
        takes_new: bool,
    },
}

impl Letter<'_> {
    pub fn kind(&self) -> MailKind {
        match self {
            Letter::VerifyEmail { .. } => MailKind::VerifyEmail,
            Letter::ResetPassword { .. } => MailKind::ResetPassword,
            Letter::Invite { .. } => MailKind::Invite,
            Letter::RechargeDecided { .. } => MailKind::RechargeDecided,
            Letter::OutputDisabled { .. } => MailKind::OutputDisabled,
            Letter::ConfirmRecipient { .. } => MailKind::ConfirmRecipient,
        }
    }

    /// Subject, text and HTML.
    pub fn render(&self) -> Result<Rendered> {
        let made = match *self {
            Letter::VerifyEmail { name, url } => VERIFY_EMAIL.render(&[
                ("name", &shown(name)),
                ("box", url),
                ("link", &link(url, "verify-email", TOKEN_PLACE)),
            ]),
            Letter::ResetPassword { name, url } => RESET_PASSWORD.render(&[
                ("name", &shown(name)),
                ("box", url),
                ("link", &link(url, "reset-password", TOKEN_PLACE)),
            ]),
            Letter::Invite { inviter, inviter_email, org, role, url, takes_new } => INVITE.render(&[
                (
                    "account",
                    match takes_new {
                        true => "with an account of this address or with a new one",
                        false => {
                            "with an account of this address (new ones are made by the operator of the box alone; ask who \
                             invites you)"
                        }
                    },
                ),
                ("inviter", &shown(inviter)),
                ("inviterEmail", inviter_email),
                ("org", &shown(org)),
                ("role", role),
                ("box", url),
                ("link", &link(url, "invite", TOKEN_PLACE)),
            ]),
            Letter::OutputDisabled { name, org, output, reason, url } => OUTPUT_DISABLED.render(&[
                ("name", &shown(name)),
                ("org", &shown(org)),
                ("output", &shown(output)),
                ("reason", reason),
                ("box", url),
            ]),
            Letter::ConfirmRecipient { org, output, url } => CONFIRM_RECIPIENT.render(&[
                ("org", &shown(org)),
                ("output", &shown(output)),
                ("box", url),
                ("link", &format!("{url}/mail/confirm/{TOKEN_PLACE}")),
            ]),
            Letter::RechargeDecided { name, org, credits, decision, answer, url } => {
                let answer = answer.map(|text| format!("The operator writes: {text}")).unwrap_or_default();
                RECHARGE_DECIDED.render(&[
                    ("name", &shown(name)),
                    ("org", &shown(org)),
                    ("credits", &credits.to_string()),
                    ("decision", decision),
                    ("answer", &answer),
                    ("box", url),
                ])
            }
        };
        made.map_err(|e| Error::internal("write a message", e))
    }
}

/// What the operator sends to see whether mail arrives.
pub(super) fn test_letter(url: &str) -> Result<Rendered> {
    TEST.render(&[("box", url)]).map_err(|e| Error::internal("write a message", e))
}

/// What the operator is told when the disk has less room than its reserve, and when that is over.
pub(super) fn disk_letter(is_low: bool, url: &str) -> Result<Rendered> {
    let template = if is_low { &DISK_LOW } else { &DISK_WELL };
    template.render(&[("box", url)]).map_err(|e| Error::internal("write a message", e))
}

/// What the operator is told when a backup failed.
pub(super) fn backup_letter(url: &str, target: &str, reason: &str) -> Result<Rendered> {
    let values = [("box", url), ("target", target), ("reason", reason)];
    BACKUP_FAILED.render(&values).map_err(|e| Error::internal("write a message", e))
}

/// Where a token is used. It stands behind the `#`, which browsers keep to themselves: it is in no log of a server or a
/// proxy, and opening the link uses nothing up, which programs that look into mails do as well.
pub fn link(url: &str, page: &str, token: &str) -> String {
    format!("{url}/{page}#{token}")
}

/// A name that a stranger chose, for a message that this box vouches for: short, and nothing in it that a mail program
/// makes a link of.
fn shown(name: &str) -> String {
    let mut safe = String::with_capacity(name.len() + 8);
    let mut chars = name.chars().take(NAME_CHARS_MAX).peekable();
    while let Some(c) = chars.next() {
        if matches!(c, '.' | ':' | '/') && chars.peek().is_some_and(|next| !next.is_whitespace()) {
            safe.push(c);
            safe.push(' ');
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_has_its_link_in_text_and_html_and_nothing_remote() {
        let (url, token) = ("https://box.example", TOKEN_PLACE);
        let (name, org) = ("Ada <i>", "A & B");
        let invitation = |takes_new| Letter::Invite {
            inviter: name,
            inviter_email: "a@b.de",
            org,
            role: "viewer",
            url,
            takes_new,
        };
        for (takes_new, promised) in [(true, true), (false, false)] {
            let made = invitation(takes_new).render().unwrap();
            assert_eq!(made.text.contains("with a new one"), promised, "{}", made.text);
            assert_eq!(made.html.contains("with a new one"), promised, "{}", made.html);
            assert_eq!(made.text.contains("operator of the box"), !promised, "{}", made.text);
        }
        for (letter, page) in [
            (Letter::VerifyEmail { name, url }, "verify-email"),
            (Letter::ResetPassword { name, url }, "reset-password"),
            (invitation(true), "invite"),
            (invitation(false), "invite"),
        ] {
            let made = letter.render().unwrap();
            let link = format!("{url}/{page}#{token}");
            assert!(made.text.contains(&format!("\n{link}\n")), "{}", made.text);
            assert!(made.html.contains(&format!("href=\"{link}\"")), "{}", made.html);
            assert!(made.html.contains("Ada &lt;i&gt;") && made.text.contains("Ada <i>"));
            let remote = made.html.matches("http").count();
            assert_eq!(remote, made.html.matches("https://box.example").count(), "{}", made.html);
            assert!(!made.html.contains("src=") && !made.html.contains("{{"), "{}", made.html);
        }
    }

    #[test]
    fn who_is_asked_for_letters_reads_who_asks_and_finds_one_link() {
        let letter = Letter::ConfirmRecipient {
            org: "A & B",
            output: "see https://evil.example",
            url: "https://box.example",
        };
        let made = letter.render().unwrap();
        let link = format!("https://box.example/mail/confirm/{TOKEN_PLACE}");
        assert!(
            made.text.contains(&format!("\n{link}\n")) && made.html.contains(&format!("href=\"{link}\""))
        );
        assert!(made.text.contains("A & B") && made.html.contains("A &amp; B") && !made.html.contains("{{"));
        assert!(!made.html.contains("https://evil.example") && !made.text.contains("https://evil.example"));
    }

    #[test]
    fn a_decision_says_what_was_asked_and_what_the_operator_writes() {
        let letter = |answer| Letter::RechargeDecided {
            name: "Ada",
            org: "Acme",
            credits: 5_000,
            decision: "approved",
            answer,
            url: "https://box.example",
        };
        let made = letter(Some("Until <March>.")).render().unwrap();
        assert_eq!(made.subject, "Your request for 5000 credits was approved");
        assert!(made.text.contains("The operator writes: Until <March>."), "{}", made.text);
        assert!(made.html.contains("The operator writes: Until &lt;March&gt;."), "{}", made.html);
        assert!(!letter(None).render().unwrap().text.contains("writes"));
    }

    #[test]
    fn a_name_makes_no_link() {
        assert_eq!(shown("Dr. Ada Łovelace"), "Dr. Ada Łovelace");
        assert_eq!(shown("Win at https://evil.example/x now."), "Win at https: / / evil. example/ x now.");
        assert_eq!(shown(&"x".repeat(200)).len(), NAME_CHARS_MAX);
    }
}
