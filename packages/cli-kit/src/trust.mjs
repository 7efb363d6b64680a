/**
 * The folders that the user trusts. An agent runs the hooks and MCP servers of its folder as soon as a session starts, before any
 * prompt.
 *
 * A trusted folder includes its subfolders in the same git repository, and the same folders of the repository's worktrees. Outside of a
 * repository, only the folder itself is trusted.
 */

import { appendFileSync, existsSync, mkdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import { PathError } from './paths.mjs';
import { readSessionStates } from './state.mjs';

/** The list in the folder of the state: one JSON string per line. The user may delete lines. */
const FILE_NAME = 'trusted-folders.jsonl';

export const TRUST_MEANING = "Agents run this folder's hooks and MCP servers as soon as a session starts.";

export class TrustedFolders {
  #file;

  /** @param {string} home the folder of the state */
  constructor(home) {
    this.home = home;
    this.#file = path.join(home, FILE_NAME);
  }

  /** @param {string} directory resolved */
  includes(directory) {
    const trusted = this.#read();
    const { folder, base } = locate(directory);
    for (let at = folder; ; at = path.dirname(at)) {
      if (trusted.has(at)) return true;
      if (at === base) return false;
    }
  }

  /** @param {string} directory resolved */
  add(directory) {
    if (!this.includes(directory)) this.#append([directory]);
  }

  /**
   * Adds a folder if a client trusts it.
   * @param {string} directory resolved
   * @param {unknown} trust the field of the client's request
   * @throws {PathError} with the code `untrusted_directory` if the folder is not trusted
   */
  require(directory, trust) {
    if (trust === true) return this.add(directory);
    if (this.includes(directory)) return;
    const hint = 'To trust it, repeat the request with "trust": true, or start the agent in it at a terminal.';
    throw new PathError(`${directory} is not trusted on this machine. ${TRUST_MEANING} ${hint}`, 'untrusted_directory');
  }

  /** Returns the paths of the trusted folders. The first call trusts the folders of the sessions that an earlier version served. */
  #read() {
    if (!existsSync(this.#file)) {
      mkdirSync(this.home, { recursive: true, mode: 0o700 });
      this.#append(readSessionStates(this.home).flatMap(({ tag }) => directoryOf(tag)));
    }
    const lines = readFileSync(this.#file, 'utf8').split('\n');
    return new Set(lines.map(parseLine));
  }

  /** Appends lines in one write, so that processes which add folders at the same time lose none. */
  #append(directories) {
    const lines = directories.map((directory) => `${JSON.stringify(locate(directory).folder)}\n`);
    appendFileSync(this.#file, lines.join(''), { mode: 0o600 });
  }
}

/** @returns {string | null} null for an invalid line */
function parseLine(line) {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}

/**
 * Returns the folder of the repository's main checkout that corresponds to a directory, and the main checkout (`base`). Outside of a
 * repository, both are the directory. Does not ask git, because the configuration of an untrusted repository can make git report
 * another folder.
 */
function locate(directory) {
  for (let top = directory; ; top = path.dirname(top)) {
    if (existsSync(path.join(top, '.git'))) {
      const base = findMainCheckout(top);
      return { folder: path.join(base, path.relative(top, directory)), base };
    }
    if (top === path.dirname(top)) return { folder: directory, base: directory };
  }
}

/**
 * Returns the main checkout of a linked worktree, or else the checkout itself. The repository must list the worktree, because any folder
 * can have a file `.git` that names a trusted repository.
 */
function findMainCheckout(top) {
  const link = path.join(top, '.git');
  try {
    const [, target] = /^gitdir: ([^\n]+)/.exec(readFileSync(link, 'utf8'));
    const gitDir = realpathSync(path.resolve(top, target));
    const listed = readFileSync(path.join(gitDir, 'gitdir'), 'utf8').replace(/\n$/, '');
    const [worktrees, common] = [path.dirname(gitDir), path.dirname(path.dirname(gitDir))];
    if (path.basename(worktrees) !== 'worktrees' || realpathSync(path.resolve(gitDir, listed)) !== link) return top;
    return path.basename(common) === '.git' ? path.dirname(common) : common;
  } catch {
    // `.git` is a folder, or the file of a submodule or of a removed worktree.
    return top;
  }
}

/** Returns the directory with which a session's tag begins, before `#`, in a list; an empty list if there is no such directory. */
function directoryOf(tag = '') {
  for (let end = tag.length; path.isAbsolute(tag) && end > 0; end = tag.lastIndexOf('#', end - 1)) {
    const directory = tag.slice(0, end);
    if (statSync(directory, { throwIfNoEntry: false })?.isDirectory()) return [realpathSync(directory)];
  }
  return [];
}
