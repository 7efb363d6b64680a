/** The hub's worker for the bench: the release build, with the settings of wrangler.toml and the project's migrations. */

import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';

import { readMigrations, readWranglerToml } from '../../scripts/lib/worker-settings.mjs';
import { ROOT } from './packages.mjs';

/** The access token of the hub. The hub listens on loopback, and only during a run. */
export const SECRET = 'bench-secret-of-a-hub-on-loopback';

/** Returns miniflare's list of the worker's modules: the entry, and the other files of the build. */
function modulesOf(build) {
  const entry = join(build, basename(readWranglerToml().main));
  if (!existsSync(entry)) throw new Error(`There is no built hub at ${entry}. Build it with: npm run build`);
  const stamp = join(build, 'stamp.json');
  if (existsSync(stamp) && JSON.parse(readFileSync(stamp, 'utf8')).optimized === false) {
    throw new Error(`The hub in ${build} is a development build, whose figures mean nothing. Make a release build with: npm run build`);
  }
  const modules = readdirSync(build)
    .filter((name) => /\.(m?js|wasm)$/.test(name) && join(build, name) !== entry)
    .map((name) => ({ type: name.endsWith('.wasm') ? 'CompiledWasm' : 'ESModule', path: join(build, name) }));
  return [{ type: 'ESModule', path: entry }, ...modules];
}

/** Returns miniflare's options for the hub's worker. @throws {Error} if the hub is not built */
export function hubWorker(build) {
  const { compatibility_date, compatibility_flags, vars } = readWranglerToml();
  return {
    name: 'hub',
    modulesRoot: build,
    modules: modulesOf(build),
    compatibilityDate: compatibility_date,
    compatibilityFlags: compatibility_flags,
    bindings: { ...vars, CLI_API_TOKEN: SECRET },
    d1Databases: { DB: 'hub' },
    durableObjects: { HUB: { className: 'NamespaceHub', useSQLite: true } },
    ratelimits: { AUTH_RATE_LIMIT: { namespace_id: '1001', simple: { limit: 30, period: 60 } } },
  };
}

/** Returns the options for the counting hub: the hub in a wrapper that counts events and statements. `GET /e2e/tally` returns the counts. */
export function countingHubWorker(build) {
  const hub = hubWorker(build);
  const wrappers = ['tally.worker.js', 'clock.worker.js'].map((name) => {
    const contents = readFileSync(join(ROOT, 'tests', 'e2e', 'lib', name), 'utf8');
    return { type: 'ESModule', path: join(build, name), contents };
  });
  return { ...hub, name: 'counting', modules: [...wrappers, ...hub.modules] };
}

/** Applies all migrations in order. */
export async function migrate(database) {
  for (const sql of readMigrations()) await database.prepare(sql).run();
}
