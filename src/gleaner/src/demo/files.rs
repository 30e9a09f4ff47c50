//! The demo shop's files, compiled in: the binary demonstrates itself on a machine that has nothing else.
//!
//! `data/demo/site.json` says which file answers at which path; a test compares this list with the folder.

macro_rules! shop_files {
    ($($path:literal)*) => {
        /// Every page as `pages/…` (first visit) or `changed/…` (second visit), with its bytes as written.
        pub static FILES: &[(&str, &[u8])] = &[$((
            $path,
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/demo/", $path)),
        )),*];
    };
}

/// What the shop serves, and how.
pub const SITE: &str = include_str!("../../../../data/demo/site.json");
/// The extraction schemas of its three page types.
pub const SCHEMAS: &str = include_str!("../../../../data/demo/schemas.json");
/// Every value that its pages carry, per visit.
pub const TRUTH: &str = include_str!("../../../../data/demo/truth.json");

shop_files! {
    "changed/de/werkzeug.html"
    "changed/journal/how-sharp-is-sharp.html"
    "changed/product/bench-chisel-set-of-six.html"
    "changed/product/bracken-no-4-smoothing-plane.html"
    "changed/product/bracken-no-5-jack-plane.html"
    "changed/product/bracken-no-7-jointer-plane.html"
    "changed/product/de/tannhof-hobelbank-kompakt.html"
    "changed/product/de/tannhof-putzhobel.html"
    "changed/product/de/tannhof-stechbeitel-satz.html"
    "changed/product/diamond-plate-600.html"
    "changed/product/fr/trusquin-a-lame.html"
    "changed/product/jp/tsukimi-toishi-1000.html"
    "changed/product/pocket-block-plane.html"
    "changed/product/shoulder-plane-three-quarter.html"
    "changed/product/sv/ekmyra-bandkniv.html"
    "changed/product/uk/flush-cut-saw.html"
    "changed/product/uk/thornley-dovetail-saw-8.html"
    "changed/product/wooden-spokeshave-kit.html"
    "changed/shop/planes.html"
    "pages/de/werkzeug.html"
    "pages/de/werkzeug/2.html"
    "pages/fr/outils.html"
    "pages/journal/care-of-wooden-handles.html"
    "pages/journal/de/abziehen-auf-leder.html"
    "pages/journal/dovetails-by-eye.html"
    "pages/journal/first-five-tools.html"
    "pages/journal/flattening-a-plane-sole.html"
    "pages/journal/fr/le-valet.html"
    "pages/journal/how-sharp-is-sharp.html"
    "pages/journal/jp/kanna-no-dainaoshi.html"
    "pages/journal/reading-grain.html"
    "pages/journal/sv/bryna-kniv.html"
    "pages/journal/visit-to-the-forge.html"
    "pages/journal/winter-shop.html"
    "pages/journal/workbench-height.html"
    "pages/jp/dougu.html"
    "pages/product/bench-chisel-set-of-six.html"
    "pages/product/bracken-no-4-smoothing-plane.html"
    "pages/product/bracken-no-5-jack-plane.html"
    "pages/product/bracken-no-7-jointer-plane.html"
    "pages/product/camellia-oil-250.html"
    "pages/product/corner-chisel.html"
    "pages/product/de/aarwerk-bildhauerset.html"
    "pages/product/de/kessler-schraubzwinge-600.html"
    "pages/product/de/kessler-schreinerhammer.html"
    "pages/product/de/kessler-streichmass.html"
    "pages/product/de/tannhof-hobelbank-kompakt.html"
    "pages/product/de/tannhof-putzhobel.html"
    "pages/product/de/tannhof-stechbeitel-satz.html"
    "pages/product/de/ziehmesser-gerade.html"
    "pages/product/diamond-plate-600.html"
    "pages/product/fr/etabli-roubo.html"
    "pages/product/fr/rabot-corroyer.html"
    "pages/product/fr/racloir-carrossier.html"
    "pages/product/fr/scie-a-araser.html"
    "pages/product/fr/trusquin-a-lame.html"
    "pages/product/fr/valet-forge.html"
    "pages/product/honing-guide-side-clamp.html"
    "pages/product/jp/morikawa-kanna-70.html"
    "pages/product/jp/morikawa-nomi-10.html"
    "pages/product/jp/tsukimi-ryoba-240.html"
    "pages/product/jp/tsukimi-sumitsubo.html"
    "pages/product/jp/tsukimi-toishi-1000.html"
    "pages/product/leather-strop-paddle.html"
    "pages/product/mortise-chisel-quarter.html"
    "pages/product/paring-chisel-long.html"
    "pages/product/plough-plane-set.html"
    "pages/product/pocket-block-plane.html"
    "pages/product/router-plane-large.html"
    "pages/product/shoulder-plane-three-quarter.html"
    "pages/product/skew-chisel-pair.html"
    "pages/product/sv/ekmyra-bandkniv.html"
    "pages/product/sv/ekmyra-langhyvel.html"
    "pages/product/sv/ekmyra-slathyvel.html"
    "pages/product/sv/stalvik-skedkniv.html"
    "pages/product/sv/stalvik-taljkniv.html"
    "pages/product/sv/yxa-tappyxa.html"
    "pages/product/uk/coping-saw.html"
    "pages/product/uk/flush-cut-saw.html"
    "pages/product/uk/panel-saw-22.html"
    "pages/product/uk/saw-sharpening-vice.html"
    "pages/product/uk/thornley-dovetail-saw-8.html"
    "pages/product/uk/thornley-tenon-saw-14.html"
    "pages/product/wooden-spokeshave-kit.html"
    "pages/shop/chisels.html"
    "pages/shop/planes.html"
    "pages/shop/planes/2.html"
    "pages/shop/sharpening.html"
    "pages/sv/verktyg.html"
    "pages/uk/saws.html"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn count(folder: &Path) -> usize {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| if path.is_dir() { count(&path) } else { 1 }).sum()
    }

    #[test]
    fn every_file_of_the_folder_is_in_the_list() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("data/demo");
        assert_eq!(count(&folder.join("pages")) + count(&folder.join("changed")), FILES.len());
    }
}
