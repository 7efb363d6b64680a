/**
 * The use of the agent's session outside of the hub: the import of its history, and its use in the agent's own terminal program. While the
 * terminal program may run, the agent must not run.
 */

import { hostname } from 'node:os';
import { History } from './history.mjs';
import { shellCommand, terminalArgv } from './terminal-command.mjs';
import { TerminalUse } from './terminal-use.mjs';

/**
 * @typedef {object} HandoverDependencies
 * @property {import('session-gateway-cli-kit/state').SessionState} state
 * @property {(fields: object) => void} save changes fields of `state.saved`
 * @property {(fields: object) => void} publish changes fields of the session's metadata
 * @property {(timeoutMs: number) => Promise<boolean>} flush waits until every message is stored
 * @property {import('session-gateway-cli-kit/session').Settings} settings
 * @property {(mode: 'local' | 'remote') => void} switchTo hands control to the terminal or to the web
 * @property {() => boolean} isStopped
 * @property {() => Promise<unknown> | null} whenIdle resolves at the end of the current turn; null if no turn runs
 * @property {() => Promise<import('./acp-session.mjs').AcpSession>} open starts the agent, or returns its open session
 * @property {(session: import('./acp-session.mjs').AcpSession) => Promise<void>} close ends the agent
 * @property {() => Promise<void>} untilLoadable waits until the agent can load its session
 * @property {() => import('./history.mjs').LoadOptions} loadOptions with which the agent loads the session
 * @property {(records: import('./translate/records.mjs').Record[]) => Promise<unknown>} send
 * @property {import('./agent-metadata.mjs').AgentMetadata} metadata
 * @property {(error: Error) => void} reportFailedStart
 * @property {{debug: (text: string) => void}} log
 */

export class Handover {
  #dependencies;
  #history;
  #terminal;
  /** Whether the terminal program may run, so that the agent must not. */
  #isReleased = false;

  /** @param {HandoverDependencies} dependencies */
  constructor(dependencies) {
    this.#dependencies = dependencies;
    this.#history = new History(dependencies);
    const { state, save, log, whenIdle, switchTo } = dependencies;
    this.#terminal = new TerminalUse({
      ...{ state, save, log, whenIdle, switchTo },
      release: () => this.#release(),
      takeBack: () => this.#takeBack(),
    });
  }

  get #saved() {
    return this.#dependencies.state.saved ?? {};
  }

  /** Resolves when the agent replays the first message of its history. */
  get replayStarted() {
    return this.#history.started;
  }

  /** Whether the agent must load its session when it starts, so that the history is stored. */
  get mustReplay() {
    return this.#history.pendingReplay !== undefined;
  }

  /** Why the web cannot take control; null if it can. @returns {string | null} */
  get webRefusal() {
    return this.#terminal.isInUse ? `The session is in use in a terminal on ${hostname()}. End the program there.` : null;
  }

  /** Why the agent must not run; null if it can. @returns {string | null} */
  get agentRefusal() {
    return this.#isReleased ? this.webRefusal : null;
  }

  /**
   * To be called before the first start of the agent.
   * @param {string | undefined} importedId the agent's id of the session to import
   * @returns {boolean} whether the session is in use in a terminal. If it is, the agent starts when the terminal program has ended
   */
  start(importedId) {
    const { save, publish, settings, loadOptions } = this.#dependencies;
    if (importedId !== undefined && this.#saved.sessionId === undefined) save({ sessionId: importedId, history: 'import' });
    this.#terminal.listen();
    this.#isReleased = this.#saved.terminal !== undefined;
    const program = this.#isReleased ? loadOptions().launch.entry?.terminal.command : undefined;
    publish({ terminalProgram: program, importedMessages: undefined });
    if (!this.#isReleased) return false;
    settings.mode = 'local';
    this.#terminal.resume();
    return true;
  }

  stop() {
    this.#terminal.close();
  }

  /** Publishes the command that continues the session in the terminal program. A session without a prompt cannot be continued. */
  publishCommand() {
    const { publish, loadOptions } = this.#dependencies;
    const { sessionId, hasPrompt = true } = this.#saved;
    const { launch, cwd } = loadOptions();
    const argv = hasPrompt ? terminalArgv(launch, sessionId) : null;
    publish({ terminalCommand: argv ? shellCommand(cwd, argv) : undefined });
  }

  /** To be called before the agent loads its session. */
  beginReplay() {
    this.#history.begin(this.#dependencies.loadOptions());
  }

  /** @returns {import('./translate/records.mjs').Record[]} the records to send */
  onReplayedUpdate(update) {
    return this.#history.onUpdate(update);
  }

  /** Stores the rest of the history that the agent has replayed, and the title of the session. */
  async endReplay(session) {
    const { send, metadata, log } = this.#dependencies;
    await send(this.#history.end());
    const { firstText } = await this.#history.complete();
    if (session.canList) await metadata.readTitle(session).catch((error) => log.debug(error.message));
    metadata.suggestTitle(firstText);
  }

  /** Ends the agent, so that the terminal program can continue the session. */
  async #release() {
    const { open, close, untilLoadable, publish, loadOptions } = this.#dependencies;
    const session = await open();
    const { launch, cwd } = loadOptions();
    const argv = terminalArgv(launch, session.id);
    if (!argv) throw new Error(`The terminal program of ${launch.title} is unknown.`);
    if (!session.canLoad) throw new Error(`${launch.title} cannot load what is said in its terminal program.`);
    if (this.#saved.hasPrompt === false) throw new Error('The session has no messages yet. Send one first.');
    await close(session);
    await untilLoadable();
    await this.#history.recordKnownTurns(loadOptions());
    this.#isReleased = true;
    publish({ terminalProgram: argv[0] });
    return { cwd, argv };
  }

  /** Starts the agent, which stores what was said in the terminal program. */
  async #takeBack() {
    const { publish, open, reportFailedStart } = this.#dependencies;
    this.#isReleased = false;
    publish({ terminalProgram: undefined });
    try {
      await open();
    } catch (error) {
      reportFailedStart(error);
      throw error;
    }
  }
}
