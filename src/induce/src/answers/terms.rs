//! Which attributes a kind of page has, and where structured data says them.

use page::extract::AttributeType::{self, Number, Text, TextList, Url, UrlList};

use crate::forms::Form;

/// A kind of page: of one thing whose attributes structured data names, or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Product,
    Article,
    JobPosting,
    Recipe,
    ProductList,
    Serp,
    Bestseller,
}

/// An attribute of a kind of page.
#[derive(Debug)]
pub struct Term {
    /// The attribute's name in schemas.
    pub name: &'static str,
    pub kind: AttributeType,
    pub form: Form,
    /// Chains of properties; the first that says something counts.
    pub chains: &'static [&'static str],
    /// Names of `<meta>` elements, asked behind the chains.
    pub metas: &'static [&'static str],
}

/// Parts of names and labels that speak of an attribute, in lower case, by the attribute's name.
const HINTS: &[(&str, &[&str])] = &[
    ("name", &["title", "name", "heading", "headline"]),
    ("headline", &["title", "headline", "heading"]),
    ("title", &["title", "jobname", "position", "headline"]),
    ("price", &["price", "preis", "prix", "precio", "prezzo", "amount", "cena"]),
    ("currency", &["currency", "price"]),
    ("availability", &["availab", "stock", "dispon", "verfügbar", "lieferbar"]),
    ("brand", &["brand", "manufactur", "marke", "marque", "marca", "hersteller", "designer", "vendor"]),
    ("sku", &["sku", "item", "article", "artikel", "art.", "product-code", "code", "ref", "asin"]),
    ("gtin", &["gtin", "ean", "isbn", "upc", "barcode"]),
    ("mpn", &["mpn", "model", "part"]),
    ("rating", &["rating", "star", "score", "average", "bewert", "voto"]),
    ("review_count", &["review", "count", "vote", "ratings", "bewertungen"]),
    ("image_url", &["image", "img", "photo", "hero", "gallery", "featured", "lead", "media", "picture"]),
    (
        "description",
        &["desc", "summary", "intro", "excerpt", "dek", "standfirst", "subtitle", "lead", "teaser"],
    ),
    ("author", &["author", "byline", "writer", "autor", "/by", "\"by", "profile", "contributor"]),
    ("published", &["publi", "posted", "date", "time", "veröffentlicht"]),
    ("modified", &["modif", "updat", "edited", "aktualis"]),
    ("section", &["section", "categor", "breadcrumb", "kicker", "topic", "eyebrow", "rubri"]),
    ("tags", &["tag", "keyword", "topic", "label"]),
    ("body", &["body", "content", "article", "text", "story", "entry"]),
    ("company", &["company", "employer", "organi", "firm", "empresa"]),
    ("location", &["location", "city", "place", "ort", "standort", "ubicaci"]),
    ("region", &["region", "state", "province"]),
    ("country", &["country", "land"]),
    ("date_posted", &["post", "date", "listed", "publish"]),
    ("valid_through", &["valid", "expire", "deadline", "clos", "until"]),
    ("employment_type", &["type", "employment", "contract", "schedule"]),
    ("salary", &["salary", "pay", "compensation", "wage", "gehalt"]),
    ("industry", &["industry", "sector", "categor"]),
    ("prep_time", &["prep", "active", "elabora", "zubereit", "voorbereid"]),
    ("cook_time", &["cook", "bak", "koch", "cocci"]),
    ("total_time", &["total", "gesamt", "ready"]),
    ("yield", &["yield", "serv", "portion", "makes", "person"]),
    ("category", &["categor", "course", "breadcrumb", "type"]),
    ("cuisine", &["cuisine", "cocina", "region"]),
    ("ingredients", &["ingred", "zutat"]),
    ("instructions", &["instruct", "direction", "method", "step", "preparation"]),
    ("calories", &["calor", "kcal", "energ", "nutri"]),
    ("names", &["title", "name", "heading", "headline"]),
    ("titles", &["title", "name", "heading", "headline"]),
    ("urls", &["title", "name", "link", "url"]),
    ("prices", &["price", "preis", "prix", "precio", "prezzo", "amount", "cena"]),
    ("image_urls", &["image", "img", "photo", "thumb", "picture"]),
    ("ratings", &["rating", "star", "score", "average"]),
    ("snippets", &["snippet", "desc", "abstract", "summary", "teaser", "excerpt"]),
    ("ranks", &["rank", "position", "badge"]),
];

/// Parts of names and labels that speak of something else which has the same form, by the attribute's name.
const CONTRARY: &[(&str, &[&str])] = &[
    ("price", &["shipping", "delivery", "old", "was-", "strike", "saving", "comment"]),
    ("rating", &["count", "comment"]),
    ("image_url", &["logo", "avatar", "related", "author"]),
    ("published", &["updat", "modif", "edited", "aktualis", "comment"]),
    ("modified", &["publi", "posted", "created", "comment"]),
    ("date_posted", &["expire", "valid", "clos", "deadline"]),
    ("valid_through", &["posted", "publi"]),
    ("prep_time", &["cook", "total", "gesamt", "bak"]),
    ("cook_time", &["prep", "total", "gesamt"]),
    ("total_time", &["prep", "cook", "active"]),
    ("yield", &["calor", "minute", "time"]),
];

impl Term {
    /// Parts of names and labels that speak of something else.
    pub fn contrary(&self) -> &'static [&'static str] {
        CONTRARY.iter().find(|(name, _)| *name == self.name).map_or(&[], |(_, parts)| parts)
    }

    /// Parts of names and labels that speak of the attribute.
    pub fn hints(&self) -> &'static [&'static str] {
        HINTS.iter().find(|(name, _)| *name == self.name).map_or(&[], |(_, hints)| hints)
    }
}

const fn term(
    name: &'static str,
    kind: AttributeType,
    form: Form,
    chains: &'static [&'static str],
    metas: &'static [&'static str],
) -> Term {
    Term { name, kind, form, chains, metas }
}

impl Kind {
    /// In the order in which a page that has several is read: a recipe in a blog's article is a recipe.
    pub const ALL: [Kind; 4] = [Kind::JobPosting, Kind::Recipe, Kind::Product, Kind::Article];
    /// Pages that list things, which their repeated structure says and no item that they are about.
    pub const LISTS: [Kind; 3] = [Kind::Serp, Kind::Bestseller, Kind::ProductList];

    /// Whether such a page lists things.
    pub fn is_list(self) -> bool {
        Kind::LISTS.contains(&self)
    }

    /// The name, which for all but recipes is the platform's page type.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Product => "product",
            Kind::Article => "article",
            Kind::JobPosting => "job_posting",
            Kind::Recipe => "recipe",
            Kind::ProductList => "product_list",
            Kind::Serp => "serp",
            Kind::Bestseller => "bestseller",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().chain(Kind::LISTS).find(|kind| kind.name() == name)
    }

    /// Whether an item of this schema.org type is what such a page is about.
    pub fn has_type(self, name: &str) -> bool {
        match self {
            Kind::Product => {
                matches!(
                    name,
                    "Product"
                        | "ProductGroup"
                        | "ProductModel"
                        | "IndividualProduct"
                        | "SomeProducts"
                        | "Book"
                        | "Vehicle"
                        | "Car"
                )
            }
            Kind::Article => {
                (name.ends_with("Article") || name.ends_with("Posting") || name == "Report")
                    && name != "JobPosting"
            }
            Kind::JobPosting => name == "JobPosting",
            Kind::Recipe => name == "Recipe",
            Kind::ProductList | Kind::Serp | Kind::Bestseller => false,
        }
    }

    /// Whether OpenGraph's `og:type` says so.
    pub fn has_graph_type(self, name: &str) -> bool {
        match self {
            Kind::Product => matches!(name, "product" | "product.item" | "og:product" | "book"),
            Kind::Article => matches!(name, "article" | "og:article"),
            _ => false,
        }
    }

    /// The attributes, those that matter most first.
    pub fn terms(self) -> &'static [Term] {
        match self {
            Kind::Product => PRODUCT,
            Kind::Article => ARTICLE,
            Kind::JobPosting => JOB_POSTING,
            Kind::Recipe => RECIPE,
            Kind::ProductList => PRODUCT_LIST,
            Kind::Serp => SERP,
            Kind::Bestseller => BESTSELLER,
        }
    }
}

const RATING: Term = term("rating", Number, Form::Number, &["aggregateRating.ratingValue"], &[]);
const REVIEW_COUNT: Term = term(
    "review_count",
    Number,
    Form::Number,
    &["aggregateRating.reviewCount", "aggregateRating.ratingCount"],
    &[],
);
const AUTHOR: Term =
    term("author", Text, Form::Text, &["author", "creator"], &["article:author_name", "author"]);
const PUBLISHED: Term = term(
    "published",
    Text,
    Form::Date,
    &["datePublished", "dateCreated"],
    &["article:published_time", "date"],
);
const MODIFIED: Term = term("modified", Text, Form::Date, &["dateModified"], &["article:modified_time"]);
const IMAGE: Term = term(
    "image_url",
    Url,
    Form::Image,
    &["image.url", "image", "thumbnailUrl"],
    &["og:image", "twitter:image"],
);
const DESCRIPTION: Term =
    term("description", Text, Form::Text, &["description"], &["og:description", "description"]);

static PRODUCT: &[Term] = &[
    term("name", Text, Form::Text, &["name"], &["og:title"]),
    term(
        "price",
        Number,
        Form::Number,
        &["offers.price", "offers.priceSpecification.price", "offers.lowPrice", "offers.offers.price"],
        &["product:price:amount", "og:price:amount"],
    ),
    term(
        "currency",
        Text,
        Form::Text,
        &["offers.priceCurrency", "offers.priceSpecification.priceCurrency"],
        &["product:price:currency", "og:price:currency"],
    ),
    term(
        "availability",
        Text,
        Form::Availability,
        &["offers.availability"],
        &["product:availability", "og:availability"],
    ),
    term("brand", Text, Form::Text, &["brand", "manufacturer"], &["product:brand", "og:brand"]),
    term("sku", Text, Form::Text, &["sku", "productID", "offers.sku"], &["product:retailer_item_id"]),
    term(
        "gtin",
        Text,
        Form::Text,
        &["gtin13", "gtin", "gtin12", "gtin14", "gtin8", "isbn"],
        &["product:ean", "book:isbn"],
    ),
    term("mpn", Text, Form::Text, &["mpn"], &["product:mfr_part_no"]),
    RATING,
    REVIEW_COUNT,
    IMAGE,
    DESCRIPTION,
];

static ARTICLE: &[Term] = &[
    term("headline", Text, Form::Text, &["headline", "name"], &["og:title"]),
    AUTHOR,
    PUBLISHED,
    MODIFIED,
    term("section", Text, Form::Text, &["articleSection"], &["article:section"]),
    term("tags", TextList, Form::Text, &["keywords"], &["article:tag"]),
    IMAGE,
    DESCRIPTION,
    term("body", Text, Form::Text, &["articleBody"], &[]),
];

static JOB_POSTING: &[Term] = &[
    term("title", Text, Form::Text, &["title", "name"], &["og:title"]),
    term("company", Text, Form::Text, &["hiringOrganization"], &[]),
    term(
        "location",
        Text,
        Form::Text,
        &["jobLocation.address.addressLocality", "jobLocation.address", "jobLocation"],
        &[],
    ),
    term("region", Text, Form::Text, &["jobLocation.address.addressRegion"], &[]),
    term("country", Text, Form::Text, &["jobLocation.address.addressCountry"], &[]),
    term("date_posted", Text, Form::Date, &["datePosted"], &[]),
    term("valid_through", Text, Form::Date, &["validThrough"], &[]),
    term("employment_type", Text, Form::Text, &["employmentType"], &[]),
    term(
        "salary",
        Number,
        Form::Number,
        &["baseSalary.value.minValue", "baseSalary.value.value", "baseSalary.value"],
        &[],
    ),
    term("industry", Text, Form::Text, &["industry", "occupationalCategory"], &[]),
    DESCRIPTION,
];

static RECIPE: &[Term] = &[
    term("name", Text, Form::Text, &["name", "headline"], &["og:title"]),
    AUTHOR,
    PUBLISHED,
    MODIFIED,
    term("prep_time", Text, Form::Duration, &["prepTime"], &[]),
    term("cook_time", Text, Form::Duration, &["cookTime"], &[]),
    term("total_time", Text, Form::Duration, &["totalTime"], &[]),
    term("yield", Text, Form::Number, &["recipeYield", "yield"], &[]),
    term("category", Text, Form::Text, &["recipeCategory"], &[]),
    term("cuisine", Text, Form::Text, &["recipeCuisine"], &[]),
    term("ingredients", TextList, Form::Text, &["recipeIngredient", "ingredients"], &[]),
    term(
        "instructions",
        TextList,
        Form::Text,
        &["recipeInstructions.itemListElement.text", "recipeInstructions.text", "recipeInstructions"],
        &[],
    ),
    RATING,
    REVIEW_COUNT,
    term("calories", Text, Form::Number, &["nutrition.calories"], &[]),
    IMAGE,
    DESCRIPTION,
];

/// An attribute of a list: a value of each record that has one, in the order of the page.
const fn column(name: &'static str, kind: AttributeType, form: Form) -> Term {
    term(name, kind, form, &[], &[])
}

const URLS: Term = column("urls", UrlList, Form::Link);
const PRICES: Term = column("prices", TextList, Form::Number);
const IMAGE_URLS: Term = column("image_urls", UrlList, Form::Image);
const RATINGS: Term = column("ratings", TextList, Form::Number);
const NAMES: Term = column("names", TextList, Form::Text);
const RANKS: Term = column("ranks", TextList, Form::Number);

static PRODUCT_LIST: &[Term] = &[NAMES, URLS, PRICES, IMAGE_URLS, RATINGS];

static BESTSELLER: &[Term] = &[RANKS, NAMES, URLS, PRICES, IMAGE_URLS, RATINGS];

static SERP: &[Term] =
    &[column("titles", TextList, Form::Text), URLS, column("snippets", TextList, Form::Text), RANKS];
