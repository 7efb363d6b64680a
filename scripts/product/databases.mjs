// `npm run databases -- ...`, also a command of the npm package: lists the databases of a hub, and moves a namespace to another database.

import { parseCommandLine } from '../lib/command-line.mjs';
import { main, UsageError } from '../lib/errors.mjs';
import { commandLine } from '../lib/invocation.mjs';
import { listDatabases, moveNamespace } from './namespace/databases.mjs';
import { LOCAL_HUB } from './hub/local-hub.mjs';
import { isNamespace, hubAccess } from './namespace/operator.mjs';
import { runStep } from '../lib/progress.mjs';
import { formatTable } from '../lib/table.mjs';

const USAGE = `Usage: ${commandLine('databases', 'list [--hub URL] [--json]')}
       ${commandLine('databases', 'move NAMESPACE --to DB_2 [--hub URL]')}

list    prints the databases of a hub: their sizes, how many namespaces each has, and whether it accepts new ones
  --json  print JSON

move    moves a namespace to another database. Its clients wait for seconds, and no message is lost. Run an interrupted
        command again: it continues. To undo an interrupted move, give the database that the namespace comes from.
  --to NAME  the binding of the database: DB, DB_2 and so on

  --hub URL   the hub (default: ${LOCAL_HUB}). The secret is the environment variable CLI_API_TOKEN, or that of the local hub
  --help      this text`;

const OPTIONS = /** @type {const} */ ({
  json: { type: 'boolean', default: false },
  to: { type: 'string' },
  hub: { type: 'string' },
});

/** @param {import('./namespace/databases.mjs').DatabaseInfo[]} databases */
function printTable(databases) {
  const rows = databases.map(({ name, bytes, percent, namespaces, isOpen }) => [
    name,
    bytes === null ? '-' : `${(bytes / 1e6).toFixed(1)} MB`,
    percent === null ? '-' : `${percent.toFixed(1)} %`,
    String(namespaces ?? '-'),
    isOpen ? 'yes' : 'no',
  ]);
  const titles = ['DATABASE', 'SIZE', 'OF 10 GB', 'NAMESPACES', 'ACCEPTS NEW'];
  console.log(formatTable([titles, ...rows], { isNumber: (column) => column > 0 && column < 4 }));
  for (const { name, error } of databases) if (error !== undefined) console.log(`${name} does not answer: ${error}`);
}

await main(async () => {
  /** @type {any} */
  const options = parseCommandLine(process.argv.slice(2), USAGE, OPTIONS, { words: true });
  const [action, namespace, ...extraWords] = options.words;
  if (action !== 'list' && action !== 'move') throw new UsageError('Say what to do with the databases: list or move.', USAGE);
  if (action === 'list' && (namespace !== undefined || options.to)) throw new UsageError('list needs no namespace and no --to.', USAGE);
  if (action === 'move' && (!isNamespace(namespace) || extraWords.length > 0 || !options.to || options.json)) {
    throw new UsageError('move needs the name of one namespace and --to with the binding of a database, such as --to DB_2.', USAGE);
  }
  const hub = hubAccess(options.hub, USAGE);
  if (action === 'list') {
    const databases = await listDatabases(hub);
    if (options.json) console.log(JSON.stringify(databases, null, 2));
    else printTable(databases);
    return;
  }
  await runStep(`Move of ${namespace} to ${options.to}`, (update) => moveNamespace(hub, namespace, options.to, update));
  console.log(`${options.to} has ${namespace} now. Its clients connect again by themselves.`);
});
