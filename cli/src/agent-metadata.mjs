/** Publishes the commands, the title and the usage that an agent reports, as metadata of the session. */

import { titleToSummary } from './translate/translator.mjs';
import { firstLine } from './translate/values.mjs';

/** Limit on a title that is made from the first prompt. */
const MAX_TITLE_CHARS = 100;

export class AgentMetadata {
  #publish;
  #summary = '';
  /** The usage that is not published yet. @type {{used: number, size?: number, cost?: object} | null} */
  #usage = null;
  /** The agent's slash commands. */
  commands = [];

  /**
   * @param {(fields: object) => void} publish publishes fields of the metadata
   * @param {{summary?: {text?: string}} | null} [stored] the session's metadata at the start
   */
  constructor(publish, stored) {
    this.#publish = publish;
    this.#summary = stored?.summary?.text ?? '';
  }

  setCommands(commands) {
    this.commands = commands;
    this.#publish({ slashCommands: commands.map(({ name }) => name) });
  }

  setSummary(text) {
    this.#summary = text;
    this.#publish({ summary: { text, updatedAt: Date.now() } });
  }

  /** Uses a prompt as the title of a session without a title. A title that the agent reports later replaces this title. */
  suggestTitle(prompt) {
    const title = firstLine(prompt ?? '', MAX_TITLE_CHARS);
    if (this.#summary === '' && title !== '') this.setSummary(title);
  }

  /** Reads the title from the agent's list of sessions, for an agent that does not report titles. */
  async readTitle(session) {
    const summary = titleToSummary(await session.readTitle());
    if (summary !== null && summary !== this.#summary) this.setSummary(summary);
  }

  /** Keeps the usage until `publishUsage`, because agents report their usage several times in a turn. */
  setUsage(usage) {
    this.#usage = usage;
  }

  publishUsage() {
    if (this.#usage) this.#publish({ usage: this.#usage });
    this.#usage = null;
  }
}
