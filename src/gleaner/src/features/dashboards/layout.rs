//! Where tiles are on a dashboard: none lies upon another.

use super::rows::PlaceV1;
use base::{Error, Result};

/// Columns of the grid.
const COLUMNS: u16 = 12;
/// The lowest row on which a tile may begin, and how high one may be.
const ROWS_MAX: u16 = 1_000;
const HEIGHT_MAX: u16 = 24;
/// The size of a tile that is placed by the box: two beside each other.
const WIDTH: u16 = COLUMNS / 2;
const HEIGHT: u16 = 4;

impl PlaceV1 {
    fn overlaps(&self, other: &PlaceV1) -> bool {
        self.x < other.x + other.width
            && other.x < self.x + self.width
            && self.y < other.y + other.height
            && other.y < self.y + self.height
    }
}

/// Where each tile is: where it was put, or below all that were, two in a row.
pub(super) fn placed(wanted: &[Option<PlaceV1>]) -> Result<Vec<PlaceV1>> {
    for (at, place) in wanted.iter().enumerate() {
        let Some(place) = place else { continue };
        let wrong = |reason: String| Err(Error::invalid(&format!("tiles[{at}].position"), reason));
        let is_wide = place.width > 0 && u32::from(place.x) + u32::from(place.width) <= u32::from(COLUMNS);
        if !is_wide || place.height == 0 || place.height > HEIGHT_MAX || place.y > ROWS_MAX {
            return wrong(format!(
                "must lie in {COLUMNS} columns, be 1 to {HEIGHT_MAX} rows high, and begin at row {ROWS_MAX} or above"
            ));
        }
        let before = wanted[..at].iter().position(|other| other.is_some_and(|other| other.overlaps(place)));
        if let Some(before) = before {
            return wrong(format!("lies upon that of tiles[{before}]"));
        }
    }
    let below = wanted.iter().flatten().map(|place| place.y + place.height).max().unwrap_or(0);
    let mut count = 0;
    let free = |place: &Option<PlaceV1>| {
        place.unwrap_or_else(|| {
            let place = PlaceV1 {
                x: (count % 2) * WIDTH,
                y: below + count / 2 * HEIGHT,
                width: WIDTH,
                height: HEIGHT,
            };
            count += 1;
            place
        })
    };
    Ok(wanted.iter().map(free).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(x: u16, y: u16, width: u16, height: u16) -> PlaceV1 {
        PlaceV1 { x, y, width, height }
    }

    #[test]
    fn tiles_without_a_place_get_one_below_the_others() {
        let put = place(3, 1, 9, 2);
        let all = placed(&[None, Some(put), None, None]).unwrap();
        assert_eq!(all, [place(0, 3, 6, 4), put, place(6, 3, 6, 4), place(0, 7, 6, 4)]);
        assert_eq!(placed(&[]).unwrap(), []);
    }

    #[test]
    fn what_lies_outside_or_upon_another_is_refused() {
        for wrong in
            [place(0, 0, 0, 1), place(0, 0, 1, 0), place(12, 0, 1, 1), place(4, 0, 9, 1), place(0, 0, 1, 25)]
        {
            assert!(
                placed(&[Some(wrong)]).unwrap_err().detail().unwrap().contains("tiles[0].position"),
                "{wrong:?}"
            );
        }
        assert!(placed(&[Some(place(u16::MAX, 0, u16::MAX, 1))]).is_err());
        let beside = [Some(place(0, 0, 6, 2)), Some(place(6, 0, 6, 2)), Some(place(0, 2, 12, 1))];
        assert_eq!(placed(&beside).unwrap().len(), 3);
        let upon = placed(&[Some(place(0, 0, 6, 2)), Some(place(5, 1, 2, 2))]).unwrap_err();
        assert!(upon.detail().unwrap().contains("lies upon that of tiles[0]"), "{upon}");
    }
}
