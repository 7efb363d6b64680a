/** The sessions that the agents of a machine know: the RPC methods that list and import these sessions. */

import { isDeepStrictEqual } from 'node:util';
import { HubError } from 'session-gateway-cli-kit/hub-client';
import { findServedDirectory } from 'session-gateway-cli-kit/paths';
import { AcpSession } from './acp-session.mjs';
import { resolveAgentChoice, resolveLaunch } from './launch.mjs';
import { isSessionId } from './session-id.mjs';
import { titleToSummary } from './translate/translator.mjs';
import { asList, asObject, isText } from './translate/values.mjs';

/** Limit on the sessions of one answer. */
const PAGE_SIZE = 50;
/**
 * Limit on the pages of the agent's list that are read for one answer. An answer may need several pages, because it leaves out the sessions
 * outside of the served directories.
 */
const MAX_AGENT_PAGES = 20;
/** Limit on the sessions of one page of the agent. */
const MAX_AGENT_PAGE_SIZE = 10_000;
/** Time limit of an answer, below the hub's limit of 30 s for an RPC. */
const LIST_TIMEOUT_MS = 25_000;
/** Limit on the lists that are read at once, because each read starts an agent. */
const MAX_LISTS_AT_ONCE = 4;
/** If a list is complete only after the time limit, how long the list is kept for the caller's next attempt. */
const KEEP_LIST_MS = 60_000;
const MAX_PATH_CHARS = 4096;
const MAX_CURSOR_CHARS = 4096;

/**
 * @typedef {{id: string, title?: string, directory: string, updatedAt?: number}} AgentSession
 * @typedef {{agent?: string, command?: string[]}} AgentChoice
 */

export class AgentSessions {
  /** The lists that are being read, and the complete lists that are kept for `KEEP_LIST_MS`. @type {Map<string, Promise<any>>} */
  #lists = new Map();
  /** The imports that are being started, by agent and id. @type {Map<string, Promise<object>>} */
  #imports = new Map();

  /**
   * @param {Pick<import('session-gateway-cli-kit/app').ServingOptions, 'program' | 'root' | 'spawner' | 'store' | 'client' | 'log'>
   *   & import('./program.mjs').AgentOptions} options
   */
  constructor(options) {
    this.options = options;
  }

  methods() {
    return {
      listAgentSessions: (params) => this.list(params),
      importAgentSession: (params) => this.import(params),
    };
  }

  /**
   * Lists the sessions of an agent in the served directories: in the order of the agent's pages, and newest first within each page.
   * @param {{agent?: string, directory?: string, cursor?: string}} params `directory`: lists only the sessions of this directory
   * @returns {Promise<{success: true, sessions: (AgentSession & {sessionId?: string})[], nextCursor?: string}>} `sessionId`: the id of
   *   the hub's session that continues the agent's session, if there is one
   */
  async list({ agent, directory, cursor }) {
    const key = JSON.stringify([agent, directory, cursor]);
    if (!this.#lists.has(key) && this.#lists.size >= MAX_LISTS_AT_ONCE)
      throw new Error('This machine lists other sessions now. Try again in a few seconds.');
    const reading = this.#lists.get(key) ?? this.#list({ agent, directory, cursor });
    this.#lists.set(key, reading);
    const forget = () => this.#lists.delete(key);
    let timer;
    const timeout = new Promise((resolve) => {
      timer = setTimeout(resolve, this.options.listTimeoutMs ?? LIST_TIMEOUT_MS, null);
    });
    const list = await Promise.race([reading.finally(() => clearTimeout(timer)), timeout]).catch((error) => {
      forget();
      throw error;
    });
    if (list === null) {
      reading.catch(() => {}).finally(() => setTimeout(forget, KEEP_LIST_MS).unref());
      throw new Error('The agent is still starting. Try again in a few seconds.');
    }
    forget();
    return list;
  }

  async #list({ agent, directory, cursor }) {
    const choice = this.#choose(agent);
    const { sessions, nextCursor } = await this.#read(choice, { directory, ...parseCursor(cursor) });
    const known = this.#knownSessions(choice);
    const withHubIds = await Promise.all(
      sessions.map(async (session) => {
        const sessionId = known.get(session.id)?.sessionId;
        return sessionId !== undefined && (await this.#findAtHub(sessionId)) ? { ...session, sessionId } : session;
      }),
    );
    return { success: true, sessions: withHubIds, ...(nextCursor === undefined ? {} : { nextCursor }) };
  }

  /**
   * Starts a session of the hub with the history of an agent's session. A session that was imported before is resumed.
   * @param {{agent?: string, id?: string, directory?: string, trust?: boolean}} params `trust`: whether the user trusts the directory
   * @returns {Promise<object>} `{success, sessionId?, error?, code?}`
   */
  import({ agent, id, directory, trust }) {
    if (!isSessionId(id)) throw new Error('"id" must be the agent\'s id of a session.');
    const key = JSON.stringify([agent, id]);
    const running = this.#imports.get(key);
    if (running) return running;
    const started = this.#import({ agent, id, directory, trust }).finally(() => this.#imports.delete(key));
    this.#imports.set(key, started);
    return started;
  }

  async #import({ agent, id, directory, trust }) {
    const { spawner, program } = this.options;
    const agentName = agent ?? program.defaultAgent(this.options);
    const { existing, agentId, directory: cwd, tag } = await this.locate({ agent, id, directory });
    if (existing?.active) return { success: true, sessionId: existing.id };
    if (existing) return spawner.spawn({ directory: cwd, agent: agentName, sessionId: existing.id, resumeSessionId: agentId, trust });
    return spawner.spawnWithArgs({ directory: cwd, agent: agentName, args: [`--tag=${tag}`, `--import-session=${id}`], trust });
  }

  /**
   * Finds the hub's session of an agent's session. If there is none, finds the directory in which the agent's session can be imported.
   * @param {{agent?: string, id: string, directory?: string}} session
   * @returns {Promise<{existing?: Record<string, any>, agentId?: string, directory: string, tag: string}>} `existing`: the hub's session;
   *   `agentId`: the agent's id with which the hub's session is resumed; `tag`: of the session to create, if there is none
   */
  async locate({ agent, id, directory }) {
    const choice = this.#choose(agent);
    const tag = importTag(choice, id);
    const known = this.#knownSessions(choice).get(id);
    const existing = known && (await this.#findAtHub(known.sessionId));
    if (existing) return { existing, agentId: known.agentId, directory: existing.metadata.path, tag };
    return { directory: directory ?? (await this.#findDirectory(choice, id)), tag };
  }

  /** @returns {AgentChoice} */
  #choose(agent) {
    if (agent !== undefined && typeof agent !== 'string') throw new Error('"agent" must be a text.');
    return resolveAgentChoice(agent ?? this.options.program.defaultAgent(this.options), this.options, process.env);
  }

  /**
   * Reads the agent's list until a page of sessions is full.
   * @param {AgentChoice} choice
   * @param {{directory?: string, cursor?: string, skip?: number, pageSize?: number}} options `cursor`: the agent's; `skip`: how
   *   many sessions of the agent's page were returned before
   */
  async #read(choice, { directory, cursor, skip = 0, pageSize = PAGE_SIZE }) {
    const { root, log } = this.options;
    const launch = resolveLaunch({ ...choice, npx: this.options.npx, home: this.options.home }, process.env);
    const isServed = this.#makeServedTest(directory);
    /** @type {AgentSession[]} */
    const sessions = [];
    const readPages = async (read) => {
      for (let count = 0, pageCursor = cursor, start = skip; count < MAX_AGENT_PAGES; count += 1, start = 0) {
        const page = asObject(await read(pageCursor));
        const listed = asList(page.sessions).slice(0, MAX_AGENT_PAGE_SIZE).map(toAgentSession).filter(isDefined).sort(newestFirst);
        for (const [index, session] of listed.entries()) {
          if (index < start || !(await isServed(session.directory))) continue;
          if (sessions.length === pageSize) return formatCursor({ cursor: pageCursor, skip: index });
          sessions.push(session);
        }
        pageCursor = isText(page.nextCursor) && page.nextCursor.length <= MAX_CURSOR_CHARS ? page.nextCursor : undefined;
        if (pageCursor === undefined) return undefined;
        if (sessions.length === pageSize) return formatCursor({ cursor: pageCursor, skip: 0 });
      }
      return undefined;
    };
    const result = await AcpSession.list({ launch, cwd: root, env: { ...process.env }, log }, async (read) => ({
      nextCursor: await readPages(read),
    }));
    if (result === null) {
      throw new Error(
        `${launch.title} does not list its sessions. To import one by its id, run in its directory: session-gateway-agent import ID`,
      );
    }
    return { sessions, nextCursor: result.nextCursor };
  }

  /** Finds the directory of an agent's session in the agent's list. */
  async #findDirectory(choice, id) {
    const { sessions } = await this.#read(choice, { pageSize: MAX_AGENT_PAGE_SIZE });
    const found = sessions.find((session) => session.id === id);
    if (!found) throw new Error(`The agent lists no session ${id} in the directories that this machine serves.`);
    return found.directory;
  }

  /**
   * Returns a function that tests whether a directory is served and, if `only` is given, is the directory `only`. Resolves each directory
   * only once.
   */
  #makeServedTest(only) {
    const tests = new Map();
    const test = async (directory) => {
      const { isServed, path } = await findServedDirectory(this.options.spawner.directories, directory);
      if (!isServed || only === undefined) return isServed;
      return path === (await findServedDirectory(this.options.spawner.directories, only)).path;
    };
    return (directory) => {
      if (!tests.has(directory)) tests.set(directory, test(directory));
      return tests.get(directory);
    };
  }

  /**
   * Returns the sessions of an agent that have a state on this machine, by the agent's id of the session.
   * @param {AgentChoice} choice
   */
  #knownSessions({ agent, command }) {
    const ofAgent = this.options.store
      .listSessions()
      .filter(({ saved }) => saved?.agent === agent && isDeepStrictEqual(saved?.command, command) && saved?.sessionId !== undefined);
    return new Map(ofAgent.map((session) => [session.saved.sessionId, session]));
  }

  /** Returns a session of the hub; null if the hub has no such session. */
  async #findAtHub(sessionId) {
    try {
      return await this.options.client.getSession(sessionId);
    } catch (error) {
      if (error instanceof HubError && error.isSessionMissing) return null;
      throw error;
    }
  }
}

/** Returns the tag of the hub's session for an imported session. @param {AgentChoice} choice */
const importTag = ({ agent, command }, id) => `import#${agent ?? command.join(' ')}#${id}`;

/** @returns {AgentSession | undefined} undefined for an invalid entry */
function toAgentSession(listed) {
  const { sessionId, cwd, title, updatedAt } = asObject(listed);
  if (!isSessionId(sessionId) || !isText(cwd) || cwd.length > MAX_PATH_CHARS || !cwd.startsWith('/') || cwd.includes('\0'))
    return undefined;
  const summary = titleToSummary(title);
  const time = isText(updatedAt) ? Date.parse(updatedAt) : Number.NaN;
  return {
    id: sessionId,
    ...(summary === null ? {} : { title: summary }),
    directory: cwd.toWellFormed(),
    ...(Number.isNaN(time) ? {} : { updatedAt: time }),
  };
}

const isDefined = (value) => value !== undefined;

const newestFirst = (a, b) => (b.updatedAt ?? 0) - (a.updatedAt ?? 0);

const formatCursor = (position) => Buffer.from(JSON.stringify(position)).toString('base64url');

function parseCursor(text) {
  if (text === undefined) return {};
  try {
    const { cursor, skip } = JSON.parse(Buffer.from(text, 'base64url').toString());
    if ((cursor === undefined || isText(cursor)) && Number.isInteger(skip) && skip >= 0) return { cursor, skip };
  } catch {
    // Reported below.
  }
  throw new Error('"cursor" is not valid.');
}
