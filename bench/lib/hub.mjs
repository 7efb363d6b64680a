/** The hub as the bench runs it: the release build, the settings of wrangler.toml, the migrations of the project. */

import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';

import { ROOT } from './packages.mjs';

/** The shared secret of the benched hub: on loopback only, for as long as a run. */
export const SECRET = 'bench-secret-of-a-hub-on-loopback';

export const DEFAULT_BUILD = join(ROOT, 'build');

/** What a run needs of wrangler.toml: the top-level settings and the variables, one `key = "text"` a line each. */
function settings() {
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

/** A build that was not made for release would be measured in vain. */
function refuseDevelopmentBuild(build) {
  const stamp = join(build, 'stamp.json');
  if (existsSync(stamp) && JSON.parse(readFileSync(stamp, 'utf8')).optimized === false) {
    throw new Error(`The hub in ${build} is a development build: run \`npm run build\` first.`);
  }
}

/** The worker's entry and what the build laid beside it. */
function modulesOf(build) {
  const entry = join(build, basename(settings().main));
  if (!existsSync(entry)) {
    throw new Error(`There is no built hub at ${entry}: run \`npm run build\` first (or \`--floor\` for the floor alone).`);
  }
  refuseDevelopmentBuild(build);
  const modules = readdirSync(build)
    .filter((name) => /\.(m?js|wasm)$/.test(name))
    .map((name) => join(build, name))
    .filter((path) => path !== entry)
    .map((path) => ({ type: path.endsWith('.wasm') ? 'CompiledWasm' : 'ESModule', path }));
  return [{ type: 'ESModule', path: entry }, ...modules];
}

/** miniflare's options for the hub's worker. Throws what to run when it is not built. */
export function hubWorker(build) {
  const modules = modulesOf(build);
  const { compatibilityDate, compatibilityFlags, vars } = settings();
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

/** The hub's worker with a tally around it, which `GET /e2e/tally` tells: for what is counted, not for what is timed. */
export function talliedHubWorker(build) {
  const hub = hubWorker(build);
  const contents = readFileSync(join(ROOT, 'tests', 'e2e', 'lib', 'tally.worker.js'), 'utf8');
  const entry = { type: 'ESModule', path: join(build, 'tally.worker.js'), contents };
  return { ...hub, name: 'tallied', modules: [entry, ...hub.modules] };
}

/** Applies every migration in order. D1 runs a text of several statements as a whole. */
export async function migrate(database) {
  const folder = join(ROOT, 'migrations');
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.sql')).sort()) {
    await database.prepare(readFileSync(join(folder, name), 'utf8')).run();
  }
}

/** `{raw, gzip}` in bytes of the wasm that would be deployed. */
export function wasmSize(build) {
  const bytes = modulesOf(build)
    .filter(({ type }) => type === 'CompiledWasm')
    .map(({ path }) => readFileSync(path));
  const sum = (sizes) => sizes.reduce((total, size) => total + size, 0);
  return { raw: sum(bytes.map(({ length }) => length)), gzip: sum(bytes.map((wasm) => gzipSync(wasm, { level: 9 }).length)) };
}
