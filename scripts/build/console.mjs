// The build of the web console in web/dist, which wrangler serves.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { addFiles } from './inputs.mjs';
import { withLock } from '../lib/lock.mjs';
import { nodeBinary } from '../lib/node.mjs';
import { inProject } from '../lib/paths.mjs';
import { runStep } from '../lib/progress.mjs';
import { run } from '../lib/run.mjs';
import { ensureNode, ensurePackages } from './setup.mjs';
import { checkTypes, JAVASCRIPT_PROJECTS } from './types.mjs';

const WEB = inProject('web');
const STAMP = path.join(WEB, '.stamp.json');
const PAGE = path.join(WEB, 'dist', 'index.html');
const HEADERS = path.join(WEB, 'dist', '_headers');

/** The inputs of the build: files and folders. */
export const CONSOLE_INPUTS = [
  'web/src',
  'web/public',
  'web/index.html',
  'web/package.json',
  'web/vite.config.ts',
  'web/tsconfig.json',
  'tsconfig.json',
  'package-lock.json',
  'scripts/build/console.mjs',
];

/** The types generated from docs/openapi.yaml. */
const TYPES = path.join(WEB, 'types', 'schema.d.ts');

/**
 * @typedef {object} ConsoleBuildRecord
 * @property {string} inputs hash over the inputs
 * @property {number} firstLoadBytes compressed size of the files that a first visit loads before the list of sessions is shown
 * @property {number} sessionLoadBytes compressed size of the files that a first visit loads before a session is shown
 * @property {boolean} [isUpToDate] set when the build was skipped
 */

/**
 * Builds if an input changed.
 * @returns {Promise<ConsoleBuildRecord>}
 */
export async function buildConsole() {
  const existing = findUpToDateBuild();
  if (existing) return existing;
  return withLock(path.join(WEB, '.lock'), 'build of the web console', async () => {
    // Another process may have built while this process waited for the lock.
    const builtMeanwhile = findUpToDateBuild();
    if (builtMeanwhile) return builtMeanwhile;
    // Hashed before the build, so that an edit during the build makes the next run build again.
    const inputs = hashInputs();
    rmSync(STAMP, { force: true });
    await Promise.all([ensurePackages(), ensureNode()]);
    await runStep('web console', () =>
      run(nodeBinary(), [inProject('node_modules', 'vite', 'bin', 'vite.js'), 'build', '--logLevel', 'warn'], { cwd: WEB }),
    );
    const built = { inputs, ...measureFirstLoad() };
    writeFileSync(STAMP, `${JSON.stringify(built, null, 2)}\n`);
    return built;
  });
}

/** @param {ConsoleBuildRecord} built */
export function describeConsole({ firstLoadBytes, sessionLoadBytes, isUpToDate }) {
  const [list, session] = [firstLoadBytes, sessionLoadBytes].map((bytes) => `${Math.round(bytes / 1000)} KB`);
  return `  The web console ${isUpToDate ? 'is up to date' : 'is built'}: first load ${list} gzip, of a session ${session}.`;
}

/** Generates the types of the interface. */
async function generateTypes() {
  await run(nodeBinary(), [
    inProject('node_modules', 'openapi-typescript', 'bin', 'cli.js'),
    inProject('docs', 'openapi.yaml'),
    '--output',
    TYPES,
  ]);
}

/**
 * Checks the types of the web console.
 * @param {(line: string) => boolean | void} onLine called for each line of the type checker
 */
export async function checkConsoleTypes(onLine) {
  await generateTypes();
  await checkTypes('web', onLine);
}

/**
 * Checks the types of all projects with JavaScript. Tests of the bridge import modules of the console.
 * @param {(line: string) => boolean | void} onLine called for each line of the type checker
 */
export async function checkJavaScriptTypes(onLine) {
  await generateTypes();
  for (const project of JAVASCRIPT_PROJECTS) await checkTypes(project, onLine);
}

function findUpToDateBuild() {
  if (!existsSync(PAGE)) return undefined;
  try {
    const stamp = JSON.parse(readFileSync(STAMP, 'utf8'));
    return stamp.inputs === hashInputs() ? { ...stamp, isUpToDate: true } : undefined;
  } catch {
    return undefined;
  }
}

function hashInputs() {
  return addFiles(createHash('sha256'), CONSOLE_INPUTS).digest('hex');
}

/** Returns the compressed sizes of the page with the scripts and styles that the page and its headers name. Other files load on demand. */
function measureFirstLoad() {
  const namesIn = (/** @type {string} */ text, /** @type {RegExp} */ pattern) => [...text.matchAll(pattern)].map(([, name]) => name);
  const ofPage = namesIn(readFileSync(PAGE, 'utf8'), /<(?:script|link)[^>]*?(?:src|href)="\.\/(assets\/[^"]+)"/g);
  const ofSession = namesIn(readFileSync(HEADERS, 'utf8'), /<\.\.\/(assets\/[^>]+)>; rel=modulepreload/g);
  const sizeOf = (/** @type {string[]} */ names) =>
    [PAGE, ...[...new Set(names)].map((name) => path.join(WEB, 'dist', name))].reduce(
      (sum, file) => sum + gzipSync(readFileSync(file), { level: 9 }).length,
      0,
    );
  return { firstLoadBytes: sizeOf(ofPage), sessionLoadBytes: sizeOf([...ofPage, ...ofSession]) };
}
