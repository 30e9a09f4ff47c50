//! Units: what a number with a unit is in the base unit of its dimension.

/// What a quantity measures; two are compared only when it is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dimension {
    Mass,
    Length,
    Volume,
    Time,
    Data,
}

impl Dimension {
    pub fn name(self) -> &'static str {
        match self {
            Dimension::Mass => "a mass",
            Dimension::Length => "a length",
            Dimension::Volume => "a volume",
            Dimension::Time => "a time",
            Dimension::Data => "an amount of data",
        }
    }
}

/// The units, each with what one of it is in the base unit: gram, metre, litre, second, byte. Case matters, as it does in the
/// International System: `mg` and `MB` are what they say.
const UNITS: &[(&str, Dimension, f64)] = &[
    ("mg", Dimension::Mass, 0.001),
    ("g", Dimension::Mass, 1.0),
    ("kg", Dimension::Mass, 1_000.0),
    ("t", Dimension::Mass, 1_000_000.0),
    ("oz", Dimension::Mass, 28.349_523_125),
    ("lb", Dimension::Mass, 453.592_37),
    ("mm", Dimension::Length, 0.001),
    ("cm", Dimension::Length, 0.01),
    ("m", Dimension::Length, 1.0),
    ("km", Dimension::Length, 1_000.0),
    ("inch", Dimension::Length, 0.025_4),
    ("ft", Dimension::Length, 0.304_8),
    ("yd", Dimension::Length, 0.914_4),
    ("mi", Dimension::Length, 1_609.344),
    ("ml", Dimension::Volume, 0.001),
    ("cl", Dimension::Volume, 0.01),
    ("dl", Dimension::Volume, 0.1),
    ("l", Dimension::Volume, 1.0),
    ("L", Dimension::Volume, 1.0),
    ("gal", Dimension::Volume, 3.785_411_784),
    ("ms", Dimension::Time, 0.001),
    ("s", Dimension::Time, 1.0),
    ("min", Dimension::Time, 60.0),
    ("h", Dimension::Time, 3_600.0),
    ("d", Dimension::Time, 86_400.0),
    ("B", Dimension::Data, 1.0),
    ("kB", Dimension::Data, 1e3),
    ("MB", Dimension::Data, 1e6),
    ("GB", Dimension::Data, 1e9),
    ("TB", Dimension::Data, 1e12),
    ("KiB", Dimension::Data, 1_024.0),
    ("MiB", Dimension::Data, 1_048_576.0),
    ("GiB", Dimension::Data, 1_073_741_824.0),
    ("TiB", Dimension::Data, 1_099_511_627_776.0),
];

pub(super) fn unit(name: &str) -> Option<(Dimension, f64)> {
    UNITS.iter().find(|(known, ..)| *known == name).map(|(_, dimension, factor)| (*dimension, *factor))
}

/// The names of all units, for who has written another.
pub(super) fn names() -> String {
    UNITS.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")
}

/// A text that is a number and a unit, as pages have it: `1.5 kg`, `500ml`.
pub(super) fn quantity(text: &str) -> Option<(f64, Dimension)> {
    let text = text.trim();
    let end = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (dimension, factor) = unit(&text[end..])?;
    Some((number(&text[..end])? * factor, dimension))
}

/// A text that is a number and nothing else.
pub(super) fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E'));
    text.parse().ok().filter(|number: &f64| is_plain && number.is_finite())
}
