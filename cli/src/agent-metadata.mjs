/** Publishes the commands, the title and the usage that an agent reports, as metadata of the session. */

import { titleToSummary } from './translate/translator.mjs';
import { firstLine } from './translate/values.mjs';

/** Limit on a title that is made from the first prompt. */
const MAX_TITLE_CHARS = 100;

export class AgentMetadata {
  #publish;
  /** Published as the metadata field `summary`. */
  #title = '';
  /** The usage that is not published yet. @type {{used: number, size?: number, cost?: object} | null} */
  #usage = null;
  /** @type {import('./translate/records.mjs').Limit[]} */
  #limits = [];
  /** The agent's slash commands. */
  commands = [];

  /**
   * @param {(fields: object) => void} publish publishes fields of the metadata
   * @param {{summary?: {text?: string}} | null} [stored] the session's metadata at the start
   */
  constructor(publish, stored) {
    this.#publish = publish;
    this.#title = stored?.summary?.text ?? '';
  }

  setCommands(commands) {
    this.commands = commands;
    this.#publish({ slashCommands: commands.map(({ name }) => name) });
  }

  setTitle(text) {
    this.#title = text;
    this.#publish({ summary: { text, updatedAt: Date.now() } });
  }

  /** Uses a prompt as the title of a session without a title. A title that the agent reports later replaces this title. */
  suggestTitle(prompt) {
    const title = firstLine(prompt ?? '', MAX_TITLE_CHARS);
    if (this.#title === '' && title !== '') this.setTitle(title);
  }

  /** Reads the title from the agent's list of sessions, for an agent that does not report titles. */
  async readTitle(session) {
    const summary = titleToSummary(await session.readTitle());
    if (summary !== null && summary !== this.#title) this.setTitle(summary);
  }

  /** Keeps the usage until `publishUsage`, because agents report their usage several times in a turn. */
  setUsage(usage) {
    this.#usage = usage;
  }

  /**
   * Publishes how much of the limits of the user's subscription is used. A report may name only some limits; the other limits keep their
   * values.
   * @param {import('./translate/records.mjs').Limit[]} limits
   */
  setLimits(limits) {
    const others = this.#limits.filter(({ id }) => !limits.some((limit) => limit.id === id));
    this.#limits = [...others, ...limits];
    this.#publish({ limits: this.#limits });
  }

  publishUsage() {
    if (this.#usage) this.#publish({ usage: this.#usage });
    this.#usage = null;
  }
}
