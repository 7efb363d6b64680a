/**
 * The agent: a shell. Messages of users are commands; they run one after another, each after a person has approved it,
 * and their output goes back as messages.
 */

import { randomUUID } from 'node:crypto';
import * as records from './records.mjs';
import { verdict } from './modes.mjs';
import { startCommand } from './shell.mjs';
import { ownUpload } from './uploads.mjs';

/** Name under which commands ask for permission. */
const TOOL = 'Bash';

const HELP = `Every message is a shell command, run with sh where the one before it ended.
/todo            show the todos
/todo add TEXT   add one
/todo done N     mark number N as done
/help            this text`;

export class ShellAgent {
  #queue = [];
  #current = null;
  #working = false;
  #stopped = false;
  #idle = [];

  /**
   * @param {{shell: import('./shell-state.mjs').ShellState, uploads: string,
   *   settings: {permissionMode: string, mode: string, autoApprove: boolean},
   *   say: (record: object, localId?: string) => Promise<unknown>, permissions: import('./permissions.mjs').Permissions,
   *   todos: import('./todos.mjs').Todos, catalog: import('./catalog.mjs').Catalog,
   *   onThinking?: (thinking: boolean) => void, onHandled?: (seq: number, minor: boolean) => void,
   *   onCall?: (call: import('./state.mjs').Call, seq?: number) => void,
   *   echo?: (text: string) => void, log: {warn: (text: string) => void, info: (text: string) => void}}} parts
   *   `say` sends a message, under a local id if one is given, and waits when too many are under way; `onHandled` is told
   *   the seq of each message that needs no more work (`minor`: it never needed any), `onCall` each call before it begins;
   *   `echo` shows output of commands typed at the terminal
   */
  constructor({
    shell,
    uploads,
    settings,
    say,
    permissions,
    todos,
    catalog,
    onThinking = () => {},
    onHandled = () => {},
    onCall = () => {},
    echo = () => {},
    log,
  }) {
    Object.assign(this, { shell, uploads, settings, say, permissions, todos, catalog, log });
    Object.assign(this, { onThinking, onHandled, onCall, echo });
    this.thinking = false;
  }

  /**
   * Closes calls that an earlier process of this session began. What it said of them itself stays as it is.
   * @param {import('./state.mjs').Call[]} calls
   */
  async close(calls) {
    for (const { id, name, input } of calls) {
      const as = records.localIds(id);
      await this.say(records.toolUse(id, name, input), as.use);
      await this.say(records.toolResult(id, 'The agent was restarted while this ran.', true), as.result);
      await this.say(records.text('What came of it is not known, and it is not run again.'), as.end);
      await this.say(records.ready(), as.ready);
    }
  }

  /** A message from the session's history or from a live update; what is not a user's message is only noted. */
  receive({ seq, content }) {
    const message = records.userMessage(content);
    this.#add({ seq, ...(message ?? { skip: true }) });
  }

  /** A command typed at the terminal: the person is there, so nothing is asked. */
  type(text) {
    this.#add({ text, attachments: [], local: true });
  }

  /** To be called when a setting changed that the queue may have waited for. */
  wake() {
    if (!this.#working) this.#work();
  }

  /**
   * Aborts the current task, and drops what waits behind it.
   * @returns {Promise<{aborted: boolean, dropped: number}>} when the task has ended
   */
  async abort() {
    const dropped = this.#queue.filter((item) => !item.skip);
    for (const item of dropped) item.skip = true;
    const current = this.#current;
    if (current) {
      current.aborted = true;
      current.running?.kill();
      await this.permissions.cancelAll('Aborted');
      await current.ended;
    }
    if (dropped.length > 0) {
      await this.say(records.text(`Dropped, not run:\n${dropped.map(({ text }) => text).join('\n')}`));
    }
    this.wake();
    return { aborted: current !== null, dropped: dropped.length };
  }

  /** Ends the running command and starts no other. What was not started is left for the next process of the session. */
  async stop() {
    this.#stopped = true;
    const current = this.#current;
    current?.running?.kill();
    if (current?.running) await current.ended;
  }

  /** Settled when nothing is left to do. */
  async idle() {
    if (this.#working) await new Promise((resolve) => this.#idle.push(resolve));
  }

  #add(item) {
    this.#queue.push(item);
    if (!this.#working) this.#work();
  }

  async #work() {
    this.#working = true;
    for (let item = this.#next(); item; item = this.#next()) {
      if (!item.skip) await this.#task(item);
      if (!this.#stopped) this.#done(item);
    }
    this.#working = false;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** The next item that may be worked on: while the terminal is in control, messages of the web wait. */
  #next() {
    if (this.#stopped) return undefined;
    const at = this.#queue.findIndex((item) => item.skip || item.local || this.settings.mode === 'remote');
    return at < 0 ? undefined : this.#queue.splice(at, 1)[0];
  }

  #done(item) {
    // One that still waits for remote mode keeps those behind it open, too.
    const open = this.#queue.some((other) => !other.skip && other.seq !== undefined && other.seq < item.seq);
    if (item.seq !== undefined && !open) this.onHandled(item.seq, item.skip === true);
  }

  async #task(item) {
    let end;
    const ended = new Promise((resolve) => {
      end = resolve;
    });
    this.#current = { item, aborted: false, running: null, call: null, ended };
    try {
      await this.#handle(item);
    } catch (error) {
      this.log.warn(`a message could not be handled: ${error.message}`);
      if (!this.#stopped) await this.say(records.text(`Error: ${error.message}`)).catch(() => {});
    }
    this.#setThinking(false);
    if (!this.#stopped) {
      const { call } = this.#current;
      const localId = call ? records.localIds(call.id).ready : undefined;
      await this.say(records.ready(), localId).catch((error) => this.log.warn(error.message));
    }
    this.#current = null;
    end();
  }

  async #handle(item) {
    const text = item.text.trim();
    if (item.local) await this.say(records.typed(text));
    const slash = /^\/([A-Za-z0-9][A-Za-z0-9_-]*)(?:\s+([^]*))?$/.exec(text);
    if (slash) return this.#slash(item, slash[1], slash[2] ?? '');
    const attachments = await this.#attachments(item.attachments);
    if (text !== '') return this.#command(item, text, [], attachments);
    return item.attachments.length > 0 ? undefined : this.say(records.text('There is nothing to run.'));
  }

  async #slash(item, name, rest) {
    if (name === 'help') {
      const own = (await this.catalog.commands()).filter((one) => one !== 'help' && one !== 'todo');
      return this.say(records.text([HELP, ...own.map((one) => `/${one}`)].join('\n')));
    }
    if (name === 'todo') {
      const { changed, text } = this.todos.command(rest);
      if (changed) await this.say(records.toolUse(randomUUID(), 'TodoWrite', { todos: this.todos.items }));
      return this.say(records.text(text));
    }
    const script = await this.catalog.script(name);
    if (script === null) return this.say(records.text(`There is no command /${name}. Try /help.`));
    const attachments = await this.#attachments(item.attachments);
    return this.#command(item, script, rest.split(/\s+/).filter(Boolean), attachments);
  }

  async #command(item, command, args, attachments) {
    const input = args.length > 0 ? { command, args } : { command };
    let id = randomUUID();
    if (!item.local) {
      const outcome = await this.#permission(command, input);
      if (this.#stopped) return;
      if (outcome.status !== 'approved') return this.#refused(command, input, outcome);
      if (outcome.id) id = outcome.id;
    }
    const current = this.#current;
    if (current.aborted) return;
    // From here on it must not run a second time, even if this process ends now.
    const call = { id, name: TOOL, input };
    this.onCall(call, item.seq);
    current.call = call;
    this.#setThinking(true);
    const as = records.localIds(call.id);
    const notice = this.shell.begin();
    if (notice) await this.say(records.text(notice));
    await this.say(records.toolUse(call.id, TOOL, input), as.use);
    const { rest, failed, how } = await this.#run(item, call, { command, args, attachments });
    const change = this.shell.end();
    if (item.local) this.echo(rest);
    await this.say(records.toolResult(call.id, rest, failed), as.result);
    await this.say(records.text([current.aborted && 'Aborted.', `${how}.`, change].filter(Boolean).join(' ')), as.end);
  }

  /** Runs a command; answers the last of its output, and how it ended. */
  async #run(item, call, { command, args, attachments }) {
    const current = this.#current;
    try {
      current.running = startCommand({
        command,
        args,
        cwd: this.shell.cwd,
        env: { ...this.shell.environment, ATTACHMENTS: attachments.join('\n') },
        stateFile: this.shell.file,
        onOutput: async (piece) => {
          if (item.local) this.echo(piece);
          await this.say(records.toolResult(call.id, piece));
        },
      });
      if (current.aborted || this.#stopped) current.running.kill();
      const { code, signal, rest } = await current.running.done;
      return { rest, failed: code !== 0, how: signal ? `Ended by ${signal}` : `Exit code ${code}` };
    } catch (error) {
      return { rest: error.message, failed: true, how: 'It could not be run' };
    }
  }

  /** Says why a command was not run. What was asked about is a call that failed, so that clients find the two together. */
  async #refused(command, input, { id, status, decision, reason }) {
    if (id === undefined) return this.say(records.text(`Not run in ${this.settings.permissionMode} mode: ${command}`));
    const denied = decision === 'abort' ? 'Denied and aborted.' : 'Denied.';
    const why = `${status === 'denied' ? denied : 'Canceled.'}${reason ? `\nReason: ${reason}` : ''}`;
    const as = records.localIds(id);
    await this.say(records.toolUse(id, TOOL, input), as.use);
    await this.say(records.toolResult(id, why, true), as.result);
  }

  /** @returns {Promise<import('./permissions.mjs').Outcome | {status: 'never'}>} `never`: the mode forbids commands */
  async #permission(command, input) {
    const { permissionMode, autoApprove } = this.settings;
    const allowed = verdict(permissionMode, command, this.shell.isPlain);
    if (allowed === 'never') return { status: 'never' };
    if (allowed === 'run' || autoApprove || this.permissions.isAllowed(TOOL)) return { status: 'approved' };
    return this.permissions.ask(TOOL, input, permissionMode);
  }

  /** Shows the attachments that are uploads of this session, and answers their paths; others are none of its business. */
  async #attachments(attachments) {
    if (attachments.length === 0) return [];
    const found = await Promise.all(attachments.map((one) => ownUpload(this.uploads, one.path)));
    const lines = found.map((file, i) => {
      const name = attachments[i].filename ?? 'file';
      return file ? `- ${name} (${file.size} bytes): ${file.path}` : `- ${name}: not an upload of this session, left out`;
    });
    await this.say(records.text(`Attached, in $ATTACHMENTS for a command:\n${lines.join('\n')}`));
    return found.filter(Boolean).map((file) => file.path);
  }

  #setThinking(thinking) {
    if (this.thinking === thinking) return;
    this.thinking = thinking;
    this.onThinking(thinking);
  }
}
