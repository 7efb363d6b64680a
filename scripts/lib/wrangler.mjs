// Runs wrangler under a Node version that it supports, and applies the migrations to the local database.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { nodeBinary } from './node.mjs';
import { inProject, LOCAL_STATE_DIR } from './paths.mjs';
import { runStep, yellow } from './progress.mjs';
import { run } from './run.mjs';
import { ensureNode, ensurePackages } from './setup.mjs';

/** The environment of local commands: no prompts, no metrics, no update check, no download of sample request data. */
export const OFFLINE_ENV = {
  CI: '1',
  CLOUDFLARE_CF_FETCH_ENABLED: 'false',
  WRANGLER_HIDE_BANNER: 'true',
  WRANGLER_SEND_METRICS: 'false',
};

/**
 * @param {string[]} args
 * @returns {[command: string, args: string[]]}
 */
export function wranglerCommand(args) {
  return [nodeBinary(), ['--no-warnings', inProject('node_modules', 'wrangler', 'wrangler-dist', 'cli.js'), ...args]];
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

/** The migrations that were applied to the local database: file name -> hash of the content. */
const APPLIED = path.join(LOCAL_STATE_DIR, 'applied-migrations.json');

/** Applies the migrations that the local D1 database does not have yet. */
export async function migrateLocalDatabase() {
  const files = migrationFiles();
  const applied = appliedMigrations();
  const changed = Object.keys(files).filter((name) => applied[name] && applied[name] !== files[name]);
  if (changed.length > 0) {
    const names = changed.map((name) => `migrations/${name}`).join(', ');
    console.log(`  ${yellow('!')} Changed after it was applied to the local database: ${names}. It is not applied again.`);
    console.log('    To start with an empty local database, delete the folder .wrangler/state.');
  }
  if (Object.keys(files).every((name) => applied[name])) return;
  await Promise.all([ensurePackages(), ensureNode()]);
  await runStep('local D1 migrations', async () => {
    await run(...wranglerCommand(['d1', 'migrations', 'apply', 'DB', '--local']), { env: OFFLINE_ENV });
  });
  mkdirSync(LOCAL_STATE_DIR, { recursive: true });
  writeFileSync(APPLIED, `${JSON.stringify({ ...files, ...applied }, null, 2)}\n`);
}

/** Deletes the record of applied migrations, so that the next start checks the database itself. */
export function clearMigrationRecord() {
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
  // Without the database, the record is outdated.
  if (!existsSync(path.join(LOCAL_STATE_DIR, 'v3', 'd1'))) return {};
  try {
    return JSON.parse(readFileSync(APPLIED, 'utf8'));
  } catch {
    return {};
  }
}
