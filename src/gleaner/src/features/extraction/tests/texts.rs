//! How long the texts of pages are kept.

use super::*;
use crate::features::extraction::text_rows::{ResultTextV1, text_of};
use crate::features::extraction::texts::{MadeText, put_all};

fn made(row: &ResultV4, text: &str) -> MadeText {
    (row.job, row.page.hash, ResultTextV1 { text: Some(text.to_owned()) })
}

#[tokio::test]
async fn texts_go_with_their_pages_and_the_oldest_where_there_are_too_many() {
    let bench = Bench::new();
    let mut rows = Vec::new();
    for n in 0..4 {
        rows.push(bench.collect(page(&format!("{SHOP}/{n}"), &format!("<p>{n}</p>"))).await);
    }
    let texts = || -> Vec<Option<String>> {
        rows.iter().map(|row| bench.org.read(|tx| text_of(tx, row.job)).unwrap()).collect()
    };
    let some = |list: [&str; 4]| list.map(|text| (!text.is_empty()).then(|| text.to_owned())).to_vec();
    let all: Vec<_> = rows.iter().zip(["a", "b", "c", "d"]).map(|(row, text)| made(row, text)).collect();
    bench.org.write(move |tx| put_all(tx, all, 10_000)).await.unwrap();
    assert_eq!(texts(), some(["a", "b", "c", "d"]));

    // What was made of a page that a result does not name any more is not kept.
    let (gone, other) = (rows[1].job, made(&rows[2], "of another page"));
    bench.org.write(move |tx| super::super::pages::release(tx, gone).map(drop)).await.unwrap();
    let late = vec![made(&rows[1], "late"), (rows[3].job, other.1, other.2)];
    bench.org.write(move |tx| put_all(tx, late, 10_000)).await.unwrap();
    assert_eq!(texts(), some(["a", "", "c", "d"]));

    // Room for two of some 65 bytes.
    let again = vec![made(&rows[3], "e")];
    bench.org.write(move |tx| put_all(tx, again, 140)).await.unwrap();
    assert_eq!(texts(), some(["", "", "c", "e"]));
}
