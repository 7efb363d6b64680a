// wrangler, started under a Node that it accepts.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { nodeBinary } from './node.mjs';
import { inProject, LOCAL_STATE_DIR } from './paths.mjs';
import { step, yellow } from './progress.mjs';
import { run } from './run.mjs';
import { needNode, needPackages } from './setup.mjs';

/** For local commands: no questions, no metrics, no look for updates, no fetch of sample request data. */
export const OFFLINE = {
  CI: '1',
  CLOUDFLARE_CF_FETCH_ENABLED: 'false',
  WRANGLER_HIDE_BANNER: 'true',
  WRANGLER_SEND_METRICS: 'false',
};

/**
 * @param {string[]} args
 * @returns {[command: string, args: string[]]} what to start
 */
export function wranglerCommand(args) {
  return [nodeBinary(), ['--no-warnings', inProject('node_modules', 'wrangler', 'wrangler-dist', 'cli.js'), ...args]];
}

/** Warnings of wrangler that tell of this machine, not of the project. */
const OF_THE_MACHINE = /Proxy environment variables detected/;

/**
 * Whether a line that wrangler wrote begins a warning of the project: of its configuration, or of its code.
 * @param {string} line without colours
 */
export function isOwnWarning(line) {
  return line.includes('[WARNING]') && !OF_THE_MACHINE.test(line);
}

/** What the local database was last brought to: file name -> hash of its content. */
const APPLIED = path.join(LOCAL_STATE_DIR, 'applied-migrations.json');

/** Applies the migrations that the local D1 database does not have yet, and sets up what that needs. */
export async function migrateLocalDatabase() {
  const files = migrationFiles();
  const applied = appliedMigrations();
  const changed = Object.keys(files).filter((name) => applied[name] && applied[name] !== files[name]);
  if (changed.length > 0) {
    const names = changed.map((name) => `migrations/${name}`).join(', ');
    console.log(`  ${yellow('!')} Changed since the local database took it: ${names}. It does not take it again.`);
    console.log('    To start with an empty local database, delete the folder .wrangler/state.');
  }
  if (Object.keys(files).every((name) => applied[name])) return;
  await Promise.all([needPackages(), needNode()]);
  await step('local D1 migrations', async () => {
    await run(...wranglerCommand(['d1', 'migrations', 'apply', 'DB', '--local']), { env: OFFLINE });
  });
  mkdirSync(LOCAL_STATE_DIR, { recursive: true });
  writeFileSync(APPLIED, `${JSON.stringify({ ...files, ...applied }, null, 2)}\n`);
}

/** Makes the next start look at the local database itself, instead of trusting the record of what it was brought to. */
export function forgetMigrations() {
  rmSync(APPLIED, { force: true });
}

/** @returns {Record<string, string>} */
function migrationFiles() {
  const folder = inProject('migrations');
  const names = readdirSync(folder).filter((name) => name.endsWith('.sql')).sort();
  return Object.fromEntries(
    names.map((name) => [name, createHash('sha256').update(readFileSync(path.join(folder, name))).digest('hex')]),
  );
}

/** @returns {Record<string, string>} */
function appliedMigrations() {
  // The record is worth nothing without the database it speaks of.
  if (!existsSync(path.join(LOCAL_STATE_DIR, 'v3', 'd1'))) return {};
  try {
    return JSON.parse(readFileSync(APPLIED, 'utf8'));
  } catch {
    return {};
  }
}
