/** The hub's worker for the bench: the release build, with the settings of wrangler.toml and the project's migrations. */

import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';

import { ROOT } from './packages.mjs';

/** The access token of the hub. The hub listens on loopback, and only during a run. */
export const SECRET = 'bench-secret-of-a-hub-on-loopback';

export const DEFAULT_BUILD = join(ROOT, 'build');

/** Reads the top-level settings and the variables of wrangler.toml, which are `key = "text"` lines. */
function readSettings() {
  const text = readFileSync(join(ROOT, 'wrangler.toml'), 'utf8');
  const top = text.split(/^\[/m, 1)[0];
  const string = (key) => new RegExp(`^${key}\\s*=\\s*"([^"]*)"`, 'm').exec(top)?.[1];
  const flags = /^compatibility_flags\s*=\s*\[([^\]]*)\]/m.exec(top)?.[1] ?? '';
  const vars = /^\[vars\]\n([^]*?)(?=^\[|(?![^]))/m.exec(text)?.[1] ?? '';
  return {
    main: string('main'),
    compatibilityDate: string('compatibility_date'),
    compatibilityFlags: [...flags.matchAll(/"([^"]+)"/g)].map(([, flag]) => flag),
    vars: Object.fromEntries([...vars.matchAll(/^(\w+)\s*=\s*"([^"]*)"/gm)].map(([, name, value]) => [name, value])),
  };
}

/** Throws an error for a development build. Such a build is not optimised, and the figures of the bench would mean nothing. */
function refuseDevelopmentBuild(build) {
  const stamp = join(build, 'stamp.json');
  if (existsSync(stamp) && JSON.parse(readFileSync(stamp, 'utf8')).optimized === false) {
    throw new Error(`The hub in ${build} is a development build. Make a release build with: npm run build`);
  }
}

/** Returns miniflare's list of the worker's modules: the entry, and the other files of the build. */
function modulesOf(build) {
  const entry = join(build, basename(readSettings().main));
  if (!existsSync(entry)) {
    throw new Error(`There is no built hub at ${entry}. Build it with \`npm run build\`, or measure only the floor with --floor.`);
  }
  refuseDevelopmentBuild(build);
  const modules = readdirSync(build)
    .filter((name) => /\.(m?js|wasm)$/.test(name))
    .map((name) => join(build, name))
    .filter((path) => path !== entry)
    .map((path) => ({ type: path.endsWith('.wasm') ? 'CompiledWasm' : 'ESModule', path }));
  return [{ type: 'ESModule', path: entry }, ...modules];
}

/** Returns miniflare's options for the hub's worker. @throws {Error} if the hub is not built */
export function hubWorker(build) {
  const modules = modulesOf(build);
  const { compatibilityDate, compatibilityFlags, vars } = readSettings();
  return {
    name: 'hub',
    modulesRoot: build,
    modules,
    compatibilityDate,
    compatibilityFlags,
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
  const folder = join(ROOT, 'migrations');
  for (const name of readdirSync(folder)
    .filter((file) => file.endsWith('.sql'))
    .sort()) {
    await database.prepare(readFileSync(join(folder, name), 'utf8')).run();
  }
}

/** Returns the size of the wasm in bytes: `{raw, gzip}`. */
export function wasmSize(build) {
  const bytes = modulesOf(build)
    .filter(({ type }) => type === 'CompiledWasm')
    .map(({ path }) => readFileSync(path));
  const sum = (sizes) => sizes.reduce((total, size) => total + size, 0);
  return { raw: sum(bytes.map(({ length }) => length)), gzip: sum(bytes.map((wasm) => gzipSync(wasm, { level: 9 }).length)) };
}
