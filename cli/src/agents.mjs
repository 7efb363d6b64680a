/** The known agents: start, sign-in and permission modes of each agent. */

import { randomBytes } from 'node:crypto';
import { copilotLog, geminiLog, qwenLog } from './failure-log.mjs';
import { findStartMinute, removeEmptyRecords } from './gemini-records.mjs';
import { OpencodeServer } from './opencode-server.mjs';
import { RETRY_MESSAGES } from './translate/model-retries.mjs';

/** Copilot's ids of modes are URLs. */
const COPILOT_MODE = 'https://agentclientprotocol.com/protocol/session-modes#';

/**
 * @typedef {object} Source what tells the bridge more than the protocol: a server that the agent runs, or a file that it writes
 * @property {string[]} [args] arguments with which the agent must be started
 * @property {Record<string, string>} [env] variables with which it must be started
 * @property {OpencodeServer['follow']} follow handles the reports until the process ends. Resolves when no report of the next prompt is missed
 * @property {() => Promise<unknown>} [close] called after the end of the process
 */

/**
 * @typedef {object} AgentEntry
 * @property {string} title the product's name
 * @property {string} flavor to report to the hub
 * @property {string} package the npm package, with the version that was tested
 * @property {string} command the package's program
 * @property {string[]} args of the program
 * @property {number} [adapterMegabytes] size of the installed package, for an agent whose own program (`terminal`) does not speak the
 *   protocol: the package is an adapter, which also contains the agent
 * @property {Record<string, string>} [env] variables to set, unless the user has set them
 * @property {string[]} [passwordVariables] variables with the password of a server that the agent runs. Each process gets a random password,
 *   unless the user has set one
 * @property {(env: Record<string, string>) => Promise<Source>} [openSource] called before each start, for an agent that does not report its
 *   sub-agents or failed requests to the model by the protocol
 * @property {{command: string, args: (sessionId: string) => string[], package: string}} terminal the agent's own terminal program, the
 *   arguments with which it continues a session, and the npm package with the version that was tried
 * @property {object} [clientCapabilities] capabilities of the client that only this agent needs
 * @property {string} signIn what to do when the agent is not signed in
 * @property {(env: Record<string, string>) => string | undefined} [authMethod] returns the sign-in method whose key the environment
 *   contains. Some agents need a sign-in in each process
 * @property {(env: Record<string, string>, uid: number | undefined) => object | undefined} [sessionMeta] `_meta` of the requests
 *   that open a session; `uid`: the user of this process
 * @property {Record<string, string>} modes from the hub's permission modes to the agent's
 * @property {Record<string, string>} [models] from the hub's model modes to the agent's
 * @property {string} [initialMode] the mode to set after each start, for an agent whose own initial mode never asks the user
 * @property {boolean} [hasTitleInList] whether the agent reports the title of a session only in the answer to `session/list`
 * @property {boolean} [hidesUnknownSession] whether the error for a session that the agent does not have is the error for any fault, so that
 *   only the agent's list of sessions shows that the agent does not have it
 * @property {boolean} [needsInlineFiles] whether the text of a prompt must contain the attached files, because the agent
 *   drops linked files, or drops the pictures of a prompt that links files
 * @property {(env: Record<string, string>, sessionId: string) => Promise<number>} [findStartMinute] returns the minute in which a session was
 *   started, in Unix milliseconds. For an agent whose file names contain the minute, and which loses a session that is started and loaded
 *   in the same minute
 * @property {(env: Record<string, string>) => Promise<void>} [repairRecords] prevents the agent from deleting sessions. To be called
 *   with the agent's environment before each start, and after a session was loaded
 * @property {(messageId: string) => object} [forkMeta] `_meta` of the request that forks a session after a message of the agent.
 *   Without it, the agent can fork a session only at its end
 * @property {boolean} [forkKeepsDirectory] whether a fork works in the directory of its original, whichever directory the request has
 * @property {string[]} [configFiles] the names of visible files that hold the agent's permissions, commands or hooks, also those of its
 *   plugins and extensions. Hidden files need no entry
 * @property {import('session-gateway-cli-kit/shell-changes').ShellChange} [keptByShell] what the shell of a command keeps for the next
 *   command; by default everything
 * @property {string[]} [approvedByBridge] permission modes in which the bridge approves every request, because the agent
 *   has no such mode
 */

/** The point of a fork, as the adapters of Claude Code and Codex read it. */
const forkMeta = (messageId) => ({ jetbrains: { air: { fork: { version: 1, messageId } } } });

/** @type {Record<string, AgentEntry>} */
export const AGENTS = {
  claude: {
    title: 'Claude Code',
    flavor: 'alpha',
    package: '@agentclientprotocol/claude-agent-acp@0.101.0',
    command: 'claude-agent-acp',
    args: [],
    adapterMegabytes: 400,
    terminal: { command: 'claude', args: (id) => ['--resume', id], package: '@anthropic-ai/claude-code@2.1.318' },
    signIn: 'Run `claude` in a terminal and sign in with /login, or set ANTHROPIC_API_KEY.',
    modes: { default: 'default', acceptEdits: 'acceptEdits', plan: 'plan', bypassPermissions: 'bypassPermissions' },
    models: { model_fast: 'haiku', model_strong: 'opus' },
    // Since version 0.101 of the adapter, Claude Code starts in the mode `auto`, in which a model approves requests.
    initialMode: 'default',
    sessionMeta: (env, uid) => {
      // For root, Claude Code does not start with the permission to skip requests, unless IS_SANDBOX is 1. The adapter gives this
      // permission for any value of IS_SANDBOX.
      const options = uid === 0 && env.IS_SANDBOX !== '1' ? { options: { allowDangerouslySkipPermissions: false } } : {};
      return { claudeCode: { ...options, emitRawSDKMessages: RETRY_MESSAGES } };
    },
    forkMeta,
    configFiles: ['mcp.json', 'hooks.json', 'monitors.json'],
    keptByShell: 'directory',
    approvedByBridge: ['bypassPermissions'],
  },
  codex: {
    title: 'Codex',
    flavor: 'beta',
    package: '@agentclientprotocol/codex-acp@2.6.0',
    command: 'codex-acp',
    args: [],
    adapterMegabytes: 475,
    // Without --no-daemon, a background server of Codex keeps the session after the program has ended, and refuses it to the bridge.
    terminal: { command: 'codex', args: (id) => ['resume', '--no-daemon', id], package: '@openai/codex@0.166.0' },
    signIn: 'Run `codex login` in a terminal, or set OPENAI_API_KEY.',
    // Without this field, Codex sends nothing of its sub-agents. Claude Code would send its sub-agents in this form, too.
    clientCapabilities: { subagents: {} },
    modes: { default: 'workspace-write', 'read-only': 'read-only', 'safe-yolo': 'agent', yolo: 'agent-full-access' },
    forkMeta,
    keptByShell: 'nothing',
  },
  copilot: {
    title: 'Copilot CLI',
    flavor: 'gamma',
    package: '@github/copilot@1.0.102',
    command: 'copilot',
    args: ['--acp'],
    env: { COPILOT_AUTO_UPDATE: 'false' },
    terminal: { command: 'copilot', args: (id) => [`--resume=${id}`], package: '@github/copilot@1.0.102' },
    signIn: 'Run `copilot` in a terminal and sign in with /login.',
    modes: { default: `${COPILOT_MODE}agent`, plan: `${COPILOT_MODE}plan` },
    configFiles: ['mcp-config.json', 'plugin.json', 'hooks.json'],
    approvedByBridge: ['yolo'],
    openSource: copilotLog,
  },
  gemini: {
    title: 'Gemini CLI',
    flavor: 'delta',
    package: '@google/gemini-cli@0.61.0',
    command: 'gemini',
    args: ['--acp'],
    terminal: { command: 'gemini', args: (id) => ['--resume', id], package: '@google/gemini-cli@0.61.0' },
    signIn: 'Run `gemini` in a terminal and sign in, or set GEMINI_API_KEY.',
    authMethod: (env) => (env.GEMINI_API_KEY ? 'gemini-api-key' : undefined),
    modes: { default: 'default', 'read-only': 'plan', 'safe-yolo': 'autoEdit', yolo: 'yolo' },
    // If a prompt links a file, Gemini CLI drops the pictures of the prompt, and asks for permission to read the file.
    needsInlineFiles: true,
    configFiles: ['gemini-extension.json', 'hooks.json'],
    keptByShell: 'nothing',
    openSource: geminiLog,
    findStartMinute,
    repairRecords: removeEmptyRecords,
  },
  opencode: {
    title: 'opencode',
    flavor: 'epsilon',
    package: 'opencode-ai@1.18.33',
    command: 'opencode',
    args: ['acp'],
    terminal: { command: 'opencode', args: (id) => ['--session', id], package: 'opencode-ai@1.18.33' },
    env: {
      // Without this variable, opencode never asks.
      OPENCODE_PERMISSION: '{"bash":"ask","edit":"ask","webfetch":"ask"}',
      OPENCODE_DISABLE_AUTOUPDATE: '1',
    },
    // opencode runs an HTTP server on this computer. Without a password, any program and user of the computer can use the agent.
    passwordVariables: ['OPENCODE_SERVER_PASSWORD'],
    openSource: OpencodeServer.reserve,
    signIn: 'Run `opencode auth login` in a terminal.',
    modes: { default: 'build' },
    hasTitleInList: true,
    hidesUnknownSession: true,
    forkKeepsDirectory: true,
    configFiles: ['opencode.json', 'opencode.jsonc'],
    keptByShell: 'nothing',
    approvedByBridge: ['yolo'],
  },
  qwen: {
    title: 'Qwen Code',
    flavor: 'delta',
    package: '@qwen-code/qwen-code@0.24.4',
    command: 'qwen',
    args: ['--acp'],
    terminal: { command: 'qwen', args: (id) => ['--resume', id], package: '@qwen-code/qwen-code@0.24.4' },
    signIn: 'Run `qwen` in a terminal and sign in, or set OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL.',
    authMethod: (env) => (env.OPENAI_API_KEY ? 'openai' : undefined),
    modes: { default: 'default', 'read-only': 'plan', 'safe-yolo': 'auto-edit', yolo: 'yolo' },
    // Qwen Code starts in a mode in which a model approves requests.
    initialMode: 'default',
    needsInlineFiles: true,
    configFiles: ['qwen-extension.json', 'hooks.json'],
    keptByShell: 'nothing',
    openSource: qwenLog,
  },
};

/** The names of all files that configure an agent: the next agent in a directory may be another one. */
export const CONFIG_FILES = new Set(Object.values(AGENTS).flatMap(({ configFiles = [] }) => configFiles));

/** @param {string | undefined} name @returns {AgentEntry | undefined} */
export const findAgent = (name) => (name !== undefined && Object.hasOwn(AGENTS, name) ? AGENTS[name] : undefined);

/** Returns the programs of which one is enough to run the agent. @param {AgentEntry} entry */
export const programsOf = ({ command, terminal, adapterMegabytes }) => (adapterMegabytes ? [command, terminal.command] : [command]);

/**
 * Returns the environment of an agent's process.
 * @param {AgentEntry | undefined} entry undefined for a command of the user
 * @param {Record<string, string>} env of the user
 * @returns {Record<string, string>}
 */
export function environmentOf(entry, env) {
  const unset = (entry?.passwordVariables ?? []).filter((name) => !env[name]);
  const passwords = unset.map((name) => [name, randomBytes(32).toString('base64url')]);
  return { ...entry?.env, ...env, ...Object.fromEntries(passwords) };
}
