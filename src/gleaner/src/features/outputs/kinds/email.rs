//! `email`: events are letters to people, at once or as digests. Who gets them, see `letters`.

use super::super::rows::{EmailV1, EmailWhen, TargetV1};
use super::{Made, Within};
use crate::features::schedules::{Times, zone_name};
use base::clock::Timestamp;
use base::limits::RECIPIENTS_PER_OUTPUT_MAX;
use base::{Error, Result};
use schemars::JsonSchema;
use serde::Deserialize;

/// Bytes of an address (RFC 5321, section 4.5.3.1).
const ADDRESS_BYTES_MAX: usize = 254;

/// Of the kind `email`: to whom letters go, and when. What is left out of a change stays as it is.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EmailTerms")]
pub(in super::super) struct EmailTerms {
    /// Addresses. Members of the organization with a verified address get letters at once; anybody else is asked first.
    #[schemars(length(min = 1, max = RECIPIENTS_PER_OUTPUT_MAX), inner(length(min = 1, max = ADDRESS_BYTES_MAX)))]
    #[serde(default)]
    pub recipients: Option<Vec<String>>,
    /// `immediately` unless said otherwise.
    #[serde(default)]
    when: Option<EmailWhen>,
    /// Of `daily`: the hour of the day, 0 to 23; 8 unless said otherwise.
    #[serde(default)]
    hour: Option<u32>,
    /// Of `daily`: an IANA name such as `Europe/Berlin`; UTC unless said otherwise.
    #[serde(default)]
    timezone: Option<String>,
}

const HOUR_USUAL: u8 = 8;

pub(super) fn made(terms: Option<EmailTerms>, within: &Within<'_>) -> Result<Made> {
    let terms = terms.ok_or_else(|| Error::invalid("email", "is missing: to whom letters go"))?;
    if terms.recipients.is_none() {
        return Err(Error::invalid("email.recipients", "is missing: the addresses that letters go to"));
    }
    let usual = EmailV1 { when: EmailWhen::Immediately, hour: HOUR_USUAL, timezone: "UTC".to_owned() };
    let target = applied(usual, &terms, within)?;
    Ok(Made { target: TargetV1::Email(target), name: "Email".to_owned(), secrets: Vec::new() })
}

pub(super) fn changed(target: EmailV1, terms: Option<EmailTerms>, within: &Within<'_>) -> Result<TargetV1> {
    Ok(TargetV1::Email(match terms {
        Some(terms) => applied(target, &terms, within)?,
        None => target,
    }))
}

fn applied(mut target: EmailV1, terms: &EmailTerms, within: &Within<'_>) -> Result<EmailV1> {
    if !within.has_mail {
        return Err(no_server());
    }
    target.when = terms.when.unwrap_or(target.when);
    for (field, is_given) in
        [("email.hour", terms.hour.is_some()), ("email.timezone", terms.timezone.is_some())]
    {
        if is_given && target.when != EmailWhen::Daily {
            return Err(Error::invalid(field, "is for letters that go out daily"));
        }
    }
    if let Some(hour) = terms.hour {
        let hour = u8::try_from(hour).ok().filter(|hour| *hour <= 23);
        target.hour = hour.ok_or_else(|| Error::invalid("email.hour", "is an hour from 0 to 23"))?;
    }
    if let Some(zone) = &terms.timezone {
        let zone = zone_name(zone).map_err(|reason| Error::invalid("email.timezone", reason))?;
        zone.clone_into(&mut target.timezone);
    }
    Ok(target)
}

fn no_server() -> Error {
    Error::conflict(
        "The box has no mail server, so it writes to nobody; its operator sets one in [mail] of its configuration.",
    )
}

/// When the letter of a day goes out next behind a date, whatever clocks on walls do: an hour that there is not on that day comes
/// when the clocks go on, and of one that there is twice the first counts.
pub(in super::super) fn next_of_day(target: &EmailV1, after: Timestamp) -> Option<Timestamp> {
    Times::read(&format!("0 {} * * *", target.hour), &target.timezone).ok()?.after(after)
}
