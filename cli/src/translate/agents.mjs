/**
 * How the messages of the known agents deviate from the protocol, as observed. An agent without an entry follows it.
 *
 * @typedef {object} Quirks
 * @property {boolean} [isInputCompleteAtPending] a call that is still pending already has its whole input; otherwise the
 *   input of a pending call may be partial
 * @property {boolean} [hasNameInId] the part of a call's id before `__` is the tool's name
 * @property {boolean} [isTitleCommand] the title of a call that runs a command is the command
 * @property {boolean} [reportsModeAsText] a change of the mode arrives as the text `[MODE_UPDATE] MODE`
 * @property {boolean} [reportsInfoAsText] notes of the client arrive as texts that begin with `Info: `
 * @property {Record<string, string>} [toolNames] replacements of tool names that the agent sends only sometimes
 */

/** @type {Record<string, Quirks>} */
const QUIRKS = {
  claude: { isInputCompleteAtPending: true },
  // It names the shell only in some updates of a call.
  codex: { toolNames: { exec_command: 'Bash' } },
  copilot: { isInputCompleteAtPending: true, reportsInfoAsText: true },
  gemini: { hasNameInId: true, isTitleCommand: true, reportsModeAsText: true },
};

/**
 * @param {string} agent
 * @returns {Quirks}
 */
export const quirksOf = (agent) => (Object.hasOwn(QUIRKS, agent) ? QUIRKS[agent] : {});
