// The build of the web console in web/dist, which wrangler serves.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { addFiles } from './inputs.mjs';
import { withLock } from './lock.mjs';
import { nodeBinary } from './node.mjs';
import { inProject } from './paths.mjs';
import { runStep } from './progress.mjs';
import { run } from './run.mjs';
import { ensureNode, ensurePackages } from './setup.mjs';
import { checkTypes, JAVASCRIPT_PROJECTS } from './types.mjs';

const WEB = inProject('web');
const STAMP = path.join(WEB, '.stamp.json');
const PAGE = path.join(WEB, 'dist', 'index.html');

/** The inputs of the build: files and folders. */
const INPUTS = [
  'web/src',
  'web/public',
  'web/index.html',
  'web/vite.config.ts',
  'web/tsconfig.json',
  'package-lock.json',
  'scripts/lib/console.mjs',
];

/** The types generated from docs/openapi.yaml. */
const TYPES = path.join(WEB, 'types', 'schema.d.ts');

/**
 * @typedef {object} ConsoleBuildRecord
 * @property {string} inputs hash over the inputs
 * @property {number} firstLoadBytes compressed size of the files that a first visit loads before the console is shown
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
    // Another process may have built while this one waited for the lock.
    const builtMeanwhile = findUpToDateBuild();
    if (builtMeanwhile) return builtMeanwhile;
    // Hashed before the build, so that an edit during the build makes the next run build again.
    const inputs = hashInputs();
    rmSync(STAMP, { force: true });
    await Promise.all([ensurePackages(), ensureNode()]);
    await runStep('web console', () =>
      run(nodeBinary(), [inProject('node_modules', 'vite', 'bin', 'vite.js'), 'build', '--logLevel', 'warn'], { cwd: WEB }),
    );
    const built = { inputs, firstLoadBytes: measureFirstLoad() };
    writeFileSync(STAMP, `${JSON.stringify(built, null, 2)}\n`);
    return built;
  });
}

/** @param {ConsoleBuildRecord} built */
export function describeConsole({ firstLoadBytes, isUpToDate }) {
  return `  The web console ${isUpToDate ? 'is up to date' : 'is built'}: ${Math.round(firstLoadBytes / 1000)} KB gzip on first load.`;
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
  return addFiles(createHash('sha256'), INPUTS).digest('hex');
}

/** The compressed size of the page with the scripts and styles that it references. The rest is loaded on demand. */
function measureFirstLoad() {
  const page = readFileSync(PAGE, 'utf8');
  const named = [...page.matchAll(/<(?:script|link)[^>]*?(?:src|href)="\/(assets\/[^"]+)"/g)].map(([, name]) => name);
  const files = [PAGE, ...named.map((name) => path.join(WEB, 'dist', name))];
  return files.reduce((sum, file) => sum + gzipSync(readFileSync(file), { level: 9 }).length, 0);
}
