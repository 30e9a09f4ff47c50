//! Which results have content to show.

use super::*;
use crate::features::extraction::main_content::row_with_page;
use base::limits::HTML_BYTES_MAX;

#[tokio::test]
async fn only_kept_pages_of_text_have_content() {
    let bench = Bench::new();
    let status = |id: ResultId| match bench.org.read(|tx| row_with_page(tx, id)) {
        Ok(_) => 200,
        Err(error) => error.status(),
    };
    let kept = bench.collect(page(SHOP, "<p>1</p>")).await;
    assert_eq!(status(kept.id), 200);
    assert_eq!(status(ResultId::new()), 404);
    let mut image = page(SHOP, "no page");
    image.content_type = Some("image/png".to_owned());
    assert_eq!(status(bench.collect(image).await.id), 404);
    let large = bench.collect(page(SHOP, &"x".repeat(HTML_BYTES_MAX + 1))).await;
    assert_eq!(status(large.id), 413);
    let job = kept.job;
    bench.org.write(move |tx| super::super::pages::release(tx, job).map(drop)).await.unwrap();
    assert_eq!(status(kept.id), 404);
}
