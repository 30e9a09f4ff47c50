// The editor. It stands in a shadow root, where its styles are constructed sheets: the policy of the page lets no other in.
import { PostgreSQL, sql, type SQLNamespace } from "@codemirror/lang-sql";
import { defaultHighlightStyle, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { basicSetup, EditorView } from "codemirror";
import { useEffect, useRef } from "preact/hooks";

export interface EditorHandle {
  text: () => string;
  /** The marked text if there is some, and where the cursor is. */
  marked: () => { text: string; from: number; at: number };
  select: (from: number, to: number) => void;
  insert: (text: string) => void;
  replace: (text: string) => void;
}

interface Props {
  start: string;
  tables: SQLNamespace;
  /** Values of columns by their names, to be offered where one is compared. */
  samples: ReadonlyMap<string, readonly string[]>;
  onChange: (text: string) => void;
  onRun: () => void;
  handle: (handle: EditorHandle) => void;
}

const NAMED: Record<string, string> = { "#708": "var(--code-key)", "#a11": "var(--code-text)", "#e40": "var(--code-text)", "#164": "var(--code-number)", "#219": "var(--code-number)", "#940": "var(--code-dim)", "#00f": "var(--ink)", "#085": "var(--ink)", "#167": "var(--ink)", "#256": "var(--ink)", "#30a": "var(--ink)", "#00c": "var(--ink)", "#404740": "var(--code-dim)", "#f00": "var(--bad)" };

/** CodeMirror's own choice of what is coloured, in the names of our colours. */
const colours = HighlightStyle.define(
  defaultHighlightStyle.specs.map((spec) => (typeof spec.color === "string" ? { ...spec, color: NAMED[spec.color] ?? "var(--ink)" } : { ...spec })),
);

const look = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--sheet)", fontSize: "13px", maxHeight: "44vh", minHeight: "150px", borderRadius: "7px 7px 0 0" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", minHeight: "150px" },
  ".cm-content": { caretColor: "var(--ink)", padding: "10px 0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--sheet)", color: "var(--dim)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--sunk) 60%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-soft) !important" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-soft)" },
  ".cm-tooltip": { backgroundColor: "var(--sheet)", border: "1px solid var(--line)", borderRadius: "6px", color: "var(--ink)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent-soft)", color: "var(--accent)" },
  ".cm-completionIcon": { display: "none" },
  ".cm-panels": { backgroundColor: "var(--sunk)", color: "var(--ink)" },
  ".cm-panels input, .cm-panels button": { color: "var(--ink)", backgroundColor: "var(--sheet)", backgroundImage: "none", border: "1px solid var(--line-strong)" },
});

/** What stands in front of a value that is being written: a column, a comparison, a quote. */
const COMPARED = /(\w+)"?\s*(?:=|<>|!=|\bi?like\b|\bin\s*\((?:[^()]*,)?)\s*'[^']*$/i;
const LOOKED_BACK = 400;

/** As CodeMirror asks for completions. */
interface Asked {
  state: { sliceDoc: (from: number, to: number) => string };
  pos: number;
}

/** Offers what the column that is compared is known to have. */
const values = (samples: ReadonlyMap<string, readonly string[]>) => (asked: Asked) => {
  const before = asked.state.sliceDoc(Math.max(0, asked.pos - LOOKED_BACK), asked.pos);
  const known = samples.get(COMPARED.exec(before)?.[1]?.toLowerCase() ?? "");
  if (!known) return null;
  const from = asked.pos - (before.length - before.lastIndexOf("'") - 1);
  return { from, options: known.map((label) => ({ label, apply: label.replaceAll("'", "''"), type: "text" })), validFor: /^[^']*$/ };
};

export default function Editor({ start, tables, samples, onChange, onRun, handle }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const calls = useRef({ onChange, onRun });
  calls.current = { onChange, onRun };
  useEffect(() => {
    const host = box.current;
    if (!host) return;
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    const keys = EditorView.domEventHandlers({
      keydown: (event, view) => {
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return false;
        event.preventDefault();
        // An open list of completions goes.
        view.contentDOM.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", keyCode: 27, bubbles: true }));
        calls.current.onRun();
        return true;
      },
    });
    const view = new EditorView({
      doc: start,
      root,
      parent: root,
      extensions: [
        keys,
        basicSetup,
        sql({ dialect: PostgreSQL, schema: tables, upperCaseKeywords: true }),
        PostgreSQL.language.data.of({ autocomplete: values(samples) }),
        syntaxHighlighting(colours),
        look,
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": "SQL statement" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) calls.current.onChange(update.state.doc.toString());
        }),
      ],
    });
    handle({
      text: () => view.state.doc.toString(),
      marked: () => {
        const { from, to, head } = view.state.selection.main;
        return { text: view.state.sliceDoc(from, to), from, at: head };
      },
      select: (from, to) => {
        view.dispatch({ selection: { anchor: from, head: to }, scrollIntoView: true });
        view.focus();
      },
      insert: (text) => {
        view.dispatch(view.state.replaceSelection(text));
        view.focus();
      },
      replace: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    });
    return () => view.destroy();
  }, [tables]);
  return <div ref={box} class="editor" />;
}
