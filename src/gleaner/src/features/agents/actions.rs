//! What can be clicked on a card, made of what the card is: the only place that says what an action is called and means.

use super::rows::CardKindV1;
use serde_json::{Value, json};

/// Something that can be clicked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Action {
    pub(super) id: String,
    pub(super) label: String,
    pub(super) value: Value,
    pub(super) effect: Effect,
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Save,
    Dismiss,
    /// Takes the choice of this number.
    Choose(usize),
}

/// The actions of a card, in their order.
pub(super) fn of(kind: &CardKindV1) -> Vec<Action> {
    let action = |id: &str, label: &str, effect| Action {
        id: id.to_owned(),
        label: label.to_owned(),
        value: json!(id),
        effect,
    };
    match kind {
        CardKindV1::SaveQueryOffer { .. } => {
            vec![action("save", "Save", Effect::Save), action("dismiss", "Dismiss", Effect::Dismiss)]
        }
        CardKindV1::Question { choices, .. } => {
            let choices = choices.iter().enumerate();
            let choice = |(at, choice): (usize, &super::rows::ChoiceV1)| Action {
                id: format!("choice_{}", at + 1),
                label: choice.label.clone(),
                value: json!(at + 1),
                effect: Effect::Choose(at),
            };
            choices.map(choice).collect()
        }
        CardKindV1::Table { .. } | CardKindV1::Chart { .. } => Vec::new(),
    }
}

/// The card's type on the wire.
pub(super) fn type_of(kind: &CardKindV1) -> &'static str {
    match kind {
        CardKindV1::SaveQueryOffer { .. } => "save_query_offer",
        CardKindV1::Table { .. } => "table",
        CardKindV1::Chart { .. } => "chart",
        CardKindV1::Question { .. } => "question",
    }
}

/// The action that a text names: its label, its id, or its number where choices are asked for.
pub(super) fn named(actions: &[Action], text: &str) -> Option<Action> {
    let text = text.trim().trim_end_matches(['.', '!', '?']).trim().to_lowercase();
    let names = |action: &&Action| {
        let chosen = matches!(action.effect, Effect::Choose(_)).then(|| action.value.to_string());
        let number = chosen.is_some_and(|number| number == text);
        number || action.label.to_lowercase() == text || action.id == text
    };
    actions.iter().find(names).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::agents::rows::ChoiceV1;
    use base::codec::Json;
    use base::ids::QueryId;

    #[test]
    fn an_offer_has_two_actions_and_a_text_names_them_exactly() {
        let offer =
            CardKindV1::SaveQueryOffer { source: QueryId::new(), name: "n".into(), description: None };
        let actions = of(&offer);
        assert_eq!(actions.len(), 2);
        assert_eq!(named(&actions, " Save! ").unwrap().effect, Effect::Save);
        assert_eq!(named(&actions, "dismiss").unwrap().effect, Effect::Dismiss);
        assert_eq!(named(&actions, "save it for me"), None);
        assert_eq!(named(&actions, "1"), None);
    }

    #[test]
    fn a_choice_is_named_by_its_label_or_number() {
        let choice = |label: &str| ChoiceV1 { label: label.into(), plan: Json(json!({})) };
        let question = CardKindV1::Question {
            question: "?".into(),
            choices: vec![choice("Price"), choice("List price")],
        };
        let actions = of(&question);
        assert_eq!(named(&actions, "2").unwrap().effect, Effect::Choose(1));
        assert_eq!(named(&actions, "price").unwrap().effect, Effect::Choose(0));
        assert_eq!(named(&actions, "3"), None);
    }
}
