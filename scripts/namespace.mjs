// `npm run namespace -- list`, also a command of the npm package: lists the namespaces of the database.

import { existsSync } from 'node:fs';
import { parseCommandLine } from './lib/command-line.mjs';
import { main, UsageError } from './lib/errors.mjs';
import { commandLine, startLine } from './lib/invocation.mjs';
import { LOCAL_STATE_DIR } from './lib/paths.mjs';
import { listNamespaces } from './lib/namespace/list.mjs';
import { prepareTools } from './lib/prepare.mjs';

const USAGE = `Usage: ${commandLine('namespace', 'list [--remote [--env NAME]] [--json]')}

Lists the namespaces of the local hub's database, with the numbers of their sessions, messages and machines. The hub may be running.

  --remote    read the database of the deployed hub; counting reads one row for each message
  --env NAME  another environment of deployment.json
  --json      print JSON
  --help      this text`;

/** @param {import('./lib/namespace/list.mjs').NamespaceCounts[]} namespaces */
function printTable(namespaces) {
  const rows = [['NAMESPACE', 'SESSIONS', 'MESSAGES', 'MACHINES']];
  for (const { namespace, sessions, messages, machines } of namespaces)
    rows.push([namespace, ...[sessions, messages, machines].map(String)]);
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  for (const [name, ...counts] of rows) {
    console.log([name.padEnd(widths[0]), ...counts.map((count, i) => count.padStart(widths[i + 1]))].join('  '));
  }
}

await main(async () => {
  const options = parseCommandLine(
    process.argv.slice(2),
    USAGE,
    { remote: { type: 'boolean', default: false }, env: { type: 'string' }, json: { type: 'boolean', default: false } },
    { words: true },
  );
  if (options.help) {
    console.log(USAGE);
    return;
  }
  const [action, ...rest] = options.words;
  if (action !== 'list' || rest.length > 0) throw new UsageError('Say what to do with the namespaces: list.', USAGE);
  if (!options.remote && !existsSync(LOCAL_STATE_DIR)) {
    console.error(`There is no local database yet. The first start of the hub creates it: ${startLine()}`);
    return;
  }
  await prepareTools();
  const namespaces = await listNamespaces(options);
  if (options.json) console.log(JSON.stringify(namespaces, null, 2));
  else if (namespaces.length === 0) console.error('The database has no sessions and no machines.');
  else printTable(namespaces);
});
