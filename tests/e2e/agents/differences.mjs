/**
 * What an agent does differently in the story, with the reason (docs/AGENTS.md).
 * @typedef {object} Differences
 * @property {string} [mode] the label of the permission mode that the story selects at its start
 */

/** @type {Record<string, Differences>} */
const DIFFERENCES = {
  // In its default mode, Codex edits files of the directory without asking.
  codex: { mode: 'Read-only' },
};

/** @param {string} name of the agent @returns {Differences} */
export const differencesOf = (name) => DIFFERENCES[name] ?? {};
