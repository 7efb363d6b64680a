// Builds the worker of an earlier version, for the test of version skew (tests/e2e/skew.test.mjs).

import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { cacheFolder } from './cache.mjs';
import { UserError } from '../lib/errors.mjs';
import { addFiles } from './inputs.mjs';
import { withLock } from '../lib/lock.mjs';
import { PREVIOUS_BUILD_DIR, ROOT } from '../lib/paths.mjs';
import { outputOf, run } from '../lib/run.mjs';
import { bindToolIsReady, installBindTool } from './rust.mjs';
import { bundle, CARGO_TARGET_DIR, compile } from './worker.mjs';

/** The files that are taken from the previous commit. The compiler and its settings are taken from the current commit. */
const SOURCES = ['src', 'Cargo.toml', 'Cargo.lock', 'tools/bind'];
/** The files of the worker, without its tests. */
const WORKER_SOURCES = [...SOURCES, ':(exclude,glob)src/**/*.test.mjs', ':(exclude,glob)src/**/*_tests.rs'];
const SETTINGS = ['.cargo', 'rust-toolchain.toml', 'package-lock.json', 'scripts/build/worker.mjs'];

const OUTPUTS = ['index.js', 'index_bg.wasm'];
/** How many builds the cache keeps. */
const MAX_BUILDS = 10;

/** @param {string} root @param {...string} args @returns {string | undefined} the output; undefined when git is missing or fails */
const git = (root, ...args) => outputOf('git', ['-C', root, ...args]);

/**
 * Finds the commit whose worker a deployment of the current sources replaces:
 * 1. the commit that the variable PREVIOUS_COMMIT names;
 * 2. the newest tag of a version whose worker differs;
 * 3. HEAD, if the worker has uncommitted changes;
 * 4. the commit before the last change of the worker.
 * @returns {{commit: string, reason?: undefined} | {commit?: undefined, reason: string}} `reason`: why there is no such commit
 */
export function findPreviousCommit(root = ROOT) {
  const resolve = (revision) => git(root, 'rev-parse', '--verify', '--quiet', `${revision}^{commit}`);
  const configured = process.env.PREVIOUS_COMMIT;
  if (configured) {
    const commit = resolve(configured);
    if (!commit)
      throw new UserError(`PREVIOUS_COMMIT is ${configured}, which is not a commit of this clone.`, 'Set it to a commit, tag or branch.');
    return { commit };
  }
  const head = resolve('HEAD');
  if (!head) return { reason: 'It needs the previous commit, and this folder is not a git clone.' };
  const tags = git(root, 'tag', '--merged', 'HEAD', '--sort=-version:refname', '--list', 'v*')?.split('\n') ?? [];
  const tag = tags.find((name) => name !== '' && git(root, 'diff', '--quiet', name, '--', ...WORKER_SOURCES) === undefined);
  if (tag !== undefined) return { commit: resolve(tag) };
  if (git(root, 'status', '--porcelain', '--', ...WORKER_SOURCES) !== '') return { commit: head };
  const commit = findCommitBefore(1, root);
  return commit
    ? { commit }
    : { reason: 'It needs the previous commit, which this clone does not have. Fetch it with: git fetch --unshallow' };
}

/**
 * Returns the commit before the last changes of the worker.
 * @param {number} changes how many of the later commits have changed the worker
 * @returns {string | undefined} undefined if the history has fewer changes
 */
export function findCommitBefore(changes, root = ROOT) {
  const commits = git(root, 'log', `-${changes}`, '--first-parent', '--format=%H', '--', ...WORKER_SOURCES)?.split('\n') ?? [];
  const oldest = commits[changes - 1];
  return oldest && git(root, 'rev-parse', '--verify', '--quiet', `${oldest}^^{commit}`);
}

/**
 * Builds the worker of the previous commit in build/previous/, or takes it from the cache. Does not optimise the build.
 * @param {(state: string) => void} update
 * @returns {Promise<string>} the commit
 */
export async function buildPrevious(update) {
  const { commit, reason } = findPreviousCommit();
  if (!commit) throw new UserError(reason);
  const inputs = [outputOf('rustc', ['-vV']), ...SOURCES.map((source) => git(ROOT, 'rev-parse', `${commit}:${source}`))];
  const key = addFiles(createHash('sha256').update(JSON.stringify(inputs)), SETTINGS).digest('hex');
  const cached = path.join(cacheFolder('previous', MAX_BUILDS), key);
  mkdirSync(cached, { recursive: true });
  await withLock(path.join(cached, '.lock'), 'build of the previous commit', async () => {
    if (!OUTPUTS.every((name) => existsSync(path.join(cached, name)))) {
      const root = await checkOut(commit);
      if (!bindToolIsReady(root)) await installBindTool(update, root);
      // In a separate target folder, because the wasm files of both commits have the same name.
      const wasm = await compile(false, update, { root, target: path.join(CARGO_TARGET_DIR, 'previous') });
      await bundle(wasm, cached, false, { root });
    }
    for (const name of OUTPUTS) cpSync(path.join(cached, name), path.join(PREVIOUS_BUILD_DIR, name));
  });
  return commit;
}

/**
 * Writes the sources of a commit to a folder. All files get the current time as modification time, so that cargo detects changes.
 * @param {string} commit
 * @returns {Promise<string>} the folder of the sources
 */
async function checkOut(commit) {
  const folder = path.join(PREVIOUS_BUILD_DIR, 'source');
  const index = path.join(PREVIOUS_BUILD_DIR, 'index');
  rmSync(folder, { recursive: true, force: true });
  rmSync(index, { force: true });
  mkdirSync(folder, { recursive: true });
  const env = { GIT_DIR: git(ROOT, 'rev-parse', '--absolute-git-dir'), GIT_WORK_TREE: folder, GIT_INDEX_FILE: index };
  await run('git', ['checkout', '--quiet', '--force', commit, '--', ...SOURCES], { cwd: folder, env });
  return folder;
}
