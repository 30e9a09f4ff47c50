//! Discovery over real pages. They are no part of the project: `GLEANER_PAGES` names their folder, and without it the test says that
//! it was skipped.

use super::{collect_all, discovered, number};
use crate::harness::Appliance;
use crate::harness::web::{Answer, Web};
use serde_json::json;
use std::path::{Path, PathBuf};

fn folder() -> Option<PathBuf> {
    let given = std::env::var_os("GLEANER_PAGES").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/pages");
    let shared = || PathBuf::from("/work/shared/data/pages");
    let all = given.map_or_else(|| vec![beside(), shared()], |given| vec![given]);
    all.into_iter().map(|pages| pages.join("by-domain")).find(|pages| pages.exists())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_pages_teach() {
    let Some(folder) = folder() else {
        println!("skipped: there are no real pages here");
        return;
    };
    let mut sites: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|site| site.unwrap().path()).collect();
    sites.sort();
    let mut taught = 0;
    for site in sites.iter().take(4) {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(site).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        let count = files.len().min(5);
        let pages: Vec<Vec<u8>> = files.iter().take(5).map(|file| std::fs::read(file).unwrap()).collect();
        let web = Web::open(move |path| {
            let page = pages.get(number(path, "/p/")?)?;
            let mut answer = Answer::html("");
            answer.body = page.clone().into();
            Some(answer)
        })
        .await;
        let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
        let member = at.member("ada").await;
        collect_all(&member.api, &web, "/p/", 0..count).await;
        let found = discovered(&member.api, &json!({ "domain": "127.0.0.1", "pageType": "article" })).await;
        println!("{}: {} {} {:?}", site.display(), found["status"], found["error"], found["schema"]);
        taught += usize::from(found["schema"]["version"] == 1);
        // The same pages say the same.
        let again = discovered(&member.api, &json!({ "domain": "127.0.0.1", "pageType": "article" })).await;
        assert_eq!(again["attributes"], found["attributes"]);
        at.stop().await;
    }
    assert!(taught >= 2, "{taught} of the sites have taught a schema");
}
