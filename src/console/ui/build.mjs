// Bundles the console: node build.mjs [openapi.json] [dist]. Names carry the hash of their bytes, so they may be kept for
// good; each file lies there in three codings.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const dist = process.argv[3] ?? "dist";
const documents = [process.argv[2], "openapi.json", "../../../data/openapi.json"];
const openapi = documents.find((path) => path && existsSync(path));
if (!openapi) throw new Error("openapi.json is not there");

// Every view needs what the first one needs. Told so, the bundler puts that into one file: without it into six, by which views
// share what, and each file is another request and another task before anything is drawn.
const begins = resolve("src/main.tsx");
const fetchedLater = new Set();
for (const file of await readdir("src", { recursive: true })) {
  if (!/\.tsx?$/.test(file)) continue;
  for (const [, used] of (await readFile(`src/${file}`, "utf8")).matchAll(/\bimport\("(\.[^"]+)"\)/g)) fetchedLater.add(resolve("src", dirname(file), used));
}
const afterMain = {
  name: "after-main",
  setup: (bundler) => bundler.onLoad({ filter: /\.tsx?$/ }, async ({ path }) => {
    if (!fetchedLater.has(path.replace(/\.tsx?$/, ""))) return undefined;
    return { contents: `${await readFile(path, "utf8")}\nimport ${JSON.stringify(begins)};\n`, loader: path.endsWith("x") ? "tsx" : "ts" };
  }),
};

// Before any script runs the system's theme is the page's: the dark colours stand once in the source, and twice in what is built.
const DARK = /:root\[data-theme="dark"\] (\{[^}]*\})/;
const darkAtFirst = {
  name: "dark-at-first",
  setup: (bundler) => bundler.onLoad({ filter: /base\.css$/ }, async ({ path }) => {
    const text = await readFile(path, "utf8");
    const [, colours] = DARK.exec(text) ?? [];
    if (!colours) throw new Error("base.css has no dark colours");
    return { contents: `${text}\n@media (prefers-color-scheme: dark) { :root:not([data-theme]) ${colours} }\n`, loader: "css" };
  }),
};

const result = await build({
  plugins: [afterMain, darkAtFirst],
  entryPoints: ["src/main.tsx", "src/style/main.css"],
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  outdir: dist,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none",
  write: false,
  metafile: true,
  logLevel: "warning",
});

await rm(dist, { recursive: true, force: true });
await mkdir(dist, { recursive: true });

async function put(name, bytes) {
  const brotli = brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } });
  await writeFile(`${dist}/${name}`, bytes);
  await writeFile(`${dist}/${name}.gz`, gzipSync(bytes, { level: 9 }));
  await writeFile(`${dist}/${name}.br`, brotli);
  return brotli.length;
}

const outputs = Object.entries(result.metafile.outputs).map(([path, output]) => ({ name: basename(path), ...output }));
const entry = (source) => outputs.find((output) => output.entryPoint === source);
const [script, style] = [entry("src/main.tsx"), entry("src/style/main.css")];
// The entry itself is nothing but the import of that file, so the page begins with the file.
const [first, ...others] = script.imports.filter((used) => used.kind === "import-statement").map((used) => basename(used.path));
if (!first || others.length > 0) throw new Error(`what the first view needs is not in one file: ${[first, ...others].join(", ")}`);

const sizes = new Map();
for (const file of result.outputFiles) if (basename(file.path) !== script.name) sizes.set(basename(file.path), await put(basename(file.path), file.contents));

// The frame is drawn as soon as the style is there; scripts put the same in its place once they know who is signed in.
// Nothing in it moves: what is animated takes its time from the scripts.
const [drawing] = /<svg[^]*?<\/svg>/.exec(await readFile("src/app/gate.tsx", "utf8")) ?? [];
if (!drawing) throw new Error("gate.tsx has no drawing of the brand");
const brand = `<span class="brand">${drawing.replace(/\s+/g, " ")} Gleaner</span>`;
const frame = `<div class="top">${brand}</div>
<div class="shell"><div class="side">${brand}</div><main></main></div>`;

const shell = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Gleaner</title>
<link rel="icon" href="console/assets/${await icon()}" type="image/svg+xml">
<link rel="stylesheet" href="console/assets/${style.name}">
<script type="module" src="console/assets/${first}"></script>
</head>
<body><noscript>The console needs JavaScript. The reference and the guides do not: <a href="docs">docs</a>.</noscript>
${frame}
</body>
</html>
`;
sizes.set("index.html", await put("index.html", Buffer.from(shell)));

async function icon() {
  const bytes = await readFile("src/icon.svg");
  const name = `icon-${createHash("sha256").update(bytes).digest("hex").slice(0, 8)}.svg`;
  sizes.set(name, await put(name, bytes));
  return name;
}

const begun = ["index.html", first, style.name].reduce((sum, name) => sum + sizes.get(name), 0);
const all = [...sizes.values()].reduce((sum, size) => sum + size, 0);
await writeFile(`${dist}/../sizes.json`, JSON.stringify({ first: begun, all, files: Object.fromEntries(sizes) }, null, 1));
console.log(`console: ${(begun / 1024).toFixed(1)} KiB at first, ${(all / 1024).toFixed(1)} KiB in all (brotli)`);
// The bounds of issue 18: 90 and 300 KB.
if (begun > 90_000 || all > 300_000) throw new Error("the console is larger than it may be");
