// Two versions of a page side by side: values that differ, and the text, what one has beside what the other has instead.
import { api } from "../api/client";
import { useLoad } from "../api/use";
import { Bones, Empty, Trouble } from "../parts/basic";
import { number, shown } from "../parts/figures";
import { Rows } from "../parts/list";
import type { TextChange } from "../generated/api";

/** A piece of both texts: the same, or what stands in the older and in the newer one. */
interface Piece {
  same?: TextChange;
  gone: string[];
  came: string[];
}

/** What was taken out and what was put in at one place belong together. */
function pieces(text: readonly TextChange[]): Piece[] {
  const found: Piece[] = [];
  for (const part of text) {
    const last = found.at(-1);
    if (part.op === "equal") {
      found.push({ same: part, gone: [], came: [] });
      continue;
    }
    const open = last && !last.same ? last : { gone: [], came: [] };
    if (open !== last) found.push(open);
    (part.op === "delete" ? open.gone : open.came).push(part.text);
  }
  return found;
}

function Texts({ of }: { of: readonly TextChange[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Text of both versions">
      <table class="beside">
        <thead>
          <tr>
            <th scope="col">Older</th>
            <th scope="col">Newer</th>
          </tr>
        </thead>
        <tbody>
          {pieces(of).map((piece, index) =>
            piece.same ? (
              <tr key={index}>
                {[0, 1].map((side) => (
                  <td key={side} class="dim">
                    {piece.same?.text}
                    {piece.same?.wordsLeftOut ? <p class="hint">… {number(piece.same.wordsLeftOut)} words that are the same …</p> : null}
                  </td>
                ))}
              </tr>
            ) : (
              <tr key={index}>
                <td>{piece.gone.length > 0 && <del>{piece.gone.join(" ")}</del>}</td>
                <td>{piece.came.length > 0 && <ins>{piece.came.join(" ")}</ins>}</td>
              </tr>
            ),
          )}
        </tbody>
      </table>
    </div>
  );
}

export function Diff({ older, newer }: { older: string; newer: string }) {
  const found = useLoad((signal) => api("GET /api/v1/extraction/results/by-id/{id}/diff", { path: { id: older }, query: { with: newer }, signal }), [older, newer]);
  if (found.error) return <Trouble error={found.error} retry={found.reload} />;
  if (!found.value) return <Bones />;
  const { attributes, text, textNote } = found.value;
  const isSame = text.every((part) => part.op === "equal");
  if (attributes.length === 0 && isSame) return <Empty title="Both versions say the same">{textNote}</Empty>;
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
      {isSame ? <p class="hint">The text is the same in both.</p> : <Texts of={text} />}
    </div>
  );
}
