// Parameters of a statement as fields: which widget one gets is said by the column that it is compared with, else by its name.
import { Field, Text } from "../../parts/basic";
import type { TableView } from "../../generated/api";

type Widget = { type: "date" | "number" | "text"; samples: readonly string[] };

/** Names that are days, as words between underscores or capitals. */
const DAY = /^(?:date|day|from|to|since|until|before|after|start|end)$/i;
const NUMBER_TYPE = /int|double|float|decimal|numeric|real/i;
const TIME_TYPE = /timestamp|date/i;

const words = (name: string) => name.replace(/([a-z])([A-Z])/g, "$1_$2").split("_");

/** Whether a name is that of a day: “since”, “startDate”, but not “store”. */
export const isDay = (name: string) => words(name).some((word) => DAY.test(word));

/** The column that a parameter is compared with, as far as that can be seen: `price > {{least}}`. */
function comparedWith(sql: string, name: string): string | undefined {
  const parameter = `\\{\\{\\s*${name}\\s*\\}\\}`;
  const behind = new RegExp(`(\\w+)"?\\s*(?:=|<>|!=|<=|>=|<|>|\\bi?like\\b|\\bin\\s*\\(|\\bbetween\\b(?:\\s+\\S+\\s+and)?)\\s*${parameter}`, "i").exec(sql);
  const before = new RegExp(`${parameter}\\s*(?:=|<>|!=|<=|>=|<|>)\\s*"?(?:\\w+\\.)?"?(\\w+)`, "i").exec(sql);
  return (behind ?? before)?.[1]?.toLowerCase();
}

function widget(sql: string, name: string, tables: readonly TableView[]): Widget {
  const compared = comparedWith(sql, name);
  const named = tables.flatMap((table) => (sql.includes(table.name) ? table.columns.filter((column) => column.name === compared) : []));
  const [column] = named;
  if (column && TIME_TYPE.test(column.type)) return { type: "date", samples: [] };
  if (column && NUMBER_TYPE.test(column.type)) return { type: "number", samples: [] };
  const samples = named.flatMap((one) => one.sampleValues ?? []).filter((value) => typeof value === "string");
  return { type: !column && isDay(name) ? "date" : "text", samples: [...new Set(samples)] };
}

interface Props {
  sql: string;
  names: readonly string[];
  tables: readonly TableView[];
  values: ReadonlyMap<string, string>;
  onSet: (name: string, value: string) => void;
}

export function Parameters({ sql, names, tables, values, onSet }: Props) {
  if (names.length === 0) return null;
  return (
    <div class="filters">
      {names.map((name) => {
        const { type, samples } = widget(sql, name, tables);
        const list = samples.length > 0 ? `values-of-${name}` : undefined;
        return (
          <Field key={name} label={name}>
            <Text type={type} step={type === "number" ? "any" : undefined} list={list} value={values.get(name) ?? ""} onText={(value) => onSet(name, value)} />
            {list && (
              <datalist id={list}>
                {samples.map((value) => (
                  <option key={value} value={value} />
                ))}
              </datalist>
            )}
          </Field>
        );
      })}
    </div>
  );
}
