/**
 * The observed deviations of the known agents from the Agent Client Protocol. An agent without an entry follows the protocol.
 *
 * @typedef {object} Quirks
 * @property {boolean} [hasInputWhilePending] the input of a `pending` call is complete; without this quirk, the input may be partial
 * @property {boolean} [hasNameInId] the part of a call's id before `__` is the tool's name
 * @property {boolean} [describesRunningCalls] the content of a call that begins as `in_progress` describes the call
 * @property {boolean} [usesCommandAsTitle] the title of a call that runs a command is the command itself; in a replay, the title is the name of the tool
 * @property {boolean} [reportsModeAsText] a change of the mode arrives as the text `[MODE_UPDATE] MODE`
 * @property {boolean} [reportsInfoAsText] notes of the agent's program arrive as texts with the prefix `Info: `
 * @property {RegExp} [hiddenReplay] matches texts that the agent itself adds to a replay
 * @property {boolean} [hasStableMessageIds] each replay of a session has the same ids of the user's messages
 * @property {Record<string, string>} [shownToolNames] by tool name of the agent: the name to show instead
 */

/** @type {Record<string, Quirks>} */
const QUIRKS = {
  claude: { hasInputWhilePending: true, hasStableMessageIds: true },
  // Codex sends the name of its shell tool, `exec_command`, only in some updates of a call. A command without a tool name is
  // shown as `Bash`, so `exec_command` is shown as `Bash` too.
  codex: { shownToolNames: { exec_command: 'Bash' }, hasStableMessageIds: true, hiddenReplay: /^Config warning: / },
  copilot: { hasInputWhilePending: true, reportsInfoAsText: true },
  gemini: {
    hasNameInId: true,
    describesRunningCalls: true,
    usesCommandAsTitle: true,
    reportsModeAsText: true,
    hiddenReplay: /^(<session_context>|\[Function Response: )/,
  },
  // opencode sends no name for the call of a sub-agent, only the kind `think`.
  opencode: { hasStableMessageIds: true, shownToolNames: { Think: 'Agent' } },
  // Qwen Code adds this text to a replay where the model has answered without text.
  qwen: { hiddenReplay: /^\(empty content\)$/ },
};

/**
 * @param {string} agent
 * @returns {Quirks}
 */
export const quirksOf = (agent) => (Object.hasOwn(QUIRKS, agent) ? QUIRKS[agent] : {});
