// What an output that is not saved yet would have said of the last events, while its terms are being typed.
import { useEffect, useState } from "preact/hooks";
import { api, ApiError, said } from "../api/client";
import { Badge } from "../parts/basic";
import { number, Time } from "../parts/figures";
import { Rows } from "../parts/list";
import type { DryEventView, DryRunView, DryVerdict, OutputPreviewRequest } from "../generated/api";

const TYPE_AFTER_MS = 350;
const FIELDS = ["events", "tags", "domain", "pageTypes", "condition"] as const;
type Field = (typeof FIELDS)[number];

export interface Trial {
  run?: DryRunView;
  /** Why the field of that name was refused. */
  faults: Partial<Record<Field, string>>;
  /** What went wrong otherwise. */
  error?: string;
}

const NOTHING: Trial = { faults: {} };

/** The box names the field in front of the reason: "condition: … at character 8", "tags[0]: …". */
function refused(error: unknown): Trial {
  const [, name = "", reason = ""] = (error instanceof ApiError && error.status === 400 && /^(\w+)[^:]*: (.+)$/s.exec(error.detail)) || [];
  const field = FIELDS.find((one) => one === name);
  return field ? { faults: { [field]: reason } } : { faults: {}, error: said(error) };
}

/** What an output of these terms would have delivered; asked once nothing was typed for a moment. */
export function useTrial(terms: OutputPreviewRequest): Trial {
  const [trial, setTrial] = useState(NOTHING);
  const asked = JSON.stringify(terms);
  useEffect(() => {
    if (terms.events.length === 0) return setTrial(NOTHING);
    const control = new AbortController();
    const told = (next: Trial) => control.signal.aborted || setTrial(next);
    const timer = setTimeout(() => {
      api("POST /api/v1/outputs/preview", { body: terms, signal: control.signal }).then((run) => told({ run, faults: {} }), (error: unknown) => told(refused(error)));
    }, TYPE_AFTER_MS);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [asked]);
  return trial;
}

const VERDICTS: Record<DryVerdict, string> = { delivered: "delivered", no: "condition does not hold", unknown: "a value is missing", other: "of another kind or page" };
/** Those that the condition was asked about stand in front. */
const ORDER = Object.keys(VERDICTS);
const byVerdict = (a: DryEventView, b: DryEventView) => ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict) || b.seq - a.seq;

export function Tried({ trial: { run, error } }: { trial: Trial }) {
  if (error) return <p class="note warn" role="status">{error}</p>;
  if (!run) return null;
  const newest = run.events.find((event) => event.verdict === "delivered");
  return (
    <div class="note" role="status">
      <p>
        Of the last {number(run.events.length)} events {number(run.delivered)} would be delivered
        {newest && <>, the newest <Time at={newest.at} /> ({newest.kind})</>}.
      </p>
      {run.events.length > 0 && (
        <details>
          <summary>Event by event</summary>
          <div class="low">
            <Rows label="Event by event" rows={[...run.events].sort(byVerdict)} id={(event) => event.id} columns={[
              { title: "Verdict", cell: (event) => (event.verdict === "other" ? <span class="dim nowrap">{VERDICTS.other}</span> : <Badge state={VERDICTS[event.verdict]} />) },
              { title: "Event", cell: (event) => <span class="nowrap">{event.kind}</span> },
              { title: "Happened", cell: (event) => <Time at={event.at} /> },
              { title: "Domain", cell: (event) => <span class="nowrap">{event.domain ?? "–"}</span> },
            ]} />
          </div>
        </details>
      )}
    </div>
  );
}
