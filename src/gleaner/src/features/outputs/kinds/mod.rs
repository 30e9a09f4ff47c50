//! By which ways events leave: a file each. Each checks what is said of its kind alone, and sends in its own way.
//!
//! A kind either takes deliveries, one for each event that its filter lets through, as the ledger has them; or it goes
//! through the log by itself, with a place of its own ([`TargetV1::takes_deliveries`] is false of it).

mod chat;
pub(super) mod email;
pub(super) mod feed;
pub(super) mod files;
pub(super) mod postgres;
mod webhook;

use super::attempt::Tried;
use super::rows::{ChatProduct, OutputKind, OutputV2, SignatureScheme, TargetV1};
use super::service::Deliverer;
use base::clock::Now;
use base::ids::{OrgId, OutputId};
use base::permission::Permissions;
use base::web::WebUrl;
use base::{Code, Error, Result};
use email::EmailTerms;
use fetch::AddressGuard;
use files::FilesTerms;
use postgres::PostgresTerms;
use secrets::keyring::Keyring;
use std::time::Duration;

/// What an output is made or changed within.
pub(super) struct Within<'w> {
    pub org: OrgId,
    pub guard: &'w AddressGuard,
    pub keyring: &'w Keyring,
    /// How people reach the box, without a slash at the end.
    pub base: &'w str,
    /// Whether the box has a mail server.
    pub has_mail: bool,
    pub permissions: Permissions,
    pub now: Now,
}

/// What may be said of one kind or another, and not of all of them.
#[derive(Default)]
pub(super) struct Terms {
    pub url: Option<String>,
    pub signatures: Option<Vec<SignatureScheme>>,
    pub secret: Option<String>,
    pub rotate_secret: bool,
    pub postgres: Option<PostgresTerms>,
    pub files: Option<FilesTerms>,
    pub product: Option<ChatProduct>,
    pub email: Option<EmailTerms>,
}

impl Terms {
    /// What is said at all, with the kinds that it is for.
    fn given(&self) -> impl Iterator<Item = (&'static str, &'static [OutputKind])> {
        use OutputKind::{Chat, Feed, Webhook};
        let webhook: &'static [OutputKind] = &[Webhook];
        let all = [
            ("url", self.url.is_some(), &[Webhook, Chat][..]),
            ("signatures", self.signatures.is_some(), webhook),
            ("secret", self.secret.is_some(), webhook),
            ("postgres", self.postgres.is_some(), &[OutputKind::Postgres]),
            ("files", self.files.is_some(), &[OutputKind::Files]),
            ("rotateSecret", self.rotate_secret, &[Webhook, Feed]),
            ("product", self.product.is_some(), &[Chat]),
            ("email", self.email.is_some(), &[OutputKind::Email]),
        ];
        all.into_iter().filter(|(_, is_given, _)| *is_given).map(|(name, _, kinds)| (name, kinds))
    }

    /// Whether events would go elsewhere, or be read by others: who asks must be allowed to see all of them.
    pub fn is_redirecting(&self) -> bool {
        self.given().next().is_some()
    }

    fn are_for(&self, kind: OutputKind) -> Result<()> {
        match self.given().find(|(_, kinds)| !kinds.contains(&kind)) {
            Some((field, _)) => {
                Err(Error::invalid(field, format!("is not for an output of the kind {}", kind.name())))
            }
            None => Ok(()),
        }
    }
}

/// Where a new output delivers to.
pub(super) struct Made {
    pub target: TargetV1,
    /// What it is called unless somebody says otherwise.
    pub name: String,
    /// What is shown this once.
    pub secrets: Vec<String>,
}

/// Checks what is said of a new output's kind.
pub(super) fn made(kind: OutputKind, id: OutputId, terms: Terms, within: &Within<'_>) -> Result<Made> {
    terms.are_for(kind)?;
    match kind {
        OutputKind::Webhook => webhook::made(id, terms, within),
        OutputKind::Postgres => postgres::made(id, terms.postgres, within),
        OutputKind::Files => files::made(id, terms.files, within),
        OutputKind::Chat => chat::made(id, terms, within),
        OutputKind::Feed => feed::made(within),
        OutputKind::Email => email::made(terms.email, within),
    }
}

/// The target as it is to be, and the secrets that were made.
pub(super) fn changed(
    row: &OutputV2,
    terms: Terms,
    within: &Within<'_>,
) -> Result<(TargetV1, Option<Vec<String>>)> {
    terms.are_for(row.target.kind())?;
    match row.target.clone() {
        TargetV1::Webhook(target) => webhook::changed(row.id, target, terms, within),
        TargetV1::Postgres(target) => Ok((postgres::changed(row, target, terms.postgres, within)?, None)),
        TargetV1::Files(target) => Ok((files::changed(target, terms.files)?, None)),
        TargetV1::FilesAway(target) => Ok((files::changed_away(row.id, target, terms.files, within)?, None)),
        TargetV1::Chat(target) => chat::changed(row.id, target, terms, within),
        TargetV1::Feed(target) => feed::changed(target, terms, within),
        TargetV1::Email(target) => Ok((email::changed(target, terms.email, within)?, None)),
    }
}

/// Something that is to leave.
pub(super) struct Outgoing<'o> {
    /// The same at every try (`webhook-id`).
    pub id: String,
    /// The event as JSON, see `payload.rs`.
    pub body: &'o str,
}

/// How long an output rests between two turns, each of one delivery then.
pub(super) fn pause(target: &TargetV1) -> Option<Duration> {
    match target {
        TargetV1::Webhook(_) | TargetV1::Feed(_) => None,
        TargetV1::Postgres(_) | TargetV1::Files(_) | TargetV1::FilesAway(_) => None,
        // A letter has many recipients.
        TargetV1::Email(_) => Some(Duration::ZERO),
        TargetV1::Chat(target) => Some(chat::pause(target)),
    }
}

/// One try of each of these; what came of them, in the same order.
pub(super) async fn send(
    deliverer: &Deliverer,
    (org, row): (OrgId, &OutputV2),
    outgoing: &[Outgoing<'_>],
    now: Now,
) -> Result<Vec<Tried>> {
    match &row.target {
        TargetV1::Webhook(target) => webhook::send(deliverer, (org, row.id, target), outgoing, now).await,
        // Its deliveries are batches, see `batches`.
        TargetV1::Postgres(_) | TargetV1::Files(_) | TargetV1::FilesAway(_) => Ok(Vec::new()),
        // Its deliveries are letters, see `letters`.
        TargetV1::Email(_) => Ok(Vec::new()),
        TargetV1::Chat(target) => chat::send(deliverer, (org, row.id, target), outgoing).await,
        TargetV1::Feed(_) => Err(Error::conflict("A feed sends nothing; it is read at its address.")),
    }
}

/// An address that may be sent to, as far as its text tells. What a name resolves to is checked when it is connected to.
fn endpoint(field: &str, text: &str, guard: &AddressGuard) -> Result<WebUrl> {
    let refuse = |reason: String| Error::new(Code::InvalidUrl).message(format!("{field}: {reason}"));
    let url = WebUrl::parse(text).map_err(|e| refuse(e.to_string()))?;
    guard.check_literal(&url).map_err(|refused| refuse(refused.to_string()))?;
    Ok(url)
}
