use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
    IntervalMonthDayNanoArray, ListArray, RecordBatch, StringArray, Time64NanosecondArray,
    TimestampMillisecondArray,
};
use datafusion::arrow::datatypes::{Field, Int32Type, IntervalMonthDayNano, Schema};

use super::*;
use crate::spool::Spool;

const GO_ON: Halting<'_> = &|| None;

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench { folder: tempfile::tempdir().expect("a folder") }
    }

    fn result(&self, columns: &[(&str, ArrayRef)]) -> PathBuf {
        let path = self.folder.path().join("result.arrow");
        let fields: Vec<Field> = columns
            .iter()
            .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let mut spool = Spool::create(&path, &schema, u64::MAX, u64::MAX).expect("create");
        let columns = columns.iter().map(|(_, column)| Arc::clone(column)).collect();
        spool.push(&RecordBatch::try_new(schema, columns).expect("a batch")).expect("push");
        spool.finish().expect("finish");
        path
    }

    fn export(&self, columns: &[(&str, ArrayRef)], format: ExportFormat) -> (Exported, Vec<u8>) {
        let target = self.folder.path().join(format!("target.{}", format.name()));
        let exported = export(&self.result(columns), &target, format, 1 << 30, GO_ON).expect("exported");
        let bytes = fs::read(&target).expect("the file");
        assert_eq!(exported.bytes, bytes.len() as u64);
        (exported, bytes)
    }

    fn text(&self, columns: &[(&str, ArrayRef)], format: ExportFormat) -> String {
        String::from_utf8(self.export(columns, format).1).expect("UTF-8")
    }
}

fn texts<const N: usize>(texts: [Option<&str>; N]) -> ArrayRef {
    Arc::new(StringArray::from_iter(texts))
}

/// One column of each kind, three rows: values, odd values, NULLs.
fn all_kinds() -> Vec<(&'static str, ArrayRef)> {
    let lists =
        ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), Some(vec![]), None]);
    let decimals = Decimal128Array::from(vec![Some(1230), Some(-5), None]);
    let spans = [
        Some(IntervalMonthDayNano::new(1, 2, 3_000_000_000)),
        Some(IntervalMonthDayNano::new(0, -3, 0)),
        None,
    ];
    vec![
        ("text", texts([Some("plain"), Some(""), None])),
        ("int", Arc::new(Int64Array::from(vec![Some(7), Some((1 << 53) + 1), None]))),
        ("float", Arc::new(Float64Array::from(vec![Some(1.5), Some(f64::NAN), None]))),
        ("decimal", Arc::new(decimals.with_precision_and_scale(38, 2).expect("a decimal"))),
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
        (
            "at",
            Arc::new(TimestampMillisecondArray::from(vec![
                Some(1_700_000_000_007),
                Some(-5_000_000_000_000),
                None,
            ])),
        ),
        ("day", Arc::new(Date32Array::from(vec![Some(19_675), Some(-40_000), None]))),
        ("span", Arc::new(IntervalMonthDayNanoArray::from(spans.to_vec()))),
        ("list", Arc::new(lists)),
    ]
}

#[test]
fn csv_is_what_rfc_4180_says() {
    let bench = Bench::new();
    assert_eq!(
        bench.text(&all_kinds(), ExportFormat::Csv),
        "text,int,float,decimal,bool,at,day,span,list\r\n\
         plain,7,1.5,12.30,true,2023-11-14T22:13:20.007Z,2023-11-14,1 mon 2 days 00:00:03,\"[1,null]\"\r\n\
         \"\",9007199254740993,NaN,-0.05,false,1811-07-23T15:06:40.000Z,1860-06-26,-3 days,[]\r\n\
         ,,,,,,,,\r\n"
    );
    let odd =
        texts([Some("a,b"), Some("say \"hi\""), Some("two\r\nlines"), Some(" edge "), Some("Ünï\u{1f600}")]);
    assert_eq!(
        bench.text(&[("a\"b", odd.clone()), ("c", odd)], ExportFormat::Csv),
        "\"a\"\"b\",c\r\n\"a,b\",\"a,b\"\r\n\"say \"\"hi\"\"\",\"say \"\"hi\"\"\"\r\n\"two\r\nlines\",\"two\r\nlines\"\r\n\
         \" edge \",\" edge \"\r\nÜnï\u{1f600},Ünï\u{1f600}\r\n"
    );
    // An empty line would be skipped by most readers.
    assert_eq!(bench.text(&[("n", texts([None, Some("")]))], ExportFormat::Csv), "n\r\n\"\"\r\n\"\"\r\n");
}

/// Texts that a spreadsheet would run, and such that it would not.
const FORMULAS: [&str; 9] = [
    "=1+1",
    "+A1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "＝1+1",
    "=cmd|' /C calc'!A0",
    "=HYPERLINK(\"http://x\")",
];
const HARMLESS: [&str; 5] = ["-5", "+3.5", "-1e9", "a=b", "1-2"];

#[test]
fn formulas_are_defused_in_csv() {
    let bench = Bench::new();
    for formula in FORMULAS {
        let text = bench.text(&[(formula, texts([Some(formula)])), ("x", texts([None]))], ExportFormat::Csv);
        for cell in text.split("\r\n").filter(|line| line.len() > 2).map(|line| line.trim_start_matches('"'))
        {
            assert!(cell.starts_with('\''), "{formula:?}: {text:?}");
        }
    }
    for harmless in HARMLESS {
        let text = bench.text(&[("n", texts([Some(harmless)]))], ExportFormat::Csv);
        assert_eq!(text, format!("n\r\n{harmless}\r\n"));
    }
    let negative: ArrayRef = Arc::new(Int64Array::from(vec![-5]));
    assert_eq!(bench.text(&[("n", negative)], ExportFormat::Csv), "n\r\n-5\r\n");
}

#[test]
fn json_lines_are_the_rows_of_result_pages() {
    let text = Bench::new().text(&all_kinds(), ExportFormat::Jsonl);
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["list"], serde_json::json!([1, null]));
    assert_eq!((&lines[1]["int"], &lines[1]["float"]), (&"9007199254740993".into(), &"NaN".into()));
    assert_eq!(lines[2]["text"], serde_json::Value::Null);
    assert!(text.ends_with("}\n"));
}

#[test]
fn arrow_is_the_result_itself() {
    let bench = Bench::new();
    let columns = all_kinds();
    let (exported, bytes) = bench.export(&columns, ExportFormat::Arrow);
    assert_eq!((exported.rows, bytes), (3, fs::read(bench.result(&columns)).expect("the result")));
}

/// What DuckDB and PyArrow read from the file, where Python has them (`GLEANER_PYTHON` names the interpreter).
#[test]
fn parquet_is_read_by_others_as_it_was() {
    const SCRIPT: &str = r"
import sys, json, pyarrow.parquet as pq, duckdb
table = pq.read_table(sys.argv[1])
rows = duckdb.sql(f'SELECT COLUMNS(*)::VARCHAR FROM read_parquet({sys.argv[1]!r})').fetchall()
print(json.dumps({'types': [str(t) for t in table.schema.types], 'rows': table.num_rows,
    'arrow': [[str(v) for v in row.values()] for row in table.slice(0, 5).to_pylist()],
    'duck': [[str(v) for v in row] for row in rows[:5]], 'duck_rows': len(rows)}))
";
    let bench = Bench::new();
    let (_, bytes) = bench.export(&all_kinds(), ExportFormat::Parquet);
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let python = std::env::var("GLEANER_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let read = |format: &str| {
        let file = bench.folder.path().join(format!("target.{format}"));
        let output = std::process::Command::new(&python).args(["-c", SCRIPT]).arg(file).output().ok()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let lacks = |module: &str| errors.contains(&format!("No module named '{module}'"));
        assert!(output.status.success() || lacks("duckdb") || lacks("pyarrow"), "{errors}");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).ok()
    };
    let Some(read_back) = read("parquet") else {
        println!("skipped: no Python with duckdb and pyarrow");
        return;
    };
    let types = [
        "string",
        "int64",
        "double",
        "decimal128(38, 2)",
        "bool",
        "timestamp[ms, tz=UTC]",
        "date32[day]",
        "string",
        "string",
    ];
    let as_read: Vec<String> = read_back["types"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t.as_str().unwrap().replace("extension<arrow.json>", "string"))
        .collect();
    assert_eq!(as_read, types);
    assert_eq!(
        read_back["arrow"],
        serde_json::json!([
            [
                "plain",
                "7",
                "1.5",
                "12.30",
                "True",
                "2023-11-14 22:13:20.007000+00:00",
                "2023-11-14",
                "1 mon 2 days 00:00:03",
                "[1,null]"
            ],
            [
                "",
                "9007199254740993",
                "nan",
                "-0.05",
                "False",
                "1811-07-23 15:06:40+00:00",
                "1860-06-26",
                "-3 days",
                "[]"
            ],
            ["None", "None", "None", "None", "None", "None", "None", "None", "None"],
        ])
    );
    assert_eq!(read_back["duck"][1][3], "-0.05");
    let times: ArrayRef = Arc::new(Time64NanosecondArray::from(vec![Some(3_723_000_004_000), None]));
    bench.export(&[("at", times)], ExportFormat::Parquet);
    let times = read("parquet").expect("Python is there");
    assert_eq!(times["types"], serde_json::json!(["time64[us]"]));
    assert_eq!(times["arrow"], serde_json::json!([["01:02:03.000004"], ["None"]]));
    assert_eq!(times["duck"], serde_json::json!([["01:02:03.000004"], ["None"]]));
    // Many pages and row groups.
    let rows = 600_000;
    let words: ArrayRef =
        Arc::new(StringArray::from_iter((0..rows).map(|n| (n % 3 != 0).then(|| format!("word {n}")))));
    let flags: ArrayRef =
        Arc::new(BooleanArray::from_iter((0..rows).map(|n| (n % 5 != 0).then_some(n % 2 == 0))));
    bench.export(&[("word", words), ("flag", flags)], ExportFormat::Parquet);
    let read_back = read("parquet").expect("Python is there");
    assert_eq!(
        (&read_back["rows"], &read_back["duck_rows"]),
        (&serde_json::json!(rows), &serde_json::json!(rows))
    );
    assert_eq!(read_back["arrow"][4], serde_json::json!(["word 4", "True"]));
    assert_eq!(read_back["duck"][2], serde_json::json!(["word 2", "true"]));
}

/// The files of a workbook.
fn unzipped(bytes: Vec<u8>) -> BTreeMap<String, String> {
    let mut archive = zip::ZipArchive::new(io::Cursor::new(bytes)).expect("a ZIP");
    (0..archive.len())
        .map(|at| {
            let mut file = archive.by_index(at).expect("a file");
            let mut text = String::new();
            file.read_to_string(&mut text).expect("UTF-8");
            (file.name().expect("a name").into_owned(), text)
        })
        .collect()
}

fn sheet(columns: &[(&str, ArrayRef)]) -> String {
    let files = unzipped(Bench::new().export(columns, ExportFormat::Xlsx).1);
    for name in [
        "[Content_Types].xml",
        "_rels/.rels",
        "xl/workbook.xml",
        "xl/_rels/workbook.xml.rels",
        "xl/styles.xml",
    ] {
        assert!(files.contains_key(name), "{name}");
    }
    files["xl/worksheets/sheet1.xml"].clone()
}

#[test]
fn a_workbook_has_typed_cells() {
    let sheet = sheet(&all_kinds());
    for part in [
        r#"<c r="A1" s="1" t="inlineStr"><is><t xml:space="preserve">text</t></is></c>"#,
        r#"<c r="A2" s="0" t="inlineStr"><is><t xml:space="preserve">plain</t></is></c><c r="B2"><v>7.0</v></c><c r="C2"><v>1.5</v></c><c r="D2"><v>12.3</v></c><c r="E2" t="b"><v>1</v></c>"#,
        r#"<c r="B3" s="0" t="inlineStr"><is><t xml:space="preserve">9007199254740993</t>"#,
        r#"<c r="C3" s="0" t="inlineStr"><is><t xml:space="preserve">NaN</t>"#,
        r#"<c r="G2" s="3"><v>45244.0</v></c>"#,
        r#"<c r="F3" s="0" t="inlineStr"><is><t xml:space="preserve">1811-07-23T15:06:40.000Z</t>"#,
        r#"<row r="4"></row>"#,
    ] {
        assert!(sheet.contains(part), "{part} is not in {sheet}");
    }
    let at = sheet
        .split("<c r=\"F2\" s=\"2\"><v>")
        .nth(1)
        .and_then(|rest| rest.split('<').next())
        .expect("a date");
    assert!((at.parse::<f64>().expect("a number") - 45_244.925_926_006).abs() < 1e-8, "{at}");
}

#[test]
fn formulas_and_signs_are_defused_in_workbooks() {
    for formula in FORMULAS {
        let sheet = sheet(&[(formula, texts([Some(formula)]))]);
        assert!(!sheet.contains("<f>") && !sheet.contains("t=\"str\""), "{sheet}");
        assert!(sheet.contains("<c r=\"A2\" s=\"4\" t=\"inlineStr\">"), "{formula:?}: {sheet}");
    }
    let odd = sheet(&[("<n>", texts([Some("<a>&\"'</a>\u{0}\u{8}\u{ffff}_x0041_ _x1_")]))]);
    assert!(odd.contains("&lt;n&gt;"));
    assert!(odd.contains("&lt;a&gt;&amp;\"'&lt;/a&gt;_x0000__x0008__xFFFF__x005F_x0041_ _x1_</t>"), "{odd}");
    let long = "ü".repeat(40_000);
    let cut = sheet(&[("n", texts([Some(&long)]))]);
    let cell = cut.rsplit("preserve\">").next().and_then(|rest| rest.split('<').next()).expect("a cell");
    assert_eq!(cell.encode_utf16().count(), 32_767);
    assert!(cell.ends_with("ü … [cut, 40000 characters]"), "{}", &cell[cell.len() - 50..]);
    let fits = "ü".repeat(32_767);
    assert!(sheet(&[("n", texts([Some(&fits)]))]).contains(&fits));
}

#[test]
fn many_rows_are_written_in_every_format() {
    let bench = Bench::new();
    let rows = 12_345;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter(0..rows));
    let words: ArrayRef =
        Arc::new(StringArray::from_iter((0..rows).map(|n| (n % 3 != 0).then(|| format!("word {n}")))));
    let columns = [("n", numbers), ("word", words)];
    for format in ExportFormat::ALL.iter().copied() {
        let (exported, bytes) = bench.export(&columns, format);
        assert_eq!(exported.rows, rows as u64, "{format:?}");
        match format {
            ExportFormat::Csv => assert!(bytes.ends_with(b"12344,word 12344\r\n")),
            ExportFormat::Jsonl => assert!(bytes.ends_with(b"{\"n\":12344,\"word\":\"word 12344\"}\n")),
            ExportFormat::Parquet => assert!(bytes.ends_with(b"PAR1")),
            ExportFormat::Arrow => assert!(bytes.starts_with(b"ARROW1")),
            ExportFormat::Xlsx => {
                let sheet = &unzipped(bytes)["xl/worksheets/sheet1.xml"];
                assert!(sheet.ends_with("<row r=\"12346\"><c r=\"A12346\"><v>12344.0</v></c><c r=\"B12346\" s=\"0\" t=\"inlineStr\"><is><t xml:space=\"preserve\">word 12344</t></is></c></row></sheetData></worksheet>"));
            }
        }
    }
    // No rows at all.
    let none = [("n", Arc::new(Int64Array::from(Vec::<i64>::new())) as ArrayRef)];
    for format in ExportFormat::ALL.iter().copied() {
        assert_eq!(bench.export(&none, format).0.rows, 0, "{format:?}");
    }
    assert_eq!(bench.text(&none, ExportFormat::Csv), "n\r\n");
}

#[test]
fn what_cannot_be_exported_leaves_nothing() {
    let bench = Bench::new();
    let words: ArrayRef =
        Arc::new(StringArray::from_iter((0..5_000).map(|n| Some(format!("{n} {}", n * 7919 % 104_729)))));
    let result = bench.result(&[("word", words)]);
    let target = bench.folder.path().join("out");
    for format in ExportFormat::ALL.iter().copied() {
        let error = export(&result, &target, format, 1_000, GO_ON).expect_err("too large");
        assert!(matches!(error, ExportError::TooLarge { bytes_max: 1_000 }), "{format:?}: {error:?}");
    }
    for format in [ExportFormat::Csv, ExportFormat::Xlsx, ExportFormat::Parquet] {
        let error = export(&result, &target, format, 1 << 30, &|| Some(Halt::Draining)).expect_err("halted");
        assert!(matches!(error, ExportError::Halted(Halt::Draining)), "{format:?}: {error:?}");
    }
    let damaged = bench.folder.path().join("damaged");
    let mut bytes = fs::read(&result).expect("the result");
    bytes.truncate(bytes.len() / 2);
    fs::write(&damaged, &bytes).expect("write");
    for (source, what) in [(&damaged, "damaged"), (&bench.folder.path().join("missing"), "missing")] {
        let error = export(source, &target, ExportFormat::Csv, 1 << 30, GO_ON).expect_err(what);
        assert!(matches!(error, ExportError::Result(_)), "{error:?}");
    }
    let names: Vec<_> = fs::read_dir(bench.folder.path())
        .expect("a folder")
        .map(|file| file.expect("a file").file_name())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let wide: Vec<(String, ArrayRef)> = (0..16_385).map(|n| (format!("c{n}"), texts([Some("x")]))).collect();
    let wide: Vec<(&str, ArrayRef)> =
        wide.iter().map(|(name, column)| (name.as_str(), Arc::clone(column))).collect();
    let error =
        export(&bench.result(&wide), &target, ExportFormat::Xlsx, 1 << 30, GO_ON).expect_err("too wide");
    assert!(matches!(error, ExportError::Unsupported(_)), "{error:?}");
}

/// A file that is refused beforehand would have been too large.
#[test]
fn no_file_is_smaller_than_was_foreseen() {
    let bench = Bench::new();
    let empty = || texts([Some(""); 3_000]);
    let null = || Arc::new(Int64Array::from(vec![None; 3_000])) as ArrayRef;
    let one = || Arc::new(Int64Array::from(vec![1; 3_000])) as ArrayRef;
    for columns in [
        vec![("n", null())],
        vec![("n", empty())],
        vec![("n", one()), ("m", one())],
        vec![("a", null()), ("b", empty()), ("a long name", null())],
        vec![("n", Arc::new(Int64Array::from(Vec::<i64>::new())) as ArrayRef)],
    ] {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let (Exported { bytes: result_bytes, rows }, _) = bench.export(&columns, ExportFormat::Arrow);
        for format in ExportFormat::ALL.iter().copied() {
            let made = bench.export(&columns, format).0;
            let least = format.bytes_min(rows, &names, result_bytes);
            assert!(least <= made.bytes, "{format:?} {names:?}: {least} foreseen, {} made", made.bytes);
            assert!(format.foresee(rows, &names, result_bytes, made.bytes).is_ok());
            let is_foreseen = format.foresee(rows, &names, result_bytes, least.saturating_sub(1)).is_err();
            assert_eq!(is_foreseen, least > 0, "{format:?}");
        }
    }
    // Where it is exact: values of one character, and no header.
    let columns = [("n", one()), ("m", one())];
    let made = bench.export(&columns, ExportFormat::Jsonl).0;
    assert_eq!(ExportFormat::Jsonl.bytes_min(made.rows, &["n", "m"], 0), made.bytes);
}

#[test]
fn cells_are_named_as_in_a_spreadsheet() {
    for (place, name) in [(0, "A1"), (25, "Z1"), (26, "AA1"), (701, "ZZ1"), (702, "AAA1"), (16_383, "XFD1")] {
        assert_eq!(super::xlsx::name(place, 1), name);
    }
}
