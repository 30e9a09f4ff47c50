use super::*;
use std::fmt::Debug;

fn bytes(part: &impl KeyPart) -> Vec<u8> {
    let mut out = Vec::new();
    part.write_part(&mut out);
    out
}

/// What stands in data folders that were written before: none of it may ever change.
#[test]
fn the_bytes_of_every_part() {
    let id = Uuid::from_u128(0x0102_0304_0506_0708_090A_0B0C_0D0E_0F10);
    let id_bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    assert_eq!(bytes(&id), id_bytes);
    assert_eq!(bytes(&JobId(id)), id_bytes);
    assert_eq!(bytes(&0xAB_u8), [0xAB]);
    assert_eq!(bytes(&0x0102_0304_u32), [1, 2, 3, 4]);
    assert_eq!(bytes(&0x0102_0304_0506_0708_u64), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bytes(&[7, 0, 9]), [7, 0, 9]);
    assert_eq!(bytes(&Moment(0)), [0x80, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(&Moment(-1)), [0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
    assert_eq!(bytes(&Moment(0x0102)), [0x80, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(bytes(&Timestamp(0x0102)), bytes(&Moment(0x0102)));
    assert_eq!(bytes(&String::new()), [0, 1]);
    assert_eq!(bytes(&"aé".to_owned()), [b'a', 0xC3, 0xA9, 0, 1]);
    assert_eq!(bytes(&"a\0b".to_owned()), [b'a', 0, 0xFF, b'b', 0, 1]);
    assert_eq!(bytes(&None::<u8>), [0]);
    assert_eq!(bytes(&Some(9_u8)), [1, 9]);
    assert_eq!(bytes(&Name("ab".to_owned())), [b'a', b'b', 0]);
    assert_eq!(bytes(&LastText("ab".to_owned())), [b'a', b'b']);
}

#[test]
fn the_bytes_of_whole_keys() {
    assert_eq!(encoded(&"a\0b".to_owned()), [b'a', 0, b'b']);
    assert_eq!(encoded(&(Name("a".to_owned()), 2_u8, 3_u32)), [b'a', 0, 2, 0, 0, 0, 3]);
    assert_eq!(encoded(&(Name("a".to_owned()), LastText("b".to_owned()))), [b'a', 0, b'b']);
    assert!(encoded(&()).is_empty());
}

#[test]
fn what_can_be_written_as_a_part_has_its_bytes() {
    let written = |part: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        part(&mut out);
        out
    };
    let text = "a\0b".to_owned();
    assert_eq!(written(&|out| text.as_str().write_as(out)), bytes(&text));
    let (of_text, of_bytes) = (&text, &[1_u8, 2]);
    assert_eq!(written(&|out| of_text.write_as(out)), bytes(&text));
    assert_eq!(written(&|out| of_bytes.write_as(out)), bytes(of_bytes));
}

#[test]
fn what_is_no_such_key_is_none() {
    assert_eq!(String::read_part(b"no end"), None);
    assert_eq!(String::read_part(&[b'a', 0]), None);
    assert_eq!(String::read_part(&[b'a', 0, 2]), None);
    assert_eq!(String::read_part(&[0xC3, 0, 1]), None);
    assert_eq!(<Option<u8>>::read_part(&[2, 0]), None);
    assert_eq!(<Option<u8>>::read_part(&[1]), None);
    assert_eq!(Moment::read_part(&[0; 7]), None);
    assert_eq!(u64::decode(&[0; 9]), None);
    assert_eq!(JobId::decode(&[0; 15]), None);
    assert_eq!(<(Name, u8)>::decode(&[b'a', 0, 1, 2]), None);
    assert_eq!(<()>::decode(&[0]), None);
}

#[test]
fn prefix_ends() {
    assert_eq!(after_prefix(&[1, 0xFF]), Some(vec![2]));
    assert_eq!(after_prefix(&[0xFF, 0xFF]), None);
    assert_eq!(after_prefix(&[]), None);
}

/// Numbers from a seed (SplitMix64); small ones and those at the ends come often, so that many values are near each other.
struct Random(u64);

impl Random {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn near(&mut self) -> u64 {
        match self.number() % 4 {
            0 => self.number() % 3,
            1 => u64::MAX - self.number() % 3,
            2 => SIGN.wrapping_add(self.number() % 5).wrapping_sub(2),
            _ => self.number(),
        }
    }

    fn text(&mut self, of: &[char]) -> String {
        (0..self.number() % 5).map(|_| of[self.number() as usize % of.len()]).collect()
    }

    fn bytes(&mut self) -> Vec<u8> {
        let near = [0, 0, 1, 2, 0xFE, 0xFF, b'a', b'b', 0xC3, 0xA9];
        (0..self.number() % 24).map(|_| near[self.number() as usize % near.len()]).collect()
    }
}

/// The part comes back, whatever follows it, and two stand in the order of their bytes, whatever follows those.
fn holds<P: KeyPart + Ord + Debug + Clone>(one: &P, other: &P, tails: [&[u8]; 2]) {
    let (of_one, of_other) = ([&bytes(one), tails[0]].concat(), [&bytes(other), tails[1]].concat());
    assert_eq!(P::read_part(&of_one), Some((one.clone(), tails[0])));
    if one != other {
        assert_eq!(of_one.cmp(&of_other), one.cmp(other), "{one:?} and {other:?}");
    }
}

const ROUNDS: usize = 20_000;

#[test]
fn parts_come_back_and_sort() {
    let mut random = Random(13);
    for _ in 0..ROUNDS {
        let tails = [random.bytes(), random.bytes()];
        let tails = [tails[0].as_slice(), tails[1].as_slice()];
        let (one, other) = (random.near(), random.near());
        holds(&one, &other, tails);
        holds(&(one as u32), &(other as u32), tails);
        holds(&(one as u8), &(other as u8), tails);
        holds(&Moment(one as i64), &Moment(other as i64), tails);
        holds(&Timestamp(one as i64), &Timestamp(other as i64), tails);
        let id = |high: u64, low: u64| Uuid::from_u64_pair(high, low);
        holds(&id(one, other), &id(other, one), tails);
        holds(&one.to_be_bytes(), &other.to_be_bytes(), tails);
        let option = |of: u64| (!of.is_multiple_of(3)).then_some(of as u32);
        holds(&option(one), &option(other), tails);
        let all = ['a', 'b', '\0', '\u{1}', '\u{ff}', '\u{10ffff}'];
        let (one, other) = (random.text(&all), random.text(&all));
        holds(&one, &other, tails);
        holds(&LastText(one), &LastText(other), [&[], &[]]);
        holds(&Name(random.text(&all[..2])), &Name(random.text(&all[..2])), tails);
    }
}

#[test]
fn keys_come_back() {
    let mut random = Random(14);
    for _ in 0..ROUNDS {
        let name = Name(random.text(&['a', 'b', '\u{ff}']));
        let key = (name.clone(), random.near() as u8, random.near() as u32);
        assert_eq!(<(Name, u8, u32)>::decode(&encoded(&key)), Some(key));
        let key = (name, LastText(random.text(&['a', '\0'])));
        assert_eq!(<(Name, LastText)>::decode(&encoded(&key)), Some(key));
    }
}

/// Whatever stands in a damaged file: it is a part or it is none, and a part is written as it was read.
#[test]
fn any_bytes_are_read_without_a_panic() {
    fn back<P: KeyPart>(given: &[u8]) -> usize {
        let Some((part, rest)) = P::read_part(given) else { return 0 };
        assert_eq!([bytes(&part).as_slice(), rest].concat(), given);
        1
    }
    let (mut random, mut read) = (Random(15), 0);
    for _ in 0..ROUNDS {
        let given = random.bytes();
        read += back::<String>(&given) + back::<Name>(&given) + back::<LastText>(&given);
        read += back::<Option<Moment>>(&given) + back::<JobId>(&given) + back::<[u8; 3]>(&given);
    }
    assert!(read > ROUNDS, "{read} of them were parts");
}
