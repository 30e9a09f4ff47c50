//! Words of the interface: enums whose variants travel, and are shown, under one name each.

/// An enum whose variants are words, each said once: what JSON and the reference call it, and what `name` gives. Behind the
/// enum's name may stand `: ALL`, for the list of its variants. It derives what it is told to; serde's traits are among it.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$of:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$meta])*
        $vis enum $name {
            $($(#[$of])* #[serde(rename = $word)] $variant),*
        }

        impl $name {
            /// Its word.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $word),*
                }
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $name:ident: ALL { $($(#[$of:meta])* $variant:ident $word:literal,)* }) => {
        $crate::words! {
            $(#[$meta])*
            $vis enum $name { $($(#[$of])* $variant $word,)* }
        }

        impl $name {
            /// Every one, in their order.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
        }
    };
}
