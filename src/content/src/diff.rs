//! The difference of two texts by words.
//!
//! What may be done is counted in steps and not in time, so the same texts give the same answer on every machine. Words
//! that only one of the texts has are told at once. Words that stand once in both, and in one order, hold the rest apart
//! (patience); between those the shortest edit is looked for (E. Myers, "An O(ND) Difference Algorithm", 1986, in linear
//! space) for as long as there are steps. A stretch for which there are none left is said to be replaced as a whole.

use std::collections::HashMap;

/// Steps for one difference: a fifth of a second or so.
const STEPS_MAX: u64 = 40_000_000;
/// Edits up to which the shortest way through one stretch is looked for.
const STRETCH_EDITS_MAX: isize = 1_500;
/// How often a stretch is held apart by words that stand in it once.
const PATIENCE_DEPTH: usize = 12;
/// Edits of one difference; beyond, short stretches that stay are said to be replaced with what is around them.
pub const EDITS_MAX: usize = 5_000;

/// What became of a stretch of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditKind {
    Equal,
    Insert,
    Delete,
}

/// A stretch of text, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit<'t> {
    pub kind: EditKind,
    pub text: &'t str,
}

/// How one text becomes another: what is equal or inserted is the new one, what is equal or deleted the old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference<'t> {
    pub edits: Vec<Edit<'t>>,
    /// True if there was more to tell than steps or edits are allowed: stretches are then replaced as a whole.
    pub is_coarse: bool,
}

/// What makes `new` out of `old`.
pub fn difference<'t>(old: &'t str, new: &'t str) -> Difference<'t> {
    let mut ids = HashMap::new();
    let (old_words, new_words) = (Words::of(old, &mut ids), Words::of(new, &mut ids));
    let (mut runs, mut is_coarse) = matching(&old_words.ids, &new_words.ids, ids.len());
    drop(ids);
    join_over_blanks(&mut runs, &old_words, &new_words);
    is_coarse |= join_short_runs(&mut runs);
    Difference { edits: edits(&runs, &old_words, &new_words), is_coarse }
}

/// A text cut into words, blanks and single signs, which together are the text.
struct Words<'t> {
    text: &'t str,
    /// Where each begins; one more for the end.
    starts: Vec<u32>,
    /// The same for the same words of both texts.
    ids: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Blank,
    Word,
    /// Stands by itself: a sign, or a character of a script that is written without blanks.
    Single,
}

fn sort_of(character: char) -> Sort {
    let is_unspaced = matches!(character, '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}');
    match character {
        _ if character.is_whitespace() => Sort::Blank,
        _ if character.is_alphanumeric() && !is_unspaced => Sort::Word,
        // Marks belong to the letter before them.
        '\u{0300}'..='\u{036F}' | '_' => Sort::Word,
        _ => Sort::Single,
    }
}

impl<'t> Words<'t> {
    /// Texts of up to 4 GiB; what is longer would not be compared as a whole.
    fn of(text: &'t str, known: &mut HashMap<&'t str, u32>) -> Words<'t> {
        let mut words = Words { text, starts: Vec::new(), ids: Vec::new() };
        let mut before = None;
        for (at, character) in text.char_indices() {
            let sort = sort_of(character);
            if before != Some(sort) || sort == Sort::Single {
                words.starts.push(u32::try_from(at).unwrap_or(u32::MAX));
            }
            before = Some(sort);
        }
        words.starts.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        for place in 0..words.len() {
            let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
            let id = *known.entry(words.slice(place..place + 1)).or_insert(next);
            words.ids.push(id);
        }
        words
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn slice(&self, range: std::ops::Range<usize>) -> &'t str {
        &self.text[self.starts[range.start] as usize..self.starts[range.end] as usize]
    }
}

/// Words that stay: so many from a place in each text on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    old: usize,
    new: usize,
    len: usize,
}

/// What stays, in order; and whether more could have been found.
fn matching(old: &[u32], new: &[u32], ids: usize) -> (Vec<Run>, bool) {
    let head = common(old.iter(), new.iter());
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = common(old_rest.iter().rev(), new_rest.iter().rev());
    let (old_rest, new_rest) = (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
    // What only one of them has can never stay.
    let (in_old, in_new) = (seen(old_rest, ids), seen(new_rest, ids));
    let shared = |all: &[u32], other: &[bool]| -> (Vec<u32>, Vec<usize>) {
        all.iter().enumerate().filter(|(_, id)| other[**id as usize]).map(|(at, id)| (*id, at + head)).unzip()
    };
    let ((old_ids, old_places), (new_ids, new_places)) =
        (shared(old_rest, &in_new), shared(new_rest, &in_old));
    let mut search = Search::new(&old_ids, &new_ids, ids);
    search.stretch(Stretch { old: (0, old_ids.len()), new: (0, new_ids.len()) }, 0);
    let mut runs = vec![Run { old: 0, new: 0, len: head }];
    for (one, other) in search.found {
        add(&mut runs, Run { old: old_places[one], new: new_places[other], len: 1 });
    }
    add(&mut runs, Run { old: old.len() - tail, new: new.len() - tail, len: tail });
    runs.retain(|run| run.len > 0);
    (runs, search.is_coarse)
}

fn seen(all: &[u32], ids: usize) -> Vec<bool> {
    let mut seen = vec![false; ids];
    all.iter().for_each(|id| seen[*id as usize] = true);
    seen
}

/// How many are the same from the beginning on.
fn common<'a>(one: impl Iterator<Item = &'a u32>, other: impl Iterator<Item = &'a u32>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

fn add(runs: &mut Vec<Run>, next: Run) {
    match runs.last_mut() {
        Some(last) if last.old + last.len == next.old && last.new + last.len == next.new => {
            last.len += next.len
        }
        _ => runs.push(next),
    }
}

/// From and to, in each of the texts.
#[derive(Clone, Copy)]
struct Stretch {
    old: (usize, usize),
    new: (usize, usize),
}

impl Stretch {
    fn is_empty(self) -> bool {
        self.old.0 == self.old.1 || self.new.0 == self.new.1
    }
}

struct Search<'a> {
    old: &'a [u32],
    new: &'a [u32],
    /// By word: how often it stands in the stretch at hand of the old and of the new text, and where in the new one.
    counts: Vec<(u32, u32, u32)>,
    /// By diagonal: how far one comes from the front, and from the back.
    fronts: [Vec<isize>; 2],
    steps: u64,
    /// Places of words that stay, in order.
    found: Vec<(usize, usize)>,
    is_coarse: bool,
}

impl<'a> Search<'a> {
    fn new(old: &'a [u32], new: &'a [u32], ids: usize) -> Search<'a> {
        let diagonals = vec![0; 2 * STRETCH_EDITS_MAX as usize + 4];
        Search {
            old,
            new,
            counts: vec![(0, 0, 0); ids],
            fronts: [diagonals.clone(), diagonals],
            steps: STEPS_MAX,
            found: Vec::new(),
            is_coarse: false,
        }
    }

    /// Finds what stays in a stretch.
    fn stretch(&mut self, mut at: Stretch, depth: usize) {
        while !at.is_empty() && self.old[at.old.0] == self.new[at.new.0] {
            self.found.push((at.old.0, at.new.0));
            (at.old.0, at.new.0) = (at.old.0 + 1, at.new.0 + 1);
        }
        let (old_end, new_end) = (at.old.1, at.new.1);
        while !at.is_empty() && self.old[at.old.1 - 1] == self.new[at.new.1 - 1] {
            (at.old.1, at.new.1) = (at.old.1 - 1, at.new.1 - 1);
        }
        if !at.is_empty() {
            let anchors = if depth < PATIENCE_DEPTH { self.anchors(at) } else { Vec::new() };
            if anchors.is_empty() {
                self.shortest(at);
            } else {
                let mut from = (at.old.0, at.new.0);
                for (old, new) in anchors {
                    self.stretch(Stretch { old: (from.0, old), new: (from.1, new) }, depth + 1);
                    self.found.push((old, new));
                    from = (old + 1, new + 1);
                }
                self.stretch(Stretch { old: (from.0, at.old.1), new: (from.1, at.new.1) }, depth + 1);
            }
        }
        self.found.extend((at.old.1..old_end).zip(at.new.1..new_end));
    }

    /// The words that stand once in both, as many as come in one order.
    fn anchors(&mut self, at: Stretch) -> Vec<(usize, usize)> {
        let (old, new) = (&self.old[at.old.0..at.old.1], &self.new[at.new.0..at.new.1]);
        self.steps = self.steps.saturating_sub((old.len() + new.len()) as u64);
        for id in old {
            self.counts[*id as usize].0 += 1;
        }
        for (place, id) in new.iter().enumerate() {
            let count = &mut self.counts[*id as usize];
            (count.1, count.2) = (count.1 + 1, u32::try_from(place).unwrap_or(u32::MAX));
        }
        let unique = old.iter().enumerate().filter_map(|(place, id)| match self.counts[*id as usize] {
            (1, 1, other) => Some((place, other as usize)),
            _ => None,
        });
        let unique: Vec<(usize, usize)> = unique.collect();
        for id in old.iter().chain(new) {
            self.counts[*id as usize] = (0, 0, 0);
        }
        let rising = rising(&unique);
        rising.into_iter().map(|(one, other)| (at.old.0 + one, at.new.0 + other)).collect()
    }

    /// Finds what stays on the shortest way through a stretch, whose ends differ.
    fn shortest(&mut self, at: Stretch) {
        let Some((old, new)) = self.middle(at) else {
            self.is_coarse = true;
            return;
        };
        for half in [
            Stretch { old: (at.old.0, old), new: (at.new.0, new) },
            Stretch { old: (old, at.old.1), new: (new, at.new.1) },
        ] {
            self.stretch(half, PATIENCE_DEPTH);
        }
    }

    /// A point on the shortest way through a stretch, other than its ends; none where the way is too long.
    fn middle(&mut self, at: Stretch) -> Option<(usize, usize)> {
        let (old, new) = (&self.old[at.old.0..at.old.1], &self.new[at.new.0..at.new.1]);
        let (n, m) = (old.len() as isize, new.len() as isize);
        let (delta, zero) = (n - m, STRETCH_EDITS_MAX + 1);
        let [fronts, backs] = &mut self.fronts;
        (fronts[(zero + 1) as usize], backs[(zero + 1) as usize]) = (0, 0);
        for d in 0..=((n + m + 1) / 2).min(STRETCH_EDITS_MAX) {
            self.steps = self.steps.checked_sub(2 * d as u64 + 1)?;
            for is_back in [false, true] {
                let (own, other) = if is_back { (&mut *backs, &*fronts) } else { (&mut *fronts, &*backs) };
                for k in (-d..=d).step_by(2) {
                    let (down, right) = (own[(zero + k + 1) as usize], own[(zero + k - 1) as usize]);
                    let begin = if k == -d || (k != d && right < down) { down } else { right + 1 };
                    let mut x = begin;
                    if x <= n && x - k <= m {
                        let (i, j) = (x as usize, (x - k) as usize);
                        x += match is_back {
                            false => common(old[i..].iter(), new[j..].iter()),
                            true => {
                                common(old[..old.len() - i].iter().rev(), new[..new.len() - j].iter().rev())
                            }
                        } as isize;
                        self.steps = self.steps.saturating_sub((x - begin) as u64);
                    }
                    own[(zero + k) as usize] = x;
                    // The two ways meet on a diagonal that the other has been on.
                    let mirror = delta - k;
                    let reach = if is_back { d } else { d - 1 };
                    let is_met = (delta % 2 == 0) == is_back
                        && mirror.abs() <= reach
                        && x + other[(zero + mirror) as usize] >= n;
                    let (x, y) = if is_back { (n - x, m - (x - k)) } else { (begin, begin - k) };
                    let is_inside = (0..=n).contains(&x) && (0..=m).contains(&y);
                    if is_met && is_inside && (x, y) != (0, 0) && (x, y) != (n, m) {
                        return Some((at.old.0 + x as usize, at.new.0 + y as usize));
                    }
                }
            }
        }
        None
    }
}

/// The longest list of these pairs, which come in the order of their first places, that is in the order of the second as well.
fn rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // The pair that ends the list of each length, with the smallest second place; and the pair before each.
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
    for (at, pair) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < pair.1);
        before.push(length.checked_sub(1).map(|length| ends[length]));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut list = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(at) = next {
        list.push(pairs[at]);
        next = before[at];
    }
    list.reverse();
    list
}

/// What happens between two runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    Adds,
    TakesAway,
    Replaces,
}

fn gap(one: Run, other: Run) -> Gap {
    match (one.old + one.len < other.old, one.new + one.len < other.new) {
        (true, true) => Gap::Replaces,
        (true, false) => Gap::TakesAway,
        _ => Gap::Adds,
    }
}

/// Blanks between two changes are part of the change: "a b" becomes "c d" at once and not word by word. Where both changes
/// only add, or only take away, the blanks stay.
fn join_over_blanks(runs: &mut Vec<Run>, old: &Words<'_>, new: &Words<'_>) {
    let is_blank = |run: &Run| old.slice(run.old..run.old + run.len).chars().all(char::is_whitespace);
    let end = Run { old: old.len(), new: new.len(), len: 0 };
    let mut kept = vec![Run { old: 0, new: 0, len: 0 }];
    for (at, run) in runs.iter().enumerate() {
        let last = kept.last().copied().unwrap_or(end);
        let next = runs.get(at + 1).copied().unwrap_or(end);
        let is_at_end =
            (run.old, run.new) == (0, 0) || run.old + run.len == old.len() && run.new + run.len == new.len();
        let is_alike = gap(last, *run) == gap(*run, next) && gap(last, *run) != Gap::Replaces;
        if is_at_end || is_alike || !is_blank(run) {
            kept.push(*run);
        }
    }
    kept.push(end);
    // What changed may begin and end with the same words now.
    for at in 1..kept.len() {
        let (mut one, mut other) = (kept[at - 1], kept[at]);
        while gap(one, other) == Gap::Replaces && old.ids[one.old + one.len] == new.ids[one.new + one.len] {
            one.len += 1;
        }
        while gap(one, other) == Gap::Replaces && old.ids[other.old - 1] == new.ids[other.new - 1] {
            other = Run { old: other.old - 1, new: other.new - 1, len: other.len + 1 };
        }
        (kept[at - 1], kept[at]) = (one, other);
    }
    kept.retain(|run| run.len > 0);
    *runs = kept;
}

/// Takes away ever longer runs between changes until what is left can be told; whether that was needed.
fn join_short_runs(runs: &mut Vec<Run>) -> bool {
    let (mut least, last) = (1, runs.len());
    // A run and the change behind it are at most three edits.
    while runs.len() > EDITS_MAX / 3 {
        least *= 2;
        runs.retain(|run| run.len >= least);
    }
    runs.len() < last
}

fn edits<'t>(runs: &[Run], old: &Words<'t>, new: &Words<'t>) -> Vec<Edit<'t>> {
    let mut edits = Vec::new();
    let mut push = |kind: EditKind, text: &'t str| {
        if !text.is_empty() {
            edits.push(Edit { kind, text });
        }
    };
    let end = Run { old: old.len(), new: new.len(), len: 0 };
    let mut from = (0, 0);
    for run in runs.iter().chain([&end]) {
        push(EditKind::Delete, old.slice(from.0..run.old));
        push(EditKind::Insert, new.slice(from.1..run.new));
        push(EditKind::Equal, new.slice(run.new..run.new + run.len));
        from = (run.old + run.len, run.new + run.len);
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    fn sides(difference: &Difference<'_>) -> (String, String) {
        let side = |without: EditKind| {
            difference.edits.iter().filter(|edit| edit.kind != without).map(|edit| edit.text).collect()
        };
        (side(EditKind::Insert), side(EditKind::Delete))
    }

    fn shown(old: &str, new: &str) -> String {
        let difference = difference(old, new);
        assert_eq!(sides(&difference), (old.to_owned(), new.to_owned()));
        assert!(!difference.is_coarse);
        difference.edits.iter().fold(String::new(), |mut shown, edit| {
            let _infallible = match edit.kind {
                EditKind::Equal => write!(shown, "{}", edit.text),
                EditKind::Insert => write!(shown, "+[{}]", edit.text),
                EditKind::Delete => write!(shown, "-[{}]", edit.text),
            };
            shown
        })
    }

    #[test]
    fn what_changed_is_told_by_words() {
        for (old, new, expected) in [
            ("", "", ""),
            ("a b c", "a b c", "a b c"),
            ("", "new", "+[new]"),
            ("gone", "", "-[gone]"),
            ("the price is 12.50 today", "the price is 9.50 today", "the price is -[12]+[9].50 today"),
            ("one two three", "one three", "one -[two ]three"),
            ("one three", "one two three", "one +[two ]three"),
            ("say it, now", "do that, now", "-[say it]+[do that], now"),
            ("Zürich im Mai", "Zürich im Juni", "Zürich im -[Mai]+[Juni]"),
            ("価格は百円", "価格は千円", "価格は-[百]+[千]円"),
            ("made in Ghent.", "made in Bruges, they say.", "made in -[Ghent]+[Bruges, they say]."),
            ("a x b x c x d", "a b c d x", "a -[x ]b -[x ]c -[x ]d+[ x]"),
        ] {
            assert_eq!(shown(old, new), expected);
        }
    }

    /// xorshift64*, so that a failure comes again.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound
        }

        fn text(&mut self, words: u64, letters: u64) -> String {
            let mut text = String::new();
            for _ in 0..self.below(words + 1) {
                let word = self.below(letters);
                let _infallible =
                    write!(text, "w{word}{}", [" ", "\n\n", ", ", " é", "語"][self.below(5) as usize]);
            }
            text
        }

        fn edited(&mut self, text: &str) -> String {
            let mut words: Vec<&str> = text.split_inclusive(' ').collect();
            for _ in 0..self.below(6) {
                let at = self.below(words.len() as u64 + 1) as usize;
                match self.below(3) {
                    0 => words.insert(at, "put "),
                    1 if at < words.len() => drop(words.remove(at)),
                    _ => {
                        let most = words.len();
                        words.rotate_left(at.min(most));
                    }
                }
            }
            words.concat()
        }
    }

    #[test]
    fn the_edits_give_both_texts() {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
        for round in 0..3_000 {
            let letters = [2, 5, 1_000][round % 3];
            let old = dice.text(60, letters);
            let new = if dice.below(2) == 0 { dice.text(60, letters) } else { dice.edited(&old) };
            let found = difference(&old, &new);
            assert_eq!(sides(&found), (old.clone(), new.clone()));
            assert!(!found.is_coarse, "{old:?} {new:?}");
            let twice = found.edits.windows(2).find(|pair| pair[0].kind == pair[1].kind);
            assert_eq!(twice, None, "{old:?} {new:?}");
        }
    }

    /// The shortest edit by the book: the longest common subsequence, in a table.
    fn longest_common(old: &[u32], new: &[u32]) -> usize {
        let mut row = vec![0; new.len() + 1];
        for one in old {
            let mut corner = 0;
            for (at, other) in new.iter().enumerate() {
                let above = row[at + 1];
                row[at + 1] = if one == other { corner + 1 } else { above.max(row[at]) };
                corner = above;
            }
        }
        row[new.len()]
    }

    #[test]
    fn without_words_that_hold_apart_the_way_is_the_shortest() {
        let mut dice = Dice(7);
        for _ in 0..2_000 {
            let mut list =
                |letters| -> Vec<u32> { (0..dice.below(40)).map(|_| dice.below(letters) as u32).collect() };
            let (old, new) = (list(3), list(3));
            let mut search = Search::new(&old, &new, 3);
            search.stretch(Stretch { old: (0, old.len()), new: (0, new.len()) }, PATIENCE_DEPTH);
            assert_eq!(search.found.len(), longest_common(&old, &new), "{old:?} {new:?}");
            assert!(search.found.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
        }
    }

    #[test]
    fn hostile_texts_end_within_the_budget() {
        let mut dice = Dice(11);
        let mut random = |words: usize, letters: u64| -> String {
            (0..words).fold(String::new(), |mut text, _| {
                let _infallible = write!(text, "{:x} ", dice.below(letters));
                text
            })
        };
        let same = "word ".repeat(200_000);
        let letters = "x".repeat(1_000_000);
        let (two, two_more) = (random(300_000, 2), random(300_000, 2));
        let (many, many_more) = (random(150_000, 1 << 40), random(150_000, 1 << 40));
        let pairs: Vec<String> = (0..100_000).map(|n| format!("{n} ")).collect();
        let turned: String = pairs.iter().rev().map(String::as_str).collect();
        let straight = pairs.concat();
        let begun = std::time::Instant::now();
        for (old, new) in [
            (&same[..], &same[..same.len() - 50_000]),
            (&same, &letters),
            (&two, &two_more),
            (&many, &many_more),
            (&straight, &turned),
            (&straight, &many),
        ] {
            let found = difference(old, new);
            assert_eq!(sides(&found), (old.to_owned(), new.to_owned()));
            assert!(found.edits.len() <= EDITS_MAX + 3);
        }
        assert!(difference(&two, &two_more).is_coarse);
        assert!(!difference(&many, &many_more).is_coarse);
        // Seven of them, without optimization: nothing that grows with the square of a length passes.
        assert!(begun.elapsed().as_secs() < 120, "{:?}", begun.elapsed());
    }
}
