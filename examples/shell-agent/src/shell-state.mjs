/**
 * The shell state that commands share: the working directory and the exported variables. Each command runs in a new shell, which writes
 * the state to a file when it exits. The state survives restarts of the agent.
 */

import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { isInside } from 'session-gateway-cli-kit/paths';

/** @typedef {{cwd: string, env: Record<string, string | null>}} SavedShell `env`: changed variables; null: unset */

/** Variables that the shell or the agent sets for each command. */
const PER_COMMAND = new Set(['PWD', 'OLDPWD', 'SHLVL', '_', 'ATTACHMENTS']);

/** A variable name. Shells do not reliably pass on environment entries with other names. */
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Limit on the saved variables, in characters of JSON. The variables are part of the agent's state file, which is rewritten with every message.
 */
const MAX_SAVED_CHARS = 128 * 1024;

export class ShellState {
  /**
   * @param {{root: string, file: string, base: Record<string, string | undefined>, saved?: SavedShell,
   *   save: (saved: SavedShell) => void}} options `root`: the session's directory, in which a new shell starts; `file`: the
   *   file to which a command writes its state; `base`: the environment of a new shell
   */
  constructor({ root, file, base, saved, save }) {
    this.root = root;
    this.file = file;
    this.base = base;
    this.save = save;
    this.cwd = typeof saved?.cwd === 'string' ? saved.cwd : root;
    this.env = { ...saved?.env };
  }

  /** The environment of the next command. */
  get environment() {
    const environment = { ...this.base, ...this.env };
    for (const [name, value] of Object.entries(environment)) if (value === null) delete environment[name];
    return environment;
  }

  /** Whether the shell is inside the session's directory, and no command has changed a variable. */
  get isUnmodified() {
    return isInside(this.root, this.cwd) && Object.keys(this.env).length === 0;
  }

  /** Returns a description for the conversation, such as `in /code, with NAME as set before`. */
  toString() {
    const names = Object.keys(this.env).sort();
    const more = names.length > 8 ? ` and ${names.length - 8} more` : '';
    return `in ${this.cwd}${names.length > 0 ? `, with ${names.slice(0, 8).join(', ')}${more} as set before` : ''}`;
  }

  /**
   * Prepares the file to which the next command writes its state.
   * @returns {string | null} a notice for the user, when the working directory no longer exists
   */
  begin() {
    // Created with its mode before the shell writes to it, so that only this user can read the variables.
    rmSync(this.file, { force: true });
    writeFileSync(this.file, '', { mode: 0o600, flag: 'wx' });
    if (statSync(this.cwd, { throwIfNoEntry: false })?.isDirectory()) return null;
    const missing = this.cwd;
    this.cwd = this.root;
    return `The directory ${missing} no longer exists. Continuing in ${this.root}.`;
  }

  /**
   * Reads the state that a command wrote. A command that was killed, or that replaced its shell with `exec`, writes no complete state. The
   * previous state is then kept.
   * @returns {string | null} a notice for the user, when the directory changed or the variables are too large
   */
  end() {
    // The shell writes the directory, the variables and the word `end`, with NUL after each.
    const [cwd, ...variables] = this.#readAndRemoveFile().split('\0');
    if (variables.at(-2) !== 'end') return null;
    const env = diffEnvironment(this.base, variables);
    const isWithinLimit = JSON.stringify(env).length <= MAX_SAVED_CHARS;
    const hasMoved = cwd !== this.cwd;
    const hasChanged = isWithinLimit && !isDeepStrictEqual(env, this.env);
    this.cwd = cwd;
    if (hasChanged) this.env = env;
    if (hasMoved || hasChanged) this.save({ cwd, env: this.env });
    if (!isWithinLimit) return `The exported variables exceed ${MAX_SAVED_CHARS / 1024} KB and are not saved.`;
    return hasMoved ? `Now in ${cwd}.` : null;
  }

  #readAndRemoveFile() {
    try {
      return readFileSync(this.file, 'utf8');
    } catch {
      return '';
    } finally {
      rmSync(this.file, { force: true });
    }
  }
}

/**
 * Returns the variables that differ from `base`. The value of a variable that was unset is null.
 * @param {Record<string, string | undefined>} base
 * @param {string[]} variables each as `NAME=value`; other entries, such as the final `end`, are ignored
 */
function diffEnvironment(base, variables) {
  const isSaved = (name) => NAME.test(name) && !PER_COMMAND.has(name);
  // The separator captures all text after the first `=`, because the text may contain further `=`.
  const pairs = variables
    .map((variable) => /** @type {[string, string]} */ (variable.split(/=([^]*)/, 2)))
    .filter(([name]) => isSaved(name));
  const found = new Map(pairs.filter(([, value]) => value !== undefined));
  const changed = [...found].filter(([name, value]) => base[name] !== value);
  const unset = Object.keys(base).filter((name) => isSaved(name) && base[name] !== undefined && !found.has(name));
  return Object.fromEntries([...changed, ...unset.map((name) => [name, null])]);
}
