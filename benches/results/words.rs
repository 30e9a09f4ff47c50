//! Words of no language for documents that are searched: the n-th commonest is n times as rare as the first.

/// Words that there are.
pub const VOCABULARY: usize = 20_000;
const WORDS_PER_TEXT: usize = 40;

/// A number that depends on `n` and nothing else (SplitMix64's finalizer).
pub fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ (n >> 31)
}

/// The word of a rank: the commonest are short.
pub fn word(rank: usize) -> String {
    const SYLLABLES: [&str; 20] = [
        "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va", "we",
        "xi", "yo", "zu",
    ];
    let (mut word, mut left) = (String::new(), rank + SYLLABLES.len());
    while left > 0 {
        word.push_str(SYLLABLES[left % SYLLABLES.len()]);
        left /= SYLLABLES.len();
    }
    word
}

/// The rank of a drawn word: each with a probability that falls with its rank.
fn rank(draw: u64) -> usize {
    let part = draw as f64 / u64::MAX as f64;
    ((VOCABULARY as f64).powf(part) as usize).saturating_sub(1).min(VOCABULARY - 1)
}

/// The title of a document.
pub fn title_of(n: u64) -> String {
    format!("{} number {n}", word(rank(mixed(n))))
}

/// The text of a document: forty words.
pub fn text_of(n: u64) -> String {
    (0..WORDS_PER_TEXT as u64).map(|place| word(rank(mixed(n << 8 | place))) + " ").collect()
}
