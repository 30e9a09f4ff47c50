// Two versions of a page: values that differ, and the text.
import { api } from "../api/client";
import { useLoad } from "../api/use";
import { Bones, Empty, Trouble } from "../parts/basic";
import { shown } from "../parts/figures";
import { Rows } from "../parts/list";

export function Diff({ older, newer }: { older: string; newer: string }) {
  const found = useLoad((signal) => api("GET /api/v1/extraction/results/by-id/{id}/diff", { path: { id: older }, query: { with: newer }, signal }), [older, newer]);
  if (found.error) return <Trouble error={found.error} retry={found.reload} />;
  if (!found.value) return <Bones />;
  const { attributes, text, textNote } = found.value;
  if (attributes.length === 0 && text.every((part) => part.op === "equal")) return <Empty title="Both versions say the same" />;
  return (
    <div class="stack diff">
      {attributes.length > 0 && (
        <Rows
          label="Values that differ"
          rows={attributes}
          id={(one) => one.name}
          columns={[
            { title: "Attribute", cell: (one) => one.name },
            { title: "Older", cell: (one) => <del>{shown(one.from) || "nothing"}</del> },
            { title: "Newer", cell: (one) => <ins>{shown(one.to) || "nothing"}</ins> },
          ]}
        />
      )}
      {textNote && <p class="note">{textNote}</p>}
      <pre>
        {text.map((part, index) =>
          part.op === "insert" ? <ins key={index}>{part.text} </ins> : part.op === "delete" ? <del key={index}>{part.text} </del> : <span key={index}>{part.text}{part.wordsLeftOut ? ` … ${part.wordsLeftOut} words … ` : " "}</span>,
        )}
      </pre>
    </div>
  );
}
