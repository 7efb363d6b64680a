/**
 * The directory's own slash commands and skills: `.agents/commands/NAME.md`, whose first fenced `sh` block is the command,
 * and `.agents/skills/NAME/SKILL.md`, with a name and a description in its front matter.
 */

import { readFile, readdir, stat } from 'node:fs/promises';
import { resolveInside } from './paths.mjs';

/** Commands that the agent itself knows. */
export const BUILT_IN = ['help', 'todo'];

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
const MAX_BYTES = 256 * 1024;

export class Catalog {
  /** @param {string} root the session's directory, resolved */
  constructor(root) {
    this.root = root;
  }

  /** Names of all slash commands, the built-in ones first. */
  async commands() {
    const own = (await this.#names('.agents/commands'))
      .filter((file) => file.endsWith('.md'))
      .map((file) => file.slice(0, -3))
      .filter((name) => NAME.test(name) && !BUILT_IN.includes(name));
    return [...BUILT_IN, ...own];
  }

  /** The shell text of a command, or null when there is no such command or no `sh` block in it. */
  async script(name) {
    if (!NAME.test(name)) return null;
    const page = await this.#read(`.agents/commands/${name}.md`);
    return page === null ? null : (/^```(?:sh|bash|shell)[^\n]*\n([^]*?)^```/m.exec(page)?.[1]?.trimEnd() ?? null);
  }

  /** @returns {Promise<{name: string, description: string}[]>} */
  async skills() {
    const skills = [];
    for (const folder of await this.#names('.agents/skills')) {
      const page = await this.#read(`.agents/skills/${folder}/SKILL.md`);
      if (page === null) continue;
      const fields = frontMatter(page);
      skills.push({ name: fields.name || folder, description: fields.description || '' });
    }
    return skills;
  }

  async #names(folder) {
    try {
      return (await readdir(await resolveInside(this.root, folder))).sort();
    } catch {
      return [];
    }
  }

  async #read(file) {
    try {
      const path = await resolveInside(this.root, file);
      const info = await stat(path);
      return info.isFile() && info.size <= MAX_BYTES ? await readFile(path, 'utf8') : null;
    } catch {
      return null;
    }
  }
}

/** The `key: value` lines between the two `---` lines at the top of a page. */
function frontMatter(page) {
  const block = /^---\r?\n([^]*?)\r?\n---/.exec(page)?.[1] ?? '';
  const fields = Object.create(null);
  for (const line of block.split(/\r?\n/)) {
    const match = /^([A-Za-z_-]+):\s*(.*?)\s*$/.exec(line);
    if (match) fields[match[1]] = match[2].replace(/^(["'])(.*)\1$/, '$2');
  }
  return fields;
}
