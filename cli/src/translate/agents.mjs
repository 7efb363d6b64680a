/**
 * The observed deviations of the known agents from the Agent Client Protocol. An agent without an entry follows the protocol.
 *
 * @typedef {object} Quirks
 * @property {boolean} [hasInputWhilePending] the input of a `pending` call is complete; without this quirk, the input may be partial
 * @property {boolean} [hasNameInId] the part of a call's id before `__` is the tool's name
 * @property {boolean} [isTitleCommand] the title of a call that runs a command is the command itself
 * @property {boolean} [reportsModeAsText] a change of the mode arrives as the text `[MODE_UPDATE] MODE`
 * @property {boolean} [reportsInfoAsText] notes of the agent's program arrive as texts with the prefix `Info: `
 * @property {Record<string, string>} [toolNames] names to show instead of tool names of the agent
 */

/** @type {Record<string, Quirks>} */
const QUIRKS = {
  claude: { hasInputWhilePending: true },
  // Codex sends the name of its shell tool, `exec_command`, only in some updates of a call. A command without a tool name is
  // shown as `Bash`, so `exec_command` is shown as `Bash` too.
  codex: { toolNames: { exec_command: 'Bash' } },
  copilot: { hasInputWhilePending: true, reportsInfoAsText: true },
  gemini: { hasNameInId: true, isTitleCommand: true, reportsModeAsText: true },
};

/**
 * @param {string} agent
 * @returns {Quirks}
 */
export const quirksOf = (agent) => (Object.hasOwn(QUIRKS, agent) ? QUIRKS[agent] : {});
