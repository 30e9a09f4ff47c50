// A file of URLs by drag and drop: how much of it is sent, and the lines that were refused.
import { useState } from "preact/hooks";
import { ApiError, sessionEnded } from "../api/client";
import { toast } from "../app/state";
import { bytes, number } from "../parts/figures";
import { Rows } from "../parts/list";
import type { Uploaded } from "../generated/api";

type Told = { at: number } | { done: Uploaded } | { error: string };

/** Sends the file as it is; a request of the old kind, because only that one says how far it is. */
function send(file: File, told: (told: Told) => void): void {
  const request = new XMLHttpRequest();
  const type = /\.(ndjson|jsonl)$/i.test(file.name) ? "application/x-ndjson" : /\.gz$/i.test(file.name) ? "application/gzip" : /\.zst$/i.test(file.name) ? "application/zstd" : "text/csv";
  request.open("POST", "api/v1/urls/upload");
  request.setRequestHeader("content-type", type);
  request.setRequestHeader("x-gleaner-session", "1");
  request.upload.onprogress = (event) => told({ at: event.total ? event.loaded / event.total : 0 });
  request.onerror = () => told({ error: "The connection broke. What was registered by then is kept; send the file again." });
  request.onload = () => {
    if (request.status === 401) sessionEnded.value = true;
    try {
      const json: unknown = JSON.parse(request.responseText || "{}");
      if (request.status < 300) return told({ done: json as Uploaded });
      const { error = "Refused", message = "" } = json as { error?: string; message?: string };
      told({ error: new ApiError(request.status, error, message, "", "").message });
    } catch {
      // Not JSON: a proxy's page, perhaps.
      told({ error: `The file was refused with status ${request.status}.` });
    }
  };
  request.send(file);
}

export function Upload({ onDone }: { onDone: () => void }) {
  const [file, setFile] = useState<File>();
  const [told, setTold] = useState<Told>();
  const [over, setOver] = useState(false);
  // The box has not answered yet.
  const isSending = told !== undefined && "at" in told;
  const take = (files: FileList | null | undefined) => {
    const first = files?.[0];
    if (!first) return;
    if (isSending) return toast("A file is being sent; wait until the box has answered", true);
    setFile(first);
    setTold({ at: 0 });
    send(first, setTold);
  };
  const done = told && "done" in told ? told.done : undefined;
  return (
    <div class="stack">
      <div
        class={`drop ${over ? "over" : ""}`}
        onDragOver={(event) => (event.preventDefault(), setOver(true))}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          take(event.dataTransfer?.files);
        }}
      >
        <strong>Drop a file here</strong>
        <span class="dim">CSV with a column “url”, a list with one URL a line, or NDJSON; plain, gzip or zstd; up to 64 MiB</span>
        <input type="file" aria-label="File of URLs" accept=".csv,.txt,.ndjson,.jsonl,.gz,.zst" onChange={(event) => {
          take(event.currentTarget.files);
          // The same file, changed since, can be chosen again only where none is.
          event.currentTarget.value = "";
        }} />
      </div>
      {isSending && file && (
        <div class="stack" role="status">
          <progress value={told.at} max={1} aria-label="Sent" />
          <span class="dim">
            {bytes(told.at * file.size)} of {bytes(file.size)} sent{told.at >= 1 ? "; the box reads it" : ""}
          </span>
        </div>
      )}
      {told && "error" in told && (
        <p class="note bad" role="alert">
          {told.error}
        </p>
      )}
      {done && (
        <>
          <p class="note good" role="status">
            {number(done.lines)} lines: {number(done.created)} new, {number(done.updated)} changed, {number(done.duplicates)} known, {number(done.invalidTotal)} refused.
          </p>
          {done.notes.map((note) => (
            <p class="note warn" key={note}>
              {note}
            </p>
          ))}
          {done.invalid.length > 0 && (
            <Rows
              label="Refused lines"
              rows={done.invalid}
              id={(one) => String(one.line)}
              columns={[
                { title: "Line", number: true, cell: (one) => one.line },
                { title: "URL", cell: (one) => <span class="cut">{one.url}</span> },
                { title: "Why", cell: (one) => one.reason },
              ]}
            />
          )}
        </>
      )}
      <div class="row end">
        <button type="button" class={`button ${done ? "main" : ""}`} onClick={onDone}>
          {done ? "Done" : "Close"}
        </button>
      </div>
    </div>
  );
}
