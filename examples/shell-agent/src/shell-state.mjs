/**
 * What one command hands on to the next, also over restarts of the agent: the directory it ended in and the variables it
 * exported. Each command is a shell of its own, which writes both to a file when it ends.
 */

import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { isInside } from './paths.mjs';

/** @typedef {{cwd: string, env: Record<string, string | null>}} Kept `env`: what differs; null for a variable unset */

/** Variables that the shell itself or the agent sets for each command. */
const PASSING = new Set(['PWD', 'OLDPWD', 'SHLVL', '_', 'ATTACHMENTS']);

/** Others are no shell's: it may hand them on, or not. */
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Most characters of exported variables that are kept: the state is written with every message. */
const MAX_KEPT = 128 * 1024;

export class ShellState {
  /**
   * @param {{root: string, file: string, base: Record<string, string | undefined>, kept?: Kept,
   *   keep: (kept: Kept) => void}} options `root`: the session's directory, where a shell without a past starts; `file`:
   *   where a command leaves its state; `base`: the environment that the variables are added to; `keep` stores the state
   */
  constructor({ root, file, base, kept, keep }) {
    Object.assign(this, { root, file, base, keep });
    this.cwd = typeof kept?.cwd === 'string' ? kept.cwd : root;
    this.env = { ...kept?.env };
  }

  /** The environment of the next command. */
  get environment() {
    const environment = { ...this.base, ...this.env };
    for (const [name, value] of Object.entries(environment)) if (value === null) delete environment[name];
    return environment;
  }

  /** True when commands see nothing that an earlier one has set: their words mean what they say. */
  get isPlain() {
    return isInside(this.root, this.cwd) && Object.keys(this.env).length === 0;
  }

  /** In words, for the conversation. */
  toString() {
    const names = Object.keys(this.env).sort();
    const more = names.length > 8 ? ` and ${names.length - 8} more` : '';
    return `in ${this.cwd}${names.length > 0 ? `, with ${names.slice(0, 8).join(', ')}${more} as set before` : ''}`;
  }

  /**
   * To be called before a command: makes ready the file that it leaves its state in.
   * @returns {string | null} what to tell the person, when the shell's directory is gone
   */
  begin() {
    // Made here, so that what a command exports is readable by this user only.
    rmSync(this.file, { force: true });
    writeFileSync(this.file, '', { mode: 0o600, flag: 'wx' });
    if (statSync(this.cwd, { throwIfNoEntry: false })?.isDirectory()) return null;
    const gone = this.cwd;
    this.cwd = this.root;
    return `${gone} is gone. Back in ${this.root}.`;
  }

  /**
   * To be called after a command: takes over what it left. One that was killed, or that replaced its shell by another
   * program, left nothing or not all of it, and counts as if it had never been.
   * @returns {string | null} what to tell the person, when something changed that is not obvious
   */
  end() {
    const [cwd, ...variables] = this.#take().split('\0');
    if (variables.at(-2) !== 'end') return null;
    const env = difference(this.base, variables);
    const fits = JSON.stringify(env).length <= MAX_KEPT;
    const moved = cwd !== this.cwd;
    const changed = fits && !isDeepStrictEqual(env, this.env);
    this.cwd = cwd;
    if (changed) this.env = env;
    if (moved || changed) this.keep({ cwd, env: this.env });
    if (!fits) return 'What it exported is too large to be kept.';
    return moved ? `Now in ${cwd}.` : null;
  }

  #take() {
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
 * How an environment differs from the one that was given.
 * @param {Record<string, string | undefined>} base
 * @param {string[]} variables `NAME=value` each
 */
function difference(base, variables) {
  const isKept = (name) => NAME.test(name) && !PASSING.has(name);
  const pairs = variables.map((variable) => variable.split(/=([^]*)/, 2)).filter(([name]) => isKept(name));
  const found = new Map(pairs.filter(([, value]) => value !== undefined));
  const changed = [...found].filter(([name, value]) => base[name] !== value);
  const unset = Object.keys(base).filter((name) => isKept(name) && base[name] !== undefined && !found.has(name));
  return Object.fromEntries([...changed, ...unset.map((name) => [name, null])]);
}
