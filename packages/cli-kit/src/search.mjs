/** The RPC method for search with ripgrep. Only safe options are allowed, because the options come from the web. */

import { run } from './exec.mjs';
import { PathError, resolveCwd, resolveInside } from './paths.mjs';

/**
 * Options without a value. Not allowed: options that run other programs (--pre, --hostname-bin, -z), that leave the
 * directory (-L), and that read another file (-f, --ignore-file).
 */
const OPTIONS_WITHOUT_VALUE = new Set(
  `--files --files-with-matches --files-without-match --hidden --no-hidden --no-ignore --no-ignore-vcs --no-ignore-parent
  --no-ignore-dot --ignore-case --case-sensitive --smart-case --fixed-strings --word-regexp --line-regexp --invert-match
  --line-number --no-line-number --count --count-matches --only-matching --json --heading --no-heading --with-filename
  --no-filename --column --no-column --vimgrep --multiline --multiline-dotall --text --stats --trim --null --passthru
  --glob-case-insensitive --one-file-system --pcre2 --crlf --unrestricted --no-messages --max-columns-preview
  --byte-offset --binary --no-config --type-list --quiet --null-data --no-unicode --pretty --no-binary --include-zero`.split(/\s+/),
);

/** Options with a value, as `--name value` or `--name=value`. */
const OPTIONS_WITH_VALUE = new Set(
  `--glob --iglob --regexp --type --type-not --after-context --before-context --context --max-count --max-depth
  --maxdepth --max-filesize --max-columns --sort --sortr --color --replace --encoding --engine
  --context-separator --field-match-separator --field-context-separator`.split(/\s+/),
);

/** Error output that has only errors of the file system. */
const UNREADABLE = /^(rg: .*\(os error \d+\)\n?)+$/;

const LETTERS_WITHOUT_VALUE = new Set([...'.isSFwxvnNlcoUaHIPuq0pb']);
const LETTERS_WITH_VALUE = new Set([...'getTABCmMdrE']);

/**
 * Checks the arguments of a search.
 * @param {unknown} args
 * @returns {{paths: string[]}} the arguments that are paths
 * @throws {PathError} naming the argument that is not allowed
 */
export function checkRipgrepArgs(args) {
  if (!Array.isArray(args) || args.some((arg) => typeof arg !== 'string')) {
    throw new PathError('"args" must be an array of strings.');
  }
  const positionals = [];
  let hasPattern = false;
  let isAfterOptions = false;
  for (let i = 0; i < args.length; i += 1) {
    const arg = args[i];
    if (arg.includes('\0')) throw new PathError('An argument of rg must not contain NUL.');
    if (isAfterOptions || arg === '-' || !arg.startsWith('-')) {
      positionals.push(arg);
    } else if (arg === '--') {
      isAfterOptions = true;
    } else {
      const option = parseOption(arg);
      hasPattern ||= option.givesPattern;
      if (option.takesNextArg) {
        i += 1;
        if (i >= args.length) throw new PathError(`The rg option ${arg} needs a value.`);
      }
    }
  }
  const paths = hasPattern ? positionals : positionals.slice(1);
  if (paths.includes('-')) throw new PathError('The path "-" (standard input) is not allowed.');
  return { paths };
}

function parseOption(arg) {
  if (arg.startsWith('--')) {
    const [name] = arg.split('=', 1);
    const takesValue = OPTIONS_WITH_VALUE.has(name);
    if (!takesValue && !(OPTIONS_WITHOUT_VALUE.has(name) && name === arg)) throw notAllowedError(name);
    return {
      givesPattern: name === '--files' || name === '--regexp' || name === '--type-list',
      takesNextArg: takesValue && name === arg,
    };
  }
  // Short options may be joined (-il), and a value may be joined to its letter (-A3).
  const letters = [...arg.slice(1)];
  for (const [i, letter] of letters.entries()) {
    if (LETTERS_WITH_VALUE.has(letter)) {
      return { givesPattern: letter === 'e', takesNextArg: i === letters.length - 1 };
    }
    if (!LETTERS_WITHOUT_VALUE.has(letter)) throw notAllowedError(`-${letter}`);
  }
  return { givesPattern: false, takesNextArg: false };
}

function notAllowedError(name) {
  return new PathError(`The rg option ${name} is not allowed.`);
}

/** Returns the path of the rg binary: from the npm package, or else from the PATH. */
async function findRipgrep() {
  try {
    return (await import('@vscode/ripgrep')).rgPath;
  } catch {
    return 'rg';
  }
}

/**
 * Whether the output of rg is a result. Exit code 1: no matches. Exit code 2: errors. If the errors are about single files or folders, such
 * as one without permission, the result is still valid.
 * @param {{code: number | null, stdout: string, stderr: string}} ended
 */
export function isResult({ code, stdout, stderr }) {
  return code === 0 || code === 1 || (code === 2 && (stdout !== '' || UNREADABLE.test(stderr)));
}

/** @param {string} root the session's directory, resolved */
export function searchMethods(root) {
  return {
    /** @param {{args?: any, cwd?: unknown}} [params] `args` is checked */
    async runRipgrep({ args, cwd } = {}) {
      const directory = await resolveCwd(root, cwd);
      const { paths } = checkRipgrepArgs(args);
      for (const name of paths) await resolveInside(directory, name);
      const env = { ...process.env };
      delete env.RIPGREP_CONFIG_PATH;
      const result = await run(await findRipgrep(), ['--no-config', ...args], { cwd: directory, env });
      let stdout = result.stdout.toString('utf8');
      if (result.isTruncated) {
        stdout = stdout.slice(0, stdout.lastIndexOf('\n') + 1);
        return { success: true, stdout, stderr: result.stderr, truncated: true };
      }
      if (isResult({ ...result, stdout })) return { success: true, stdout, stderr: result.stderr };
      const error = result.stderr.split('\n')[0] || `rg failed with exit code ${result.code}.`;
      return { success: false, stdout, stderr: result.stderr, error };
    },
  };
}
