//! Against a server of the machine's own packages.

use super::*;
use fetch::connect::Resolver;
use fetch::{AddressGuard, FetchSettings};
use postgres_server::Server;
use sql::{Cell, ColumnKind, ColumnSpec};

fn connector(allow: &str) -> Connector {
    let allow: Vec<_> = allow.split_whitespace().map(|rule| rule.parse().unwrap()).collect();
    Connector::new(AddressGuard::new(&allow, &[]), Resolver::default(), &FetchSettings::default())
}

fn settings(port: u16, mode: WriteMode) -> Settings {
    Settings {
        host: "127.0.0.1".into(),
        port,
        database: "shop".into(),
        user: "writer".into(),
        password: Some("s3cret".into()),
        ssl: SslMode::Disable,
        authorities: None,
        schema: "public".into(),
        table: "Prices \"now\"".into(),
        mode,
        adds_columns: true,
    }
}

fn batch(own: &[(&str, ColumnKind)], rows: &[(&str, &str, i64, Vec<Cell>)]) -> Batch {
    let mut columns = vec![
        ColumnSpec::new("result_id", ColumnKind::Text),
        ColumnSpec::new("url", ColumnKind::Text),
        ColumnSpec::new("scraped_at", ColumnKind::Timestamp),
    ];
    columns.extend(own.iter().map(|(name, kind)| ColumnSpec::new(*name, *kind)));
    let row = |(id, url, at, cells): &(&str, &str, i64, Vec<Cell>)| {
        [Cell::from(*id), Cell::from(*url), Cell::Time(*at)]
            .into_iter()
            .chain(cells.iter().cloned())
            .collect()
    };
    Batch { columns, rows: rows.iter().map(row).collect() }
}

async fn write(settings: &Settings, batch: &Batch) -> Result<Written, Fault> {
    Postgres::open(&connector("127.0.0.1/32"), settings).await?.write(batch).await
}

#[tokio::test]
async fn rows_are_there_once_typed_and_in_columns_that_grow() {
    let Some(server) = Server::start() else { return };
    server.database("shop", "writer", "s3cret");
    let append = settings(server.port, WriteMode::Append);
    let typed =
        [("price", ColumnKind::Float64), ("in_stock", ColumnKind::Bool), ("images", ColumnKind::Json)];
    let cells =
        |price| vec![Cell::Float(price), Cell::Bool(true), Cell::from("[\"a\\u0000b\",\"\\\\u0000\"]")];
    let first = batch(
        &typed,
        &[("r1", "https://a/1\0", 1_000, cells(1.5)), ("r2", "https://a/2", 2_000, vec![Cell::Null; 3])],
    );
    let written = write(&append, &first).await.unwrap();
    assert_eq!((written.rows, written.is_new, written.added.len()), (2, true, 0));
    for _ in 0..3 {
        write(&append, &first).await.unwrap();
    }
    let read = |what: &str| {
        server.sql("shop", &format!("SELECT {what} FROM \"Prices \"\"now\"\"\" ORDER BY result_id"))
    };
    assert_eq!(
        read("*"),
        "r1|https://a/1\u{fffd}|1970-01-01 00:00:01+00|1.5|t|[\"a\u{fffd}b\", \"\\\\u0000\"]\nr2|https://a/2|1970-01-01 00:00:02+00|||"
    );
    let long = "x".repeat(100);
    let wider = [("price", ColumnKind::Float64), ("weight", ColumnKind::Int64), (&*long, ColumnKind::Text)];
    let third =
        batch(&wider, &[("r3", "https://a/2", 3_000, vec![Cell::Int(2), Cell::Int(-7), Cell::from("é")])]);
    let written = write(&append, &third).await.unwrap();
    assert_eq!((written.rows, written.is_new, written.added.len()), (1, false, 2));
    assert_eq!(read("price, weight"), "1.5|\n|\n2|-7");
    assert_eq!(write(&append, &third).await.unwrap().added, Vec::<String>::new());
}

#[tokio::test]
async fn a_page_has_one_row_with_what_is_newest() {
    let Some(server) = Server::start() else { return };
    server.database("shop", "writer", "s3cret");
    let upsert = settings(server.port, WriteMode::Upsert);
    let long = format!(
        "https://a/{}",
        (0..9_000).map(|n| char::from(b'a' + (n * 7 % 23) as u8)).collect::<String>()
    );
    let price = [("price", ColumnKind::Float64)];
    let row = |id, url, at, price| (id, url, at, vec![Cell::Float(price)]);
    let one = batch(
        &price,
        &[
            row("r1", "https://a/1", 5, 1.0),
            row("r3", "https://a/1", 9, 3.0),
            row("r2", "https://a/1", 7, 2.0),
            row("r4", &long, 1, 4.0),
        ],
    );
    assert_eq!(write(&upsert, &one).await.unwrap().rows, 2);
    let old = batch(&price, &[row("r0", "https://a/1", 1, 0.5), row("r5", "https://a/5", 1, 5.0)]);
    assert_eq!(write(&upsert, &old).await.unwrap().rows, 1);
    let read = server.sql("shop", "SELECT result_id, price FROM \"Prices \"\"now\"\"\" ORDER BY result_id");
    assert_eq!(read, "r3|3\nr4|4\nr5|5");
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    let Some(server) = Server::start() else { return };
    server.database("shop", "writer", "s3cret");
    server.sql("shop", "CREATE SCHEMA closed; CREATE TABLE own (result_id text PRIMARY KEY, url varchar(12), scraped_at timestamp, price numeric(4,2) NOT NULL, sold date); GRANT ALL ON own TO writer; CREATE TABLE unkeyed (result_id text, url text, scraped_at timestamptz)");
    let base = settings(server.port, WriteMode::Append);
    let one =
        |id| batch(&[("price", ColumnKind::Float64)], &[(id, "https://a/1", 1_000, vec![Cell::Float(1.25)])]);
    let told = async |change: &dyn Fn(&mut Settings), batch: &Batch| {
        let mut settings = base.clone();
        change(&mut settings);
        let fault = write(&settings, batch).await.unwrap_err();
        (fault.kind, fault.told)
    };
    type Change<'c> = &'c dyn Fn(&mut Settings);
    let own: Change<'_> = &|s| s.table = "own".into();
    let sold = batch(&[("sold", ColumnKind::Bool)], &[("r1", "https://a/1", 1, vec![Cell::Bool(true)])]);
    let unknown = batch(&[("weight", ColumnKind::Int64)], &[("r1", "https://a/1", 1, vec![Cell::Int(3)])]);
    let long =
        batch(&[("price", ColumnKind::Float64)], &[("r1", "https://a/123", 1, vec![Cell::Float(1.0)])]);
    let large = batch(&[("price", ColumnKind::Float64)], &[("r1", "https://a/1", 1, vec![Cell::Float(1e9)])]);
    let none = batch(&[("price", ColumnKind::Float64)], &[("r1", "https://a/1", 1, vec![Cell::Null])]);
    let cases: [(Change<'_>, &Batch, FaultKind, &str); 12] = [
        (
            &|s| s.password = Some("wrong".into()),
            &one("r"),
            FaultKind::Refused,
            "password authentication failed",
        ),
        (&|s| s.password = None, &one("r"), FaultKind::Away, "password missing"),
        (&|s| s.user = "nobody".into(), &one("r"), FaultKind::Refused, "nobody"),
        (&|s| s.database = "none".into(), &one("r"), FaultKind::Refused, "does not exist"),
        (&|s| s.schema = "none".into(), &one("r"), FaultKind::Table, "there is no schema \"none\""),
        (&|s| s.schema = "closed".into(), &one("r"), FaultKind::Table, "permission denied for schema closed"),
        (
            &|s| s.table = "unkeyed".into(),
            &batch(&[], &[("r", "u", 1, vec![])]),
            FaultKind::Table,
            "no unique index on result_id",
        ),
        (own, &sold, FaultKind::Table, "\"sold\" is of the type date"),
        (
            &|s| (s.table, s.adds_columns) = ("own".into(), false),
            &unknown,
            FaultKind::Table,
            "no column \"weight\" of the type bigint",
        ),
        (own, &long, FaultKind::Rows, "too long"),
        (own, &large, FaultKind::Rows, "overflow"),
        (own, &none, FaultKind::Rows, "column: price"),
    ];
    for (change, batch, kind, expected) in cases {
        let (found, text) = told(change, batch).await;
        assert!(found == kind && text.contains(expected), "{expected}: {found:?} {text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
    let mut fits = base.clone();
    fits.table = "own".into();
    assert_eq!(write(&fits, &one("r9")).await.unwrap().rows, 1);
    assert_eq!(server.sql("shop", "SELECT * FROM own"), "r9|https://a/1|1970-01-01 00:00:01|1.25|");
    server.kill();
    assert_eq!(told(own, &one("r")).await.0, FaultKind::Away);
    server.again();
    assert_eq!(write(&fits, &one("r9")).await.unwrap().rows, 1);
    let closed = Postgres::open(&connector(""), &base).await.err().unwrap();
    assert!(closed.kind == FaultKind::Refused && closed.told.contains("network.allow"), "{closed}");
}

#[tokio::test]
async fn sslmode_means_what_it_means_to_libpq() {
    let Some(server) = Server::start() else { return };
    server.database("shop", "writer", "s3cret");
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(authority, &authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let elsewhere = rcgen::CertificateParams::new(vec!["db.elsewhere.example".to_owned()]).unwrap();
    let certificate = elsewhere.signed_by(&key, &issuer).unwrap();
    server.secret_file("server.crt", &certificate.pem());
    server.secret_file("server.key", &key.serialize_pem());
    let stranger = rcgen::generate_simple_self_signed(vec!["x".to_owned()]).unwrap().cert.pem();
    let rules = |rule: &str| {
        server.allow(&format!("local all all trust\n{rule} all all 127.0.0.1/32 scram-sha-256\n"));
        server.kill();
        server.again();
    };
    let rows = batch(&[], &[("r1", "https://a/1", 1, vec![])]);
    let ends = async |ssl, ca: Option<&str>| {
        let settings =
            Settings { ssl, authorities: ca.map(str::to_owned), ..settings(server.port, WriteMode::Append) };
        write(&settings, &rows).await.map(|_| ()).map_err(|fault| fault.told)
    };
    server.configure("ssl = on\n");
    rules("hostssl");
    use SslMode::{Allow, Disable, Prefer, Require, VerifyCa, VerifyFull};
    let own = Some(&*authority_pem);
    for (ssl, ca, is_good) in [
        (Disable, None, false),
        (Allow, None, true),
        (Prefer, None, true),
        (Require, None, true),
        (Require, own, true),
        (Require, Some(&*stranger), false),
        (VerifyCa, own, true),
        (VerifyCa, Some(&*stranger), false),
        (VerifyCa, None, false),
        (VerifyFull, own, false),
        (VerifyFull, None, false),
    ] {
        let ended = ends(ssl, ca).await;
        assert_eq!(ended.is_ok(), is_good, "{} {}: {ended:?}", ssl.name(), ca.is_some());
    }
    let here = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    server.secret_file("server.crt", &here.signed_by(&key, &issuer).unwrap().pem());
    rules("hostssl");
    assert_eq!(ends(VerifyFull, own).await, Ok(()));
    server.configure("ssl = off\n");
    rules("host");
    for (ssl, is_good) in
        [(Disable, true), (Allow, true), (Prefer, true), (Require, false), (VerifyFull, false)]
    {
        let ended = ends(ssl, own).await;
        assert_eq!(ended.is_ok(), is_good, "plain {}: {ended:?}", ssl.name());
    }
}
