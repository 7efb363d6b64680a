/**
 * The slash commands and skills that the directory defines:
 * - `.agents/commands/NAME.md`: a command. Its first fenced `sh` block is the script.
 * - `.agents/skills/NAME/SKILL.md`: a skill, with a name and a description in the front matter
 */

import { readFile, readdir, stat } from 'node:fs/promises';
import { resolveInside } from 'session-gateway-cli-kit/paths';

/** Commands that the agent implements. */
export const BUILT_IN_COMMANDS = ['help', 'todo'];

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
const MAX_BYTES = 256 * 1024;

export class Catalog {
  /** @param {string} root the session's directory, resolved */
  constructor(root) {
    this.root = root;
  }

  /** Returns the names of all slash commands, the built-in commands first. */
  async commands() {
    const ownCommands = (await this.#list('.agents/commands'))
      .filter((file) => file.endsWith('.md'))
      .map((file) => file.slice(0, -3))
      .filter((name) => NAME.test(name) && !BUILT_IN_COMMANDS.includes(name));
    return [...BUILT_IN_COMMANDS, ...ownCommands];
  }

  /** Returns the shell script of a command. Returns null if there is no such command, or its file has no `sh` block. */
  async script(name) {
    if (!NAME.test(name)) return null;
    const page = await this.#read(`.agents/commands/${name}.md`);
    return page === null ? null : (/^```(?:sh|bash|shell)[^\n]*\n([^]*?)^```/m.exec(page)?.[1]?.trimEnd() ?? null);
  }

  /** @returns {Promise<{name: string, description: string}[]>} */
  async skills() {
    const skills = [];
    for (const folder of await this.#list('.agents/skills')) {
      const page = await this.#read(`.agents/skills/${folder}/SKILL.md`);
      if (page === null) continue;
      const fields = parseFrontMatter(page);
      skills.push({ name: fields.name || folder, description: fields.description || '' });
    }
    return skills;
  }

  async #list(folder) {
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

/** Parses the `key: value` lines between the two `---` lines at the top of a page. */
function parseFrontMatter(page) {
  const block = /^---\r?\n([^]*?)\r?\n---/.exec(page)?.[1] ?? '';
  const fields = Object.create(null);
  for (const line of block.split(/\r?\n/)) {
    const match = /^([A-Za-z_-]+):\s*(.*?)\s*$/.exec(line);
    if (match) fields[match[1]] = match[2].replace(/^(["'])(.*)\1$/, '$2');
  }
  return fields;
}
