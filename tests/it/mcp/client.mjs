// The same as client.py, by the SDK for TypeScript.
import assert from 'node:assert';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const { URL: address, KEY, PAGE, TOOLS } = process.env;
const connect = async (headers) => {
  const client = new Client({ name: 'tests', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(address), { requestInit: { headers } }));
  return client;
};
const client = await connect({ Authorization: `Bearer ${KEY}` });
const call = async (name, given = {}) => {
  const answer = await client.callTool({ name, arguments: given });
  assert(!answer.isError, `${name}: ${JSON.stringify(answer)}`);
  return answer.structuredContent ?? answer.content[0].text;
};
const tools = (await client.listTools()).tools.map((tool) => tool.name);
assert.deepEqual(tools, TOOLS.split(','));
assert((await call('list_tables')).tables.some((table) => table.name === 'jobs'));
assert((await call('describe_table', { table: 'jobs' })).columns.length);
const sql = 'WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 450) SELECT i FROM n ORDER BY i';
const seen = [];
let answer = await call('run_sql', { sql, rows: 200 });
for (;;) {
  seen.push(...answer.rows.map((row) => row.i));
  if (!answer.nextCursor) break;
  answer = await call('run_sql', { cursor: answer.nextCursor, rows: 200 });
}
assert.deepEqual(seen, Array.from({ length: 450 }, (_, i) => i + 1));
assert((await client.callTool({ name: 'run_saved_query', arguments: { name: 'nothing' } })).isError);
await call('search_results', { limit: 5 });
assert((await call('get_page', { url: PAGE })).includes('nobody else would write'));
const { jobs } = await call('submit_urls', { urls: [PAGE] });
assert.equal((await call('job_status', { ids: [jobs[0].id] })).id, jobs[0].id);
await call('list_schedules');
assert((await client.listResources()).resources.length && (await client.listPrompts()).prompts.length);
const status = async (headers) => {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
  return (await fetch(address, { method: 'POST', body, headers: { 'content-type': 'application/json', ...headers } })).status;
};
await assert.rejects(connect({}));
const foreign = await status({ Authorization: `Bearer ${KEY}`, Origin: 'https://evil.example' });
console.log(`${tools.length} tools ${seen.length} rows refused ${await status({})} ${foreign}`);
await client.close();
