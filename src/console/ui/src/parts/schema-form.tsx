// Fields made from a JSON schema: what a provider's adapter wants to know.
import { Check, Choice, Field, Text } from "./basic";

interface Property {
  type?: string;
  enum?: string[];
  description?: string;
  default?: unknown;
  minimum?: number;
  maximum?: number;
}

export interface ObjectSchema {
  properties?: Record<string, Property>;
  required?: string[];
}

export type Values = Record<string, unknown>;

const words = (name: string) => name.replace(/([A-Z])/g, " $1").replace(/^./, (letter) => letter.toUpperCase());

function One({ name, of, value, secret, required, onSet }: { name: string; of: Property; value: unknown; secret: boolean; required: boolean; onSet: (value: unknown) => void }) {
  const hint = of.description;
  if (of.type === "boolean") return <Check label={`${words(name)}${hint ? `: ${hint}` : ""}`} on={Boolean(value ?? of.default)} onSet={onSet} />;
  if (of.enum) {
    return (
      <Field label={words(name)} hint={hint}>
        <Choice value={String(value ?? of.default ?? of.enum[0])} options={of.enum.map((one) => [one, one.replaceAll("_", " ")] as const)} onPick={onSet} />
      </Field>
    );
  }
  if (of.type === "array") {
    const lines = Array.isArray(value) ? value.join("\n") : "";
    return (
      <Field label={words(name)} hint={<>{hint} One a line.</>}>
        <textarea rows={4} required={required} value={lines} onInput={(event) => onSet(event.currentTarget.value.split("\n").filter(Boolean))} />
      </Field>
    );
  }
  const isNumber = of.type === "integer" || of.type === "number";
  const put = (text: string) => onSet(text === "" ? undefined : isNumber ? Number(text) : text);
  return (
    <Field label={words(name)} hint={hint}>
      <Text type={isNumber ? "number" : secret ? "password" : "text"} autocomplete="off" required={required} min={of.minimum} max={of.maximum} placeholder={of.default === undefined ? "" : String(of.default)} value={value === undefined ? "" : String(value)} onText={put} />
    </Field>
  );
}

export function SchemaFields({ schema, values, onChange, secret = false, optional = false }: { schema: ObjectSchema; values: Values; onChange: (values: Values) => void; secret?: boolean; optional?: boolean }) {
  return (
    <>
      {Object.entries(schema.properties ?? {}).map(([name, of]) => (
        <One key={name} name={name} of={of} secret={secret} required={!optional && (schema.required?.includes(name) ?? false)} value={values[name]} onSet={(value) => onChange({ ...values, [name]: value })} />
      ))}
    </>
  );
}
