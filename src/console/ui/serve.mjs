// At work on the console: node serve.mjs http://127.0.0.1:BOX [PORT] shows the files of `dist` in front of a running box, so that
// the box need not be built anew. What the box says of its own files (policy, types) is said of these.
import { readFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import { basename, extname } from "node:path";

const box = new URL(process.argv[2]);
const port = Number(process.argv[3] ?? 8765);
const dist = process.argv[4] ?? "dist";
const TYPES = { ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".html": "text/html; charset=utf-8" };

/** Hands the request to the box, as if it had come to its address. */
function pass(asked, answer, change = (head) => head) {
  const headers = { ...asked.headers, host: box.host };
  if (headers.origin) headers.origin = box.origin;
  const onward = request({ host: box.hostname, port: box.port, method: asked.method, path: asked.url, headers }, (told) => {
    answer.writeHead(told.statusCode, change(told.headers));
    told.pipe(answer);
  });
  onward.on("error", () => answer.destroy());
  answer.on("close", () => onward.destroy());
  asked.pipe(onward);
}

async function own(name, asked, answer) {
  const coding = /\bbr\b/.test(asked.headers["accept-encoding"] ?? "") ? ".br" : "";
  const bytes = await readFile(`${dist}/${name}${coding}`).catch(() => undefined);
  if (!bytes) return answer.writeHead(404).end();
  const policy = await fetch(new URL("console", box)).then((shell) => shell.headers.get("content-security-policy")).catch(() => null);
  if (!policy) return answer.destroy();
  answer.writeHead(200, { "content-type": TYPES[extname(name)] ?? "application/octet-stream", "content-length": bytes.length, "content-security-policy": policy, "cache-control": name === "index.html" ? "no-cache" : "public, max-age=31536000, immutable", ...(coding && { "content-encoding": "br" }) });
  answer.end(bytes);
}

createServer((asked, answer) => {
  const { pathname } = new URL(asked.url, box);
  if (pathname === "/console") return own("index.html", asked, answer);
  if (pathname.startsWith("/console/assets/")) return own(basename(pathname), asked, answer);
  return pass(asked, answer);
}).listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port}/console`));
