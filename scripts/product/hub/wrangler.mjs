// Runs wrangler under a Node version that it supports, and applies the migrations to the local database.

import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { makeFolder } from '../../lib/make-folder.mjs';
import { nodeBinary } from '../../lib/node.mjs';
import { DATA_DIR, inData, inProject, IS_PACKAGE, LOCAL_STATE_DIR } from '../../lib/paths.mjs';
import { runStep, yellow } from '../../lib/progress.mjs';
import { run } from '../../lib/run.mjs';
import { prepareTools } from '../../build/prepare.mjs';

/** The environment of all wrangler commands. */
export const WRANGLER_ENV = {
  // Sends no usage metrics.
  WRANGLER_SEND_METRICS: 'false',
  // Records no traces in .wrangler/state: they have the addresses of requests, which may contain tokens, and grow without limit.
  X_LOCAL_OBSERVABILITY: 'false',
  // Does not serve the local database at /cdn-cgi/explorer, where no token is needed.
  X_LOCAL_EXPLORER: 'false',
};

/** The environment of wrangler commands that need no network. */
export const LOCAL_COMMAND_ENV = {
  ...WRANGLER_ENV,
  // Answers prompts with their defaults.
  CI: '1',
  // Does not download a sample of `request.cf`.
  CLOUDFLARE_CF_FETCH_ENABLED: 'false',
  // Does not check for a newer version, which it would print in the banner.
  WRANGLER_HIDE_BANNER: 'true',
};

/**
 * Returns the command that runs wrangler. The command runs wrangler's main module `cli.js`, because `bin/wrangler.js` starts this module in
 * a child process and forwards no signals to it.
 * @param {string[]} args
 * @returns {[command: string, args: string[]]}
 */
export function wranglerCommand(args) {
  // If the hub is installed from npm, wrangler may be in the `node_modules` of a parent folder.
  const wranglerScript = createRequire(inProject('package.json')).resolve('wrangler');
  return [nodeBinary(), ['--no-warnings', wranglerScript, ...args]];
}

/** Warnings about the environment of the computer, not about the project. */
const ENVIRONMENT_WARNINGS = /Proxy environment variables detected/;

/**
 * Whether a line of wrangler starts a warning about the project's configuration or code.
 * @param {string} line without colours
 */
export function isProjectWarning(line) {
  return line.includes('[WARNING]') && !ENVIRONMENT_WARNINGS.test(line);
}

/**
 * Returns the path of the JSON file with the applied migrations of a local database: name of each migration -> hash of its content.
 * @param {string} binding
 */
const migrationRecordFile = (binding) => path.join(LOCAL_STATE_DIR, `applied-migrations${binding === 'DB' ? '' : `-${binding}`}.json`);

/** The bindings of the databases in wrangler.toml: DB, DB_2 and so on. Without a library: npm may not have installed any. @returns {string[]} */
export function localDatabases() {
  const bindings = readFileSync(inProject('wrangler.toml'), 'utf8').matchAll(/^binding = "(DB(?:_\d+)?)"$/gm);
  return [...bindings].map(([, binding]) => binding);
}

/** The configuration of the npm package's local hub. wrangler reads .dev.vars from the folder of this file. */
export const LOCAL_CONFIG = inData('wrangler.jsonc');

/** The arguments of wrangler's commands for the local hub. */
const LOCAL_ARGS = ['--local', '--env=', '--persist-to', LOCAL_STATE_DIR, ...(IS_PACKAGE ? ['--config', LOCAL_CONFIG] : [])];

/**
 * Returns the command line of a wrangler subcommand for the local hub.
 * @param {string[]} args
 */
export const localWranglerCommand = (args) => wranglerCommand([...args, ...LOCAL_ARGS]);

/**
 * Adds the configuration and the database of the local hub to a wrangler command of the user with `--local`, unless the command names a
 * configuration.
 * @param {string[]} args of wrangler
 */
export function withLocalHub(args) {
  const hasOption = (...names) => args.some((arg) => names.some((name) => arg === name || arg.startsWith(`${name}=`)));
  if (!hasOption('--local') || hasOption('--cwd', '--config', '-c')) return args;
  const config = IS_PACKAGE ? ['--config', LOCAL_CONFIG] : [];
  // `--persist-to` is added only if needed, because `d1 export` does not have this option.
  const state = process.env.HUB_STATE_DIR && !hasOption('--persist-to') ? ['--persist-to', LOCAL_STATE_DIR] : [];
  return [...args, ...config, ...state];
}

const MIGRATIONS_DIR = inProject('migrations');

/** @param {string} name */
const readMigration = (name) => readFileSync(path.join(MIGRATIONS_DIR, name), 'utf8');

/** The table in which wrangler records the applied migrations. */
const MIGRATIONS_TABLE = `CREATE TABLE d1_migrations (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
);`;

/** Whether wrangler's folder of D1 databases exists. */
const hasLocalDatabase = () => existsSync(path.join(LOCAL_STATE_DIR, 'v3', 'd1'));

/** Applies the migrations that were not applied to the local D1 databases. */
export async function migrateLocalDatabases() {
  const isNew = !hasLocalDatabase();
  for (const binding of localDatabases()) await migrateLocalDatabase(binding, isNew);
}

/** @param {string} binding @param {boolean} isNew whether there is no local database yet */
async function migrateLocalDatabase(binding, isNew) {
  const files = migrationFiles();
  const applied = isNew ? {} : appliedMigrations(binding);
  const changed = Object.keys(files).filter((name) => applied[name] && applied[name] !== files[name]);
  if (changed.length > 0) {
    const names = changed.map((name) => `migrations/${name}`).join(', ');
    console.log(`  ${yellow('!')} These migrations were changed after they were applied to the local database, and are not applied`);
    console.log(`    again: ${names}.`);
    console.log(`    To apply the changed files, delete ${LOCAL_STATE_DIR}. This deletes the local database.`);
  }
  if (Object.keys(files).every((name) => applied[name])) return;
  await prepareTools();
  await runStep(`local D1 migrations${binding === 'DB' ? '' : ` of ${binding}`}`, async () => {
    if (isNew) await createLocalDatabase(binding, Object.keys(files));
    else await runForLocalHub(['d1', 'migrations', 'apply', binding]);
  });
  // Keeps the old hash of a changed file, so that the warning is repeated at the next start.
  writeFileSync(migrationRecordFile(binding), `${JSON.stringify({ ...files, ...applied }, null, 2)}\n`);
}

/** @param {string[]} args of wrangler */
const runForLocalHub = (args) => run(...localWranglerCommand(args), { cwd: DATA_DIR, env: LOCAL_COMMAND_ENV });

/**
 * Creates the database with all migrations in one transaction. `d1 migrations apply` starts the runtime for each migration, which
 * takes several seconds, and on a busy computer a minute.
 * @param {string} binding
 * @param {string[]} names of the migrations
 */
async function createLocalDatabase(binding, names) {
  const statements = names.map((name) => `${readMigration(name)}\nINSERT INTO d1_migrations (name) VALUES ('${name}');`);
  const file = path.join(LOCAL_STATE_DIR, 'create.sql');
  makeFolder(LOCAL_STATE_DIR);
  try {
    writeFileSync(file, [MIGRATIONS_TABLE, ...statements].join('\n'));
    await runForLocalHub(['d1', 'execute', binding, '--yes', '--file', file]);
  } finally {
    rmSync(file, { force: true });
  }
}

/** Deletes traces that wrangler recorded before they were switched off. */
export function deleteLocalTraces() {
  rmSync(path.join(LOCAL_STATE_DIR, 'v3', 'observability'), { recursive: true, force: true });
}

/** Deletes the files with the applied migrations, so that the next start asks wrangler which migrations each database has. */
export function deleteMigrationRecords() {
  for (const binding of localDatabases()) rmSync(migrationRecordFile(binding), { force: true });
}

/** @returns {Record<string, string>} */
function migrationFiles() {
  const names = readdirSync(MIGRATIONS_DIR)
    .filter((name) => name.endsWith('.sql'))
    .sort();
  return Object.fromEntries(names.map((name) => [name, createHash('sha256').update(readMigration(name)).digest('hex')]));
}

/** @param {string} binding @returns {Record<string, string>} */
function appliedMigrations(binding) {
  try {
    return JSON.parse(readFileSync(migrationRecordFile(binding), 'utf8'));
  } catch {
    return {};
  }
}
