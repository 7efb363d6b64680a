/** Runs the installed `git`, independently of the user's settings. */

import { existsSync } from 'node:fs';
import path from 'node:path';
import { MAX_OUTPUT_BYTES, run } from './exec.mjs';

/**
 * Settings that would change the output of the commands, or run programs. The options `--no-ext-diff`, `--no-textconv` and `--no-color`
 * of `git diff` pin what has no neutral value.
 */
const SETTINGS = {
  'core.fsmonitor': 'false',
  'core.hooksPath': '/dev/null',
  'core.quotePath': 'false',
  'diff.algorithm': 'default',
  'diff.context': '3',
  'diff.dstPrefix': 'b/',
  'diff.ignoreSubmodules': 'untracked',
  'diff.indentHeuristic': 'true',
  'diff.interHunkContext': '0',
  'diff.mnemonicPrefix': 'false',
  'diff.noprefix': 'false',
  'diff.orderFile': '/dev/null',
  'diff.renameLimit': '1000',
  'diff.renames': 'true',
  'diff.srcPrefix': 'a/',
  'diff.submodule': 'short',
  'diff.suppressBlankEmpty': 'false',
  'status.renameLimit': '1000',
  'status.renames': 'true',
};

const SAFE_OPTIONS = [...Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]), '--no-pager'];

/**
 * The variables of git that are kept. The others override the repository of a directory or the output: a process that a git hook started
 * inherits some of them.
 */
const KEPT_VARIABLES = /^GIT_(CONFIG|EXEC_PATH|CEILING_DIRECTORIES|DISCOVERY_ACROSS_FILESYSTEM|TEMPLATE_DIR)/;

/** The variable with an empty value for `--config-env`. Names of settings may contain "=", which `-c` would split. */
const EMPTY = 'SESSION_GATEWAY_EMPTY';

/** Without GIT_NO_LAZY_FETCH, git fetches an object that a partial clone lacks, with programs of the configuration. */
const VARIABLES = { LC_ALL: 'C', GIT_OPTIONAL_LOCKS: '0', GIT_TERMINAL_PROMPT: '0', GIT_NO_LAZY_FETCH: '1', [EMPTY]: '' };

/** The commands that read or write the content of files, through filters. */
const READS_CONTENT = new Set(['diff', 'status', 'worktree']);

/**
 * Runs git with safe options and a clean environment.
 * @param {string[]} args
 * @param {string} cwd
 * @param {{timeoutMs?: number, maxOutputBytes?: number, stdin?: number}} [options] `stdin`: a file descriptor
 */
export async function git(args, cwd, options) {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_') || KEPT_VARIABLES.test(name));
  const env = { ...Object.fromEntries(inherited), ...VARIABLES };
  const filters = READS_CONTENT.has(args[0]) ? await withoutFilters(cwd) : [];
  const result = await run('git', [...SAFE_OPTIONS, ...filters, ...args], { cwd, env, ...options });
  if (result.isTruncated)
    throw new Error(`The output of git is larger than ${(options?.maxOutputBytes ?? MAX_OUTPUT_BYTES) / 1024 / 1024} MB.`);
  return result;
}

/** Limit on the list of all tracked files, in bytes: about a million files. */
const MAX_INDEX_BYTES = 256 * 1024 * 1024;

/** Matches the settings that name the programs through which git passes the content of files. */
const FILTERS = '^filter\\..*\\.(clean|smudge|process|required)$';

/**
 * Returns the options with which git runs no filter that a repository or its submodules define. The user's own filters, such as those of Git
 * LFS, run.
 * @param {string} cwd
 * @param {Set<string>} [seen] the repositories so far: a link may make a repository its own submodule
 * @returns {Promise<string[]>}
 */
async function withoutFilters(cwd, seen = new Set()) {
  const { stdout } = await git(['config', '--show-scope', '--name-only', '-z', '--get-regexp', FILTERS], cwd);
  const own = [...stdout.toString('utf8').matchAll(/(?:local|worktree)\0([^\0]*)\0/g)].map(([, name]) => `--config-env=${name}=${EMPTY}`);
  const listed = await git(['ls-files', '--stage', '-z', '--full-name', '--', ':/'], cwd, { maxOutputBytes: MAX_INDEX_BYTES });
  if (!listed.stdout.includes('160000 ')) return own;
  const links = [...listed.stdout.toString('utf8').matchAll(/(?<=^|\0)160000 [^\t]*\t([^\0]*)/g)];
  const top = await gitText(['rev-parse', '--show-toplevel'], cwd);
  if (seen.has(top)) return own;
  seen.add(top);
  const below = links.map(([, name]) => path.join(top, name)).filter((folder) => existsSync(path.join(folder, '.git')));
  return [...own, ...(await Promise.all(below.map((folder) => withoutFilters(folder, seen)))).flat()];
}

/** Runs git and returns its output. @throws {Error} with the first line of git's error output */
export async function gitOutput(args, cwd, options) {
  const result = await git(args, cwd, options);
  if (result.code !== 0) throw new Error(describeGitError(result, cwd));
  return result.stdout.toString('utf8');
}

/** As {@link gitOutput}, without the line break at the end. */
export async function gitText(args, cwd, options) {
  return (await gitOutput(args, cwd, options)).replace(/\n$/, '');
}

/**
 * Returns why git failed, in one line.
 * @param {{code: number | null, stderr: string}} result `code`: null if git was killed
 * @param {string} cwd
 */
export function describeGitError({ code, stderr }, cwd) {
  if (/not a git repository/i.test(stderr)) return `Not a git repository: ${cwd}`;
  if (/lazy fetching disabled/.test(stderr))
    return 'This partial clone lacks an object. To fetch all objects, run on its computer: git fetch --no-filter --refetch';
  // git gives its advice on a later line.
  const [advice] = /git config --global --add safe\.directory .*/.exec(stderr) ?? [];
  if (advice) return `Another user owns this repository, so git does not read it. If you trust it, run on its computer: ${advice}`;
  return stderr.split('\n')[0] || (code === null ? 'git was killed.' : `git failed with exit code ${code}.`);
}

/**
 * Returns the pathspec of a file or folder. In a name that is not UTF-8, the invalid bytes became U+FFFD, which matches any bytes outside
 * of printable ASCII.
 * @param {string} name
 */
export function pathspecOf(name) {
  if (!name.includes('\uFFFD')) return `:(literal)${name || '.'}`;
  return `:(glob)${name.replace(/[*?[\]\\]/g, '\\$&').replace(/\uFFFD+/g, '[^ -~]*')}`;
}
