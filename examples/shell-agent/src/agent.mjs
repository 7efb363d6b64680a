/**
 * The agent: each user message is a shell command. Commands run one at a time, after the user has approved them. A command runs at most
 * once, even if the agent is restarted. The output of a command is sent as messages.
 */

import { randomUUID } from 'node:crypto';
import { describeCall } from 'session-gateway-cli-kit/activity';
import * as messages from 'session-gateway-cli-kit/messages';
import { configureByFlavor } from 'session-gateway-cli-kit/modes';
import { APPROVE_EVERYTHING } from 'session-gateway-cli-kit/permissions';
import { TaskQueue } from 'session-gateway-cli-kit/task-queue';
import { findUpload } from 'session-gateway-cli-kit/uploads';
import { BUILT_IN_COMMANDS, Catalog } from './catalog.mjs';
import { decideByMode } from './modes.mjs';
import { ShellState } from './shell-state.mjs';
import { startCommand } from './shell.mjs';
import { Todos } from './todos.mjs';

/** The tool name in permission requests and tool calls. */
const TOOL = 'Bash';

const HELP = `A message is a shell command. sh runs it in the directory in which the previous command ended.
/todo            show the todos
/todo add TEXT   add a todo
/todo done N     mark todo N as done
/help            this text`;

/**
 * The decision about a command. `never`: the mode forbids commands, so the user was not asked.
 * @typedef {Partial<Omit<import('session-gateway-cli-kit/permissions').Outcome, 'status'>> &
 *   {status: 'approved' | 'denied' | 'canceled' | 'never'}} Decision
 */

export class ShellAgent {
  thinking = false;
  #running = null;

  /** @param {import('session-gateway-cli-kit/session').AgentDependencies} dependencies */
  constructor({ root, options, environment, session, state, uploads, settings, send, permissions, onThinking, onActivity, onQueueChange }) {
    const { echo = () => {}, flavor, log } = options;
    this.state = state;
    this.uploads = uploads;
    this.settings = settings;
    this.send = send;
    this.permissions = permissions;
    this.onThinking = onThinking;
    this.onActivity = onActivity;
    this.echo = echo;
    this.flavor = flavor;
    this.log = log;
    const [file, saved] = [state.pathFor('shell'), state.saved];
    this.shell = new ShellState({ root, base: environment, file, saved, save: (shell) => state.save(shell) });
    this.todos = new Todos(session.todos);
    this.catalog = new Catalog(root);
    this.queue = new TaskQueue({
      settings,
      state,
      send,
      handle: (item, task) => this.#handle(item, task),
      interrupt: () => {
        this.#running?.kill();
        return permissions.cancelAll('Aborted');
      },
      onEnd: () => this.#setThinking(false),
      onQueueChange,
      log,
    });
  }

  /**
   * Completes the calls that an earlier process of this session started. The hub ignores messages that it has already stored.
   * @param {{isResumed: boolean}} options
   */
  async start({ isResumed }) {
    for (const { id, name, input } of this.state.calls) {
      const localIds = messages.localIds(id);
      await this.send(messages.toolUse(id, name, input), localIds.use);
      await this.send(messages.toolResult(id, 'The agent was restarted while this command ran.', true), localIds.result);
      await this.send(messages.text('The outcome is unknown. The command is not run again.'), localIds.end);
      await this.send(messages.ready(), localIds.ready);
    }
    if (isResumed) await this.send(messages.text(`Resumed: the shell continues ${this.shell}.`));
    this.queue.start();
  }

  receive(message) {
    this.queue.receive(message);
  }

  /** Queues a command typed at the terminal, which runs without a permission request. */
  typeLine(text) {
    this.queue.add({ text, attachments: [], isLocal: true });
  }

  wake() {
    this.queue.wake();
  }

  abort() {
    return this.queue.abort();
  }

  /** Ends the running command. The next process of the session handles the queued messages. */
  async stop() {
    this.queue.stop();
    if (!this.#running) return;
    this.#running.kill();
    await this.queue.current?.ended;
  }

  /** Checks new settings against the modes of the flavor. */
  configure(changes) {
    return configureByFlavor(this.flavor, changes);
  }

  /** The RPC methods of the agent. */
  methods() {
    return {
      listSlashCommands: async () => ({ success: true, commands: await this.catalog.commands() }),
      listSkills: async () => ({ success: true, skills: await this.catalog.skills() }),
    };
  }

  async #handle(item, task) {
    const text = item.text.trim();
    if (item.isLocal) await this.send(messages.typedCommand(text));
    const slash = /^\/([A-Za-z0-9][A-Za-z0-9_-]*)(?:\s+([^]*))?$/.exec(text);
    if (slash) return this.#runSlashCommand(item, task, slash[1], slash[2] ?? '');
    const attachments = await this.#announceAttachments(item.attachments);
    if (text !== '') return this.#runCommand(item, task, text, [], attachments);
    return item.attachments.length > 0 ? undefined : this.send(messages.text('The message is empty: there is nothing to run.'));
  }

  async #runSlashCommand(item, task, name, argumentText) {
    if (name === 'help') {
      const ownCommands = (await this.catalog.commands()).filter((command) => !BUILT_IN_COMMANDS.includes(command));
      return this.send(messages.text([HELP, ...ownCommands.map((command) => `/${command}`)].join('\n')));
    }
    if (name === 'todo') {
      const { isChanged, text } = this.todos.runCommand(argumentText);
      if (isChanged) await this.send(messages.toolUse(randomUUID(), 'TodoWrite', { todos: this.todos.items }));
      return this.send(messages.text(text));
    }
    const script = await this.catalog.script(name);
    if (script === null) return this.send(messages.text(`There is no command /${name}. Try /help.`));
    const attachments = await this.#announceAttachments(item.attachments);
    return this.#runCommand(item, task, script, argumentText.split(/\s+/).filter(Boolean), attachments);
  }

  async #runCommand(item, task, command, args, attachments) {
    const input = args.length > 0 ? { command, args } : { command };
    let id;
    if (!item.isLocal) {
      const outcome = await this.#requestPermission(command, input);
      if (this.queue.isStopped) return;
      if (outcome.status !== 'approved') return this.#reportNotRun(command, input, outcome);
      id = outcome.id;
    }
    if (task.isAborted) return;
    // Recorded before the command starts, so that the command does not run a second time if this process ends now.
    const call = { id: id ?? randomUUID(), name: TOOL, input };
    this.state.recordCall(call, item.seq);
    this.#setThinking(true);
    const localIds = messages.localIds(call.id);
    task.readyId = localIds.ready;
    const notice = this.shell.begin();
    if (notice) await this.send(messages.text(notice));
    await this.send(messages.toolUse(call.id, TOOL, input), localIds.use);
    const { lastPiece, hasFailed, ending } = await this.#execute(item, task, call, { command, args, attachments });
    const change = this.shell.end();
    if (item.isLocal) this.echo(lastPiece);
    await this.send(messages.toolResult(call.id, lastPiece, hasFailed, true), localIds.result);
    const summary = [task.isAborted && 'Aborted.', `${ending}.`, change].filter(Boolean).join(' ');
    await this.send(messages.text(summary), localIds.end);
  }

  /** Runs a command. Returns the last piece of the output, which is not sent yet, and describes how the command ended. */
  async #execute(item, task, call, { command, args, attachments }) {
    try {
      this.#running = startCommand({
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
      this.onActivity(describeCall({ input: { command } }));
      if (task.isAborted || this.queue.isStopped) this.#running.kill();
      const { code, signal, lastPiece } = await this.#running.done;
      return { lastPiece, hasFailed: code !== 0, ending: signal ? `Ended by ${signal}` : `Exit code ${code}` };
    } catch (error) {
      return { lastPiece: error.message, hasFailed: true, ending: 'The command could not be started' };
    } finally {
      this.#running = null;
      this.onActivity(null);
    }
  }

  /**
   * Reports why a command was not run. After a permission request, the report is a failed tool call with the request's id.
   * @param {string} command
   * @param {object} input
   * @param {Decision} decision
   */
  async #reportNotRun(command, input, { id, status, decision, reason }) {
    if (id === undefined) return this.send(messages.text(`Not run in ${this.settings.permissionMode} mode: ${command}`));
    const denied = decision === 'abort' ? 'Denied and aborted.' : 'Denied.';
    const report = `${status === 'denied' ? denied : 'Canceled.'}${reason ? `\nReason: ${reason}` : ''}`;
    const localIds = messages.localIds(id);
    await this.send(messages.toolUse(id, TOOL, input), localIds.use);
    await this.send(messages.toolResult(id, report, true), localIds.result);
  }

  /**
   * @param {string} command
   * @param {object} input
   * @returns {Promise<Decision>}
   */
  async #requestPermission(command, input) {
    const { permissionMode, autoApprove } = this.settings;
    const decision = decideByMode(permissionMode, command, this.shell.isUnmodified);
    if (decision.isForbidden) return { status: 'never' };
    // In a modified shell, the name of an approved program may run another program.
    const { isUnmodified, cwd } = this.shell;
    const scope = isUnmodified ? this.permissions.scopeOf({ tool: TOOL, args: { ...input, cwd } }) : null;
    const approvedBy = decision.approvedBy ?? (autoApprove ? APPROVE_EVERYTHING : this.permissions.findRule(scope));
    if (!approvedBy) return this.permissions.ask(TOOL, input, permissionMode, { scope });
    const id = randomUUID();
    this.permissions.recordApproval({ id, tool: TOOL }, approvedBy);
    return { status: 'approved', id };
  }

  /** Sends a list of the attachments. Returns the paths of the attachments that are uploads of this session. */
  async #announceAttachments(attachments) {
    if (attachments.length === 0) return [];
    const foundUploads = await Promise.all(attachments.map(({ path }) => findUpload(this.uploads, path)));
    const lines = foundUploads.map((file, i) => {
      const name = attachments[i].filename ?? 'file';
      return file ? `- ${name} (${file.size} bytes): ${file.path}` : `- ${name}: ignored (not an upload of this session)`;
    });
    await this.send(messages.text(`Attachments ($ATTACHMENTS has their paths):\n${lines.join('\n')}`));
    return foundUploads.filter(Boolean).map((file) => file.path);
  }

  #setThinking(thinking) {
    if (this.thinking === thinking) return;
    this.thinking = thinking;
    this.onThinking(thinking);
  }
}
