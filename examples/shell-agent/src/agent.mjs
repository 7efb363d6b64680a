/**
 * The agent: a queue of user messages, each of which is a shell command. Commands run one at a time, after the user
 * approved them, and at most once, also over restarts. Their output is sent as messages.
 */

import { randomUUID } from 'node:crypto';
import * as messages from './messages.mjs';
import { decideByMode } from './modes.mjs';
import { BUILT_IN } from './catalog.mjs';
import { startCommand } from './shell.mjs';
import { findUpload } from './uploads.mjs';

/** The tool name in permission requests and tool calls. */
const TOOL = 'Bash';

const HELP = `A message is a shell command. sh runs it in the directory in which the previous command ended.
/todo            show the todos
/todo add TEXT   add a todo
/todo done N     mark todo N as done
/help            this text`;

export class ShellAgent {
  #queue = [];
  #current = null;
  #isProcessing = false;
  #isStopped = false;

  /**
   * @param {{shell: import('./shell-state.mjs').ShellState, uploads: string,
   *   settings: {permissionMode: string, mode: string, autoApprove: boolean},
   *   send: (message: object, localId?: string) => Promise<unknown>, permissions: import('./permissions.mjs').Permissions,
   *   todos: import('./todos.mjs').Todos, catalog: import('./catalog.mjs').Catalog,
   *   onThinking?: (thinking: boolean) => void, onHandled?: (seq: number, wasSkipped: boolean) => void,
   *   onCall?: (call: import('./state.mjs').Call, seq?: number) => void,
   *   echo?: (text: string) => void, log: {warn: (text: string) => void, info: (text: string) => void}}} parts
   *   `send` waits while the outbox is full; `onHandled` runs once per message, after its last effect; `onCall` runs before
   *   a tool call starts; `echo` prints the output of commands typed at the terminal
   */
  constructor({
    shell,
    uploads,
    settings,
    send,
    permissions,
    todos,
    catalog,
    onThinking = () => {},
    onHandled = () => {},
    onCall = () => {},
    echo = () => {},
    log,
  }) {
    Object.assign(this, { shell, uploads, settings, send, permissions, todos, catalog, log });
    Object.assign(this, { onThinking, onHandled, onCall, echo });
    this.thinking = false;
  }

  /**
   * Completes calls that an earlier process of this session started. The hub ignores the messages that it already has.
   * @param {import('./state.mjs').Call[]} calls
   */
  async closeInterrupted(calls) {
    for (const { id, name, input } of calls) {
      const localIds = messages.localIds(id);
      await this.send(messages.toolUse(id, name, input), localIds.use);
      await this.send(messages.toolResult(id, 'The agent was restarted while this command ran.', true), localIds.result);
      await this.send(messages.text('The outcome is unknown. The command is not run again.'), localIds.end);
      await this.send(messages.ready(), localIds.ready);
    }
  }

  /** Queues a message of the history or of a live update. Messages that are not a user's are skipped in order. */
  receive({ seq, content }) {
    const message = messages.userMessage(content);
    this.#enqueue({ seq, ...(message ?? { isSkipped: true }) });
  }

  /** Queues a command typed at the terminal. It runs without a permission request. */
  typeCommand(text) {
    this.#enqueue({ text, attachments: [], isLocal: true });
  }

  /** Continues with the queue, after a setting changed that it may have been waiting for. */
  wake() {
    if (!this.#isProcessing) this.#processQueue();
  }

  /**
   * Aborts the current task and drops the queued messages.
   * @returns {Promise<{aborted: boolean, dropped: number}>} when the task has ended
   */
  async abort() {
    const dropped = this.#queue.filter((item) => !item.isSkipped);
    for (const item of dropped) item.isSkipped = true;
    const current = this.#current;
    if (current) {
      current.isAborted = true;
      current.running?.kill();
      await this.permissions.cancelAll('Aborted');
      await current.ended;
    }
    if (dropped.length > 0) {
      await this.send(messages.text(`Dropped, not run:\n${dropped.map(({ text }) => text).join('\n')}`));
    }
    this.wake();
    return { aborted: current !== null, dropped: dropped.length };
  }

  /** Ends the running command. Queued messages are left for the next process of the session. */
  async stop() {
    this.#isStopped = true;
    const current = this.#current;
    current?.running?.kill();
    if (current?.running) await current.ended;
  }

  #enqueue(item) {
    this.#queue.push(item);
    if (!this.#isProcessing) this.#processQueue();
  }

  async #processQueue() {
    this.#isProcessing = true;
    for (let item = this.#takeNext(); item; item = this.#takeNext()) {
      if (!item.isSkipped) await this.#runTask(item);
      if (!this.#isStopped) this.#markHandled(item);
    }
    this.#isProcessing = false;
  }

  /** Takes the next item off the queue. While the terminal is in control, messages of the web stay queued. */
  #takeNext() {
    if (this.#isStopped) return undefined;
    const at = this.#queue.findIndex((item) => item.isSkipped || item.isLocal || this.settings.mode === 'remote');
    return at < 0 ? undefined : this.#queue.splice(at, 1)[0];
  }

  #markHandled(item) {
    // The handled seq is a high-water mark: it must not pass a message that is still queued for remote mode.
    const isEarlierQueued = this.#queue.some((other) => !other.isSkipped && other.seq !== undefined && other.seq < item.seq);
    if (item.seq !== undefined && !isEarlierQueued) this.onHandled(item.seq, item.isSkipped === true);
  }

  async #runTask(item) {
    let end;
    const ended = new Promise((resolve) => {
      end = resolve;
    });
    this.#current = { item, isAborted: false, running: null, call: null, ended };
    try {
      await this.#handle(item);
    } catch (error) {
      this.log.warn(`cannot handle a message: ${error.message}`);
      if (!this.#isStopped) await this.send(messages.text(`Error: ${error.message}`)).catch(() => {});
    }
    this.#setThinking(false);
    if (!this.#isStopped) {
      const { call } = this.#current;
      const localId = call ? messages.localIds(call.id).ready : undefined;
      await this.send(messages.ready(), localId).catch((error) => this.log.warn(error.message));
    }
    this.#current = null;
    end();
  }

  async #handle(item) {
    const text = item.text.trim();
    if (item.isLocal) await this.send(messages.typedCommand(text));
    const slash = /^\/([A-Za-z0-9][A-Za-z0-9_-]*)(?:\s+([^]*))?$/.exec(text);
    if (slash) return this.#runSlashCommand(item, slash[1], slash[2] ?? '');
    const attachments = await this.#announceAttachments(item.attachments);
    if (text !== '') return this.#runCommand(item, text, [], attachments);
    return item.attachments.length > 0 ? undefined : this.send(messages.text('The message is empty: there is nothing to run.'));
  }

  async #runSlashCommand(item, name, rest) {
    if (name === 'help') {
      const ownCommands = (await this.catalog.commands()).filter((command) => !BUILT_IN.includes(command));
      return this.send(messages.text([HELP, ...ownCommands.map((command) => `/${command}`)].join('\n')));
    }
    if (name === 'todo') {
      const { changed, text } = this.todos.command(rest);
      if (changed) await this.send(messages.toolUse(randomUUID(), 'TodoWrite', { todos: this.todos.items }));
      return this.send(messages.text(text));
    }
    const script = await this.catalog.script(name);
    if (script === null) return this.send(messages.text(`There is no command /${name}. Try /help.`));
    const attachments = await this.#announceAttachments(item.attachments);
    return this.#runCommand(item, script, rest.split(/\s+/).filter(Boolean), attachments);
  }

  async #runCommand(item, command, args, attachments) {
    const input = args.length > 0 ? { command, args } : { command };
    let id = randomUUID();
    if (!item.isLocal) {
      const outcome = await this.#requestPermission(command, input);
      if (this.#isStopped) return;
      if (outcome.status !== 'approved') return this.#reportNotRun(command, input, outcome);
      if (outcome.id) id = outcome.id;
    }
    const current = this.#current;
    if (current.isAborted) return;
    // Recorded before the command starts: it must not run a second time, even if this process ends now.
    const call = { id, name: TOOL, input };
    this.onCall(call, item.seq);
    current.call = call;
    this.#setThinking(true);
    const localIds = messages.localIds(call.id);
    const notice = this.shell.begin();
    if (notice) await this.send(messages.text(notice));
    await this.send(messages.toolUse(call.id, TOOL, input), localIds.use);
    const { rest, hasFailed, ending } = await this.#execute(item, call, { command, args, attachments });
    const change = this.shell.end();
    if (item.isLocal) this.echo(rest);
    await this.send(messages.toolResult(call.id, rest, hasFailed), localIds.result);
    const summary = [current.isAborted && 'Aborted.', `${ending}.`, change].filter(Boolean).join(' ');
    await this.send(messages.text(summary), localIds.end);
  }

  /** Runs a command. Returns the unsent rest of its output and a description of how it ended. */
  async #execute(item, call, { command, args, attachments }) {
    const current = this.#current;
    try {
      current.running = startCommand({
        command,
        args,
        cwd: this.shell.cwd,
        env: { ...this.shell.environment, ATTACHMENTS: attachments.join('\n') },
        stateFile: this.shell.file,
        onOutput: async (piece) => {
          if (item.isLocal) this.echo(piece);
          await this.send(messages.toolResult(call.id, piece));
        },
      });
      if (current.isAborted || this.#isStopped) current.running.kill();
      const { code, signal, rest } = await current.running.done;
      return { rest, hasFailed: code !== 0, ending: signal ? `Ended by ${signal}` : `Exit code ${code}` };
    } catch (error) {
      return { rest: error.message, hasFailed: true, ending: 'The command could not be started' };
    }
  }

  /** Reports why a command was not run: after a permission request, as a failed tool call with the request's id. */
  async #reportNotRun(command, input, { id, status, decision, reason }) {
    if (id === undefined) return this.send(messages.text(`Not run in ${this.settings.permissionMode} mode: ${command}`));
    const denied = decision === 'abort' ? 'Denied and aborted.' : 'Denied.';
    const why = `${status === 'denied' ? denied : 'Canceled.'}${reason ? `\nReason: ${reason}` : ''}`;
    const localIds = messages.localIds(id);
    await this.send(messages.toolUse(id, TOOL, input), localIds.use);
    await this.send(messages.toolResult(id, why, true), localIds.result);
  }

  /** @returns {Promise<import('./permissions.mjs').Outcome | {status: 'never'}>} `never`: the mode forbids commands */
  async #requestPermission(command, input) {
    const { permissionMode, autoApprove } = this.settings;
    const decision = decideByMode(permissionMode, command, this.shell.isUnmodified);
    if (decision === 'never') return { status: 'never' };
    if (decision === 'run' || autoApprove || this.permissions.isAllowed(TOOL)) return { status: 'approved' };
    return this.permissions.ask(TOOL, input, permissionMode);
  }

  /** Sends a list of the attachments, and returns the paths of those that are uploads of this session. */
  async #announceAttachments(attachments) {
    if (attachments.length === 0) return [];
    const found = await Promise.all(attachments.map(({ path }) => findUpload(this.uploads, path)));
    const lines = found.map((file, i) => {
      const name = attachments[i].filename ?? 'file';
      return file ? `- ${name} (${file.size} bytes): ${file.path}` : `- ${name}: ignored (not an upload of this session)`;
    });
    await this.send(messages.text(`Attachments ($ATTACHMENTS has their paths):\n${lines.join('\n')}`));
    return found.filter(Boolean).map((file) => file.path);
  }

  #setThinking(thinking) {
    if (this.thinking === thinking) return;
    this.thinking = thinking;
    this.onThinking(thinking);
  }
}
