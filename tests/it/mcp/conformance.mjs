// The suite has no way to give a key, so a relay on loopback adds it and passes everything else on as it came.
import http from 'node:http';
import { spawn } from 'node:child_process';

const box = new URL(process.env.URL);
const relay = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${process.env.KEY}` };
  const passed = http.request(
    { host: box.hostname, port: box.port, method: request.method, path: request.url, headers },
    (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    },
  );
  passed.on('error', () => response.destroy());
  request.pipe(passed);
});
relay.listen(0, '127.0.0.1', () => {
  const url = `http://localhost:${relay.address().port}/mcp`;
  const suite = spawn('npx', ['--no-install', 'conformance', 'server', '--url', url, '--scenario', process.argv[2]]);
  for (const stream of [suite.stdout, suite.stderr]) stream.on('data', (part) => process.stdout.write(part));
  suite.on('close', (code) => process.exit(code ?? 1));
});
