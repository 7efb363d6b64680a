// What the hub's worker runs with: the settings of wrangler.toml, and the schema of its database.

import { readdirSync, readFileSync } from 'node:fs';
import { parse } from 'smol-toml';
import { inProject } from './paths.mjs';

/** Returns the settings of wrangler.toml. @returns {Record<string, any>} */
export const readWranglerToml = () => parse(readFileSync(inProject('wrangler.toml'), 'utf8'));

/** Returns the SQL of the migrations, in order. */
export function readMigrations() {
  const names = readdirSync(inProject('migrations')).filter((name) => name.endsWith('.sql'));
  return names.sort().map((name) => readFileSync(inProject('migrations', name), 'utf8'));
}
