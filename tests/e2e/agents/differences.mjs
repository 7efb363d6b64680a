/**
 * What an agent does differently in the story, with the reason (docs/AGENTS.md).
 * @typedef {object} Differences
 * @property {string} [mode] the label of the permission mode that the story selects at its start
 * @property {boolean} [steers] whether a message that is sent now reaches the agent during its turn
 * @property {'plan' | 'call'} [todos] whether the agent's todos are a plan or a tool call
 */

/** @type {Record<string, Differences>} */
const DIFFERENCES = {
  // In its default mode, Codex edits files of the directory without asking.
  codex: { mode: 'Read-only', steers: true, todos: 'plan' },
  claude: { steers: true, todos: 'plan' },
  opencode: { todos: 'call' },
};

/** @param {string} name of the agent @returns {Differences} */
export const differencesOf = (name) => DIFFERENCES[name] ?? {};
