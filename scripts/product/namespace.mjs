// `npm run namespace -- ...`, also a command of the npm package: lists, exports, imports and deletes namespaces.

import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { parseCommandLine } from '../lib/command-line.mjs';
import { main, UsageError, UserError } from '../lib/errors.mjs';
import { commandLine, startLine } from '../lib/invocation.mjs';
import { deleteNamespace } from './namespace/delete.mjs';
import { checkExport, exportNamespace, importNamespace } from './namespace/export.mjs';
import { listNamespaces } from './namespace/list.mjs';
import { LOCAL_HUB } from './hub/local-hub.mjs';
import { isNamespace, hubAccess } from './namespace/operator.mjs';
import { LOCAL_STATE_DIR } from '../lib/paths.mjs';
import { prepareTools } from '../build/prepare.mjs';
import { runStep } from '../lib/progress.mjs';
import { formatTable } from '../lib/table.mjs';

const USAGE = `Usage: ${commandLine('namespace', 'list [--remote [--env NAME]] [--json]')}
       ${commandLine('namespace', 'export NAME --output FILE [--hub URL]')}
       ${commandLine('namespace', 'import FILE [--continue] [--hub URL]')}
       ${commandLine('namespace', 'delete NAME [--yes] [--hub URL]')}

list    prints the namespaces of the local hub's database, with the numbers of their sessions, messages and machines. The hub may be
        running. Log lines and metrics name a namespace by its hash.
  --remote    read the database of the deployed hub; counting reads one row for each message
  --env NAME  another environment of deployment.json
  --json      print JSON

export  writes everything that a namespace has into a file of JSON lines. The namespace may be in use.
  --output FILE  a new file, which only you can read. It contains the conversations and the hashes of devices' tokens

import  writes an export into a hub that has nothing in the namespace of this name. Its clients are disconnected meanwhile.
  --continue  continue the import of the same file, which was interrupted

delete  deletes everything that a namespace has, and disconnects its clients. This cannot be undone.
  --yes       do not ask

  --hub URL   the hub (default: ${LOCAL_HUB}). The secret is the environment variable CLI_API_TOKEN, or that of the local hub
  --help      this text`;

const OPTIONS = /** @type {const} */ ({
  remote: { type: 'boolean', default: false },
  env: { type: 'string' },
  json: { type: 'boolean', default: false },
  output: { type: 'string' },
  continue: { type: 'boolean', default: false },
  yes: { type: 'boolean', default: false },
  hub: { type: 'string' },
});

/** The options of each action. */
const ACTIONS = { list: ['remote', 'env', 'json'], export: ['output', 'hub'], import: ['continue', 'hub'], delete: ['yes', 'hub'] };

/** @param {import('./namespace/list.mjs').NamespaceCounts[]} namespaces */
function printTable(namespaces) {
  const rows = namespaces.map(({ namespace, hash, sessions, messages, machines }) => [
    namespace,
    hash,
    ...[sessions, messages, machines].map(String),
  ]);
  console.log(formatTable([['NAMESPACE', 'HASH', 'SESSIONS', 'MESSAGES', 'MACHINES'], ...rows], { isNumber: (column) => column > 1 }));
}

async function list(options) {
  if (!options.remote && !existsSync(LOCAL_STATE_DIR)) {
    console.error(`There is no local database yet. The first start of the hub creates it: ${startLine()}`);
    return;
  }
  await prepareTools();
  const namespaces = await listNamespaces(options);
  if (options.json) console.log(JSON.stringify(namespaces, null, 2));
  else if (namespaces.length === 0) console.error('The database has no sessions and no machines.');
  else printTable(namespaces);
}

async function exportToFile({ hub, output }, namespace) {
  if (!output) throw new UsageError('Give the file to write with --output FILE.', USAGE);
  const targetHub = hubAccess(hub, USAGE);
  const rows = await runStep(`Export of ${namespace}`, (update) => exportNamespace(targetHub, namespace, output, update));
  console.log(`${output} has ${rows} rows. Store it as safely as the hub's secrets.`);
}

async function importFromFile({ hub, continue: continues }, file) {
  if (!existsSync(file)) throw new UserError(`The file ${file} does not exist.`);
  const targetHub = hubAccess(hub, USAGE);
  const exported = { file, ...(await checkExport(file)) };
  const { namespace, rows } = exported;
  await runStep(`Import of ${namespace}`, (update) => importNamespace(targetHub, exported, continues, update));
  console.log(`${rows} rows were imported. Sessions and machines are active again when their CLIs connect.`);
}

async function confirmAndDelete({ hub, yes }, namespace) {
  const targetHub = hubAccess(hub, USAGE);
  if (!yes && !(await confirmDeletion(namespace, targetHub.url))) {
    console.error('Nothing was deleted.');
    return 1;
  }
  await runStep(`Deletion of ${namespace}`, (update) => deleteNamespace(targetHub, namespace, update));
  console.log('The access tokens of this name are valid for an empty namespace now. Its devices have no access any more.');
  return 0;
}

/** Asks for the name of the namespace. */
async function confirmDeletion(namespace, url) {
  if (!process.stdin.isTTY) {
    throw new UserError('Nothing was deleted: there is no terminal to ask on.', 'To delete without a question, add --yes.');
  }
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await lines.question(`All sessions of ${namespace} on ${url} will be deleted. Type its name to go on: `);
    return answer.trim() === namespace;
  } finally {
    lines.close();
  }
}

await main(async () => {
  const options = parseCommandLine(process.argv.slice(2), USAGE, OPTIONS, { words: true });
  const [action, ...actionArgs] = options.words;
  if (action === undefined || !Object.hasOwn(ACTIONS, action)) {
    throw new UsageError('Say what to do with the namespaces: list, export, import or delete.', USAGE);
  }
  const invalidOption = Object.keys(OPTIONS).find((name) => options[name] && !ACTIONS[action].includes(name));
  if (invalidOption !== undefined) throw new UsageError(`${action} has no option --${invalidOption}.`, USAGE);
  if (actionArgs.length !== (action === 'list' ? 0 : 1)) {
    const expected = { list: 'no argument', import: 'the file to import' }[action] ?? 'the name of one namespace';
    throw new UsageError(`${action} needs ${expected}.`, USAGE);
  }
  const [subject] = actionArgs;
  if (['export', 'delete'].includes(action) && !isNamespace(subject)) {
    throw new UsageError(`A namespace has 1 to 64 characters of A-Z a-z 0-9 . _ -, but the name is ${subject}.`, USAGE);
  }
  if (action === 'list') await list(options);
  else if (action === 'export') await exportToFile(options, subject);
  else if (action === 'import') await importFromFile(options, subject);
  else return confirmAndDelete(options, subject);
  return 0;
});
