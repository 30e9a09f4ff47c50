//! What a template is filled with beside the request.

use crate::fields::Values;
use crate::provider::CreditMatrix;
use base::web::WebUrl;

/// What an organization has at a hosted provider.
#[derive(Clone)]
pub struct Account {
    /// Where to ask instead of the vendor's own address.
    pub base_url: Option<WebUrl>,
    /// By the template's fields, checked.
    pub credentials: Values,
    pub settings: Values,
    pub credits: CreditMatrix,
}
