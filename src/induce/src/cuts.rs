//! How a value is cut out of a longer text or attribute.

use page::html::Document;
use page::xpath::NodeRef;

use crate::anchors::literal;

/// A way to cut.
#[derive(Clone, Debug, PartialEq)]
pub enum Cut {
    /// What stands behind this.
    Behind(String),
    /// What stands before this.
    Before(String),
    /// The first address of a `srcset`.
    Sources,
    /// The address in a style ("background-image: url(...)").
    Style,
}

impl Cut {
    /// What must be cut out of this place, by the name of its attribute.
    pub fn of(document: &Document, place: NodeRef) -> Option<Cut> {
        match document.attr_name(place.attribute()?) {
            name if name.ends_with("srcset") => Some(Cut::Sources),
            "style" => Some(Cut::Style),
            _ => None,
        }
    }

    /// An expression for the part of what `whole` selects, and what cutting costs.
    pub fn expression(&self, whole: &str) -> Option<(String, u32)> {
        let found = match self {
            Cut::Behind(front) => {
                (format!("substring-after(normalize-space({whole}), {})", literal(front)?), 8)
            }
            Cut::Before(back) => {
                (format!("substring-before(normalize-space({whole}), {})", literal(back)?), 8)
            }
            Cut::Sources => (format!("substring-before(concat(normalize-space({whole}), ' '), ' ')"), 2),
            Cut::Style => {
                let within = format!("substring-before(substring-after({whole}, 'url('), ')')");
                (format!("translate(translate({within}, '\"', ''), \"'\", '')"), 8)
            }
        };
        Some(found)
    }
}
