//! Functions over windows, named and written out.

use super::expressions::Kind;
use super::expressions::Kind::{Bool, Float, Int, Num, Text, Time};
use super::generate::{Column, Generator, Made, NESTING_MAX, kind_of, quoted};
use super::worlds::TABLES;

impl Generator {
    pub(super) fn windowed(&mut self) -> Made {
        let (name, columns) = self.random.pick(TABLES);
        let alias = self.alias();
        self.scope = columns
            .iter()
            .map(|(column, kind)| Column { sql: format!("{alias}.{}", quoted(column)), kind: kind_of(*kind) })
            .collect();
        let filter = if self.random.one_of(2) { self.filter() } else { String::new() };
        let kept = self.nesting;
        self.nesting = NESTING_MAX;
        let part = self.random.pick(&[Text, Int, Bool, Text]);
        let partition = self.expression(part, 1);
        let by = self.random.pick(&[Int, Text, Time, Float]);
        let by = self.expression(by, 1);
        let how = self.random.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
        // Total where rows are numbered.
        let total = format!("ORDER BY {by}{how}, {alias}.id");
        let (definition, named) = match self.random.below(4) {
            0 => (format!("PARTITION BY {partition}"), format!("w {total}")),
            1 => (format!("PARTITION BY {partition} {total}"), "w".to_owned()),
            2 => (total.clone(), "w".to_owned()),
            _ => (String::new(), format!("w {total}")),
        };
        let inline = format!("{definition} {}", named.trim_start_matches('w'));
        let has_order = named != "w" || definition.contains("ORDER");
        let over = match self.random.below(3) {
            0 if named == "w" => "w".to_owned(),
            0 | 1 => format!("({named}{{frame}})"),
            _ => format!("({inline}{{frame}})"),
        };
        let mut items = vec![format!("{alias}.id")];
        let mut kinds = vec![Int];
        for _ in 0..1 + self.random.below(3) {
            let (call, kind, framed) = self.window_function();
            let frame = if framed && has_order { self.frame() } else { String::new() };
            let over = over.replace("{frame}", &frame);
            items.push(format!("{call} OVER {over}"));
            kinds.push(kind);
        }
        self.nesting = kept;
        let window = format!(" WINDOW w AS ({definition})");
        Made { sql: format!("SELECT {} FROM {name} {alias}{filter}{window}", items.join(", ")), kinds }
    }

    fn frame(&mut self) -> String {
        let frame = self.random.pick(&[
            "",
            "",
            " ROWS 2 PRECEDING",
            " ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING",
            " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            " ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
            " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            " GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
        ]);
        frame.to_owned()
    }

    /// A function, what it gives, and whether a frame matters to it.
    fn window_function(&mut self) -> (String, Kind, bool) {
        match self.random.below(14) {
            0 => ("row_number()".to_owned(), Int, false),
            1 => ("rank()".to_owned(), Int, false),
            2 => ("dense_rank()".to_owned(), Int, false),
            3 => (format!("ntile({})", 1 + self.random.below(4)), Int, false),
            4 | 5 => {
                let which = self.random.pick(&["lag", "lead"]);
                let kind = self.random.pick(&[Int, Text, Time, Float]);
                let value = self.typed(kind);
                let call = match self.random.below(3) {
                    0 => format!("{which}({value})"),
                    1 => format!("{which}({value}, 2)"),
                    _ => format!("{which}({value}, 1, {})", self.typed(kind)),
                };
                (call, kind, false)
            }
            6 => {
                let which = self.random.pick(&["first_value", "last_value"]);
                let kind = self.random.pick(&[Int, Text, Time, Float]);
                (format!("{which}({})", self.typed(kind)), kind, true)
            }
            7 => (format!("nth_value({}, 2)", self.typed(Text)), Text, true),
            8 => ("count(*)".to_owned(), Int, true),
            9 => (format!("count({})", self.expression(Text, 1)), Int, true),
            10 => (format!("sum(({})::bigint)", self.expression(Int, 1)), Num, true),
            11 => {
                let which = self.random.pick(&["min", "max"]);
                let kind = self.random.pick(&[Int, Text, Time, Float]);
                (format!("{which}({})", self.expression(kind, 1)), kind, true)
            }
            12 => (format!("count(*) FILTER (WHERE {})", self.expression(Bool, 1)), Int, true),
            _ => (format!("avg({})", self.expression(Int, 1)), Num, true),
        }
    }

    /// An expression whose type PostgreSQL knows, which it does not of a written text.
    pub(super) fn typed(&mut self, kind: Kind) -> String {
        let value = self.expression(kind, 1);
        let name = match kind {
            Text => "text",
            Int => "bigint",
            _ => return value,
        };
        format!("({value})::{name}")
    }
}
