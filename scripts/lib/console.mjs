// The web console: built into web/dist, which wrangler serves, when one of its sources changed.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { addFiles } from './inputs.mjs';
import { withLock } from './lock.mjs';
import { nodeBinary } from './node.mjs';
import { inProject } from './paths.mjs';
import { step } from './progress.mjs';
import { run } from './run.mjs';
import { needNode, needPackages } from './setup.mjs';

const WEB = inProject('web');
const STAMP = path.join(WEB, '.stamp.json');
const PAGE = path.join(WEB, 'dist', 'index.html');

/** Files and folders whose content decides what the build makes. */
const INPUTS = [
  'web/src',
  'web/public',
  'web/index.html',
  'web/vite.config.ts',
  'web/tsconfig.json',
  'package-lock.json',
  'scripts/lib/console.mjs',
];

/** The interface's types, made of its description. */
const TYPES = path.join(WEB, 'types', 'schema.d.ts');

/**
 * @typedef {object} BuiltConsole
 * @property {string} inputs hash over everything that went in
 * @property {number} firstLoadBytes what a first visit fetches before it shows anything, compressed
 * @property {boolean} [fresh] nothing had to be done
 */

/**
 * Builds when an input changed, and sets up what that needs.
 * @returns {Promise<BuiltConsole>}
 */
export async function buildConsole() {
  const existing = upToDate();
  if (existing) return existing;
  return withLock(path.join(WEB, '.lock'), 'build of the web console', async () => {
    const made = upToDate();
    if (made) return made;
    // Taken before: what is edited meanwhile is built by the next run.
    const inputs = hashInputs();
    rmSync(STAMP, { force: true });
    await Promise.all([needPackages(), needNode()]);
    await step('web console', () => run(nodeBinary(), [inProject('node_modules', 'vite', 'bin', 'vite.js'), 'build', '--logLevel', 'warn'], { cwd: WEB }));
    const built = { inputs, firstLoadBytes: firstLoad() };
    writeFileSync(STAMP, `${JSON.stringify(built, null, 2)}\n`);
    return built;
  });
}

/** @param {BuiltConsole} built */
export function describeConsole({ firstLoadBytes, fresh }) {
  return `  The web console ${fresh ? 'is up to date' : 'is built'}: ${Math.round(firstLoadBytes / 1000)} KB gzip on first load.`;
}

/**
 * Makes the interface's types of docs/openapi.yaml, and checks the types of all of the console.
 * @param {(line: string) => boolean | void} onLine hears every line of the type checker
 */
export async function checkConsoleTypes(onLine) {
  const bin = (...parts) => inProject('node_modules', ...parts);
  await run(nodeBinary(), [bin('openapi-typescript', 'bin', 'cli.js'), inProject('docs', 'openapi.yaml'), '--output', TYPES]);
  await run(nodeBinary(), [bin('typescript', 'bin', 'tsc'), '--project', WEB], { onLine });
}

/**
 * The address that opens the console signed in. What stands behind `#` never leaves the browser.
 * @param {string} address of the hub
 * @param {string} token that opens it
 * @param {string} [path] of a view
 */
export function signInLink(address, token, path = '/') {
  return `${address}${path}#token=${encodeURIComponent(token)}`;
}

function upToDate() {
  if (!existsSync(PAGE)) return undefined;
  try {
    const stamp = JSON.parse(readFileSync(STAMP, 'utf8'));
    return stamp.inputs === hashInputs() ? { ...stamp, fresh: true } : undefined;
  } catch {
    return undefined;
  }
}

function hashInputs() {
  return addFiles(createHash('sha256'), INPUTS).digest('hex');
}

/** The page with the scripts and styles that it names: everything else is fetched when it is needed. */
function firstLoad() {
  const page = readFileSync(PAGE, 'utf8');
  const named = [...page.matchAll(/<(?:script|link)[^>]*?(?:src|href)="\/(assets\/[^"]+)"/g)].map(([, name]) => name);
  const files = [PAGE, ...named.map((name) => path.join(WEB, 'dist', name))];
  return files.reduce((sum, file) => sum + gzipSync(readFileSync(file), { level: 9 }).length, 0);
}
