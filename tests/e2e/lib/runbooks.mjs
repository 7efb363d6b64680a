/** The runbooks of docs/OPERATIONS.md, and a deployed hub on which their commands run. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { isRunning } from '../../../packages/cli-kit/src/system-processes.mjs';
import { namespaceToken } from '../../../scripts/lib/dev-vars.mjs';
import { hashOfNamespace } from '../../../scripts/product/namespace/list.mjs';
import { Web } from '../../../scripts/product/clients/web.mjs';
import { freePort } from './children.mjs';
import { environmentOf, MIGRATIONS, NAME, PACKAGE, readDeployments, recordMigrations, startPlatform } from './deployment.mjs';
import { temporaryFolder } from './git.mjs';
import { readWranglerToml } from '../../../scripts/lib/worker-settings.mjs';
import { FAULTY_WORKER, ROOT, startHub } from './hub.mjs';
import { assertShows, Terminal } from './terminal.mjs';

const PAGE = readFileSync(path.join(ROOT, 'docs', 'OPERATIONS.md'), 'utf8');

/** Time limit of a command. On a busy computer, wrangler takes a minute to start. */
const COMMAND_TIMEOUT_MS = 240_000;

/** A mock of npm: runs `npm run [-s] NAME [-- ARGS]` as a command of the package. */
const MOCK_NPM = `#!/bin/bash
shift
[ "$1" = -s ] && shift
name="$1"
shift
[ "$1" = -- ] && shift
[ "$name" = dev ] && exec "$TEST_NODE" "$TEST_CLI" "$@"
# tests/e2e/deploy-variants.test.mjs has the deployment with its smoke test, which takes a minute.
[ "$name" = deploy ] && set -- --no-smoke
# The deletion asks on a terminal only.
[ "$name $1" = "namespace delete" ] && exec script -qec "$TEST_NODE $TEST_CLI $name $*" /dev/null
exec "$TEST_NODE" "$TEST_CLI" "$name" "$@"
`;

/** Removes the indentation of a block in a list. @param {string} indentation @param {string} text */
const dedent = (indentation, text) => text.replaceAll(new RegExp(`^${indentation}`, 'gm'), '');

/** The sections of the page by their headings. */
const SECTIONS = new Map(
  PAGE.split(/^## /m)
    .slice(1)
    .map((section) => [section.slice(0, section.indexOf('\n')), section]),
);

/**
 * Returns the blocks of commands of a section, each with the lines of output that the page shows.
 * @param {string} heading
 * @returns {{commands: string[], expectedLines: string[]}[]}
 */
function readBlocks(heading) {
  const blocks = [];
  for (const [, indentation, language, body] of SECTIONS.get(heading).matchAll(/^( *)```(\w*)\n([^]*?)^ *```$/gm)) {
    const lines = dedent(indentation, body).trimEnd().split('\n');
    if (language === 'sh') blocks.push({ commands: lines, expectedLines: [] });
    else if (language === '') blocks.at(-1).expectedLines.push(...lines);
  }
  return blocks;
}

/** Returns the headings of the sections with commands. */
export const runbooks = () => [...SECTIONS.keys()].filter((heading) => readBlocks(heading).length > 0);

/** Returns the variables of deployment.json that a section shows. @param {string} heading */
export const readVars = (heading) => JSON.parse(`{${/^ *```json\n([^]*?)^ *```$/m.exec(SECTIONS.get(heading))[1]}}`).vars;

/**
 * How a command of a runbook runs.
 * @typedef {object} Step
 * @property {() => unknown} [before]
 * @property {() => string} [input] what the command reads
 * @property {string} [runsUntil] the command runs in the background. The text that it prints when it is ready
 * @property {boolean} [endsBackground] whether the operator first presses Ctrl-C where a command runs
 * @property {(output: string) => unknown} [after]
 */

/** A deployed hub with its operator. The platform is a fake, which runs uploads and secrets on a real hub. */
export class Operator {
  #t;
  #deployment;
  #hub;
  #home;
  #port;
  /** What `<…>` in commands stands for, except for secrets and tokens. @type {Record<string, string>} */
  placeholders = {};

  /** @param {{after: (step: () => unknown) => void}} t */
  static async start(t) {
    const operator = new Operator();
    operator.#t = t;
    operator.#deployment = await startPlatform(t);
    operator.#hub = await startHub(t, { wrappers: FAULTY_WORKER });
    operator.#home = temporaryFolder(t);
    operator.#port = await freePort();
    writeFileSync(path.join(operator.#home, 'npm'), MOCK_NPM, { mode: 0o755 });
    operator.platform.onUpload = (_, worker) => operator.#hub.restart(variablesOf(worker));
    operator.platform.readLog = () => operator.#hub.logLines();
    operator.#write({ address: operator.#hub.url });
    return operator;
  }

  get platform() {
    return this.#deployment.platform;
  }

  get hub() {
    return this.#hub;
  }

  /** The folder of the operator's files. */
  get home() {
    return this.#home;
  }

  get worker() {
    return this.platform.workers.get(NAME);
  }

  get secret() {
    return this.worker.secrets.get('CLI_API_TOKEN');
  }

  /** The address of the hub on the copy of a database, and the folder with its secret. */
  get copy() {
    return { url: `http://127.0.0.1:${this.#port}`, devVars: path.join(this.#deployment.data, '.dev.vars') };
  }

  /** Returns the valid token of a namespace. @param {string} namespace */
  async tokenOf(namespace) {
    const { body } = await this.web(`${this.secret}:${namespace}`).get('/api/namespaces/generation');
    return namespaceToken(this.secret, namespace, body.generation);
  }

  /** Returns a web client with a token. @param {string} token */
  web(token) {
    return new Web({ url: this.#hub.url, token });
  }

  /** Returns the hub for fake CLIs of one namespace. @param {string} namespace */
  async hubOf(namespace) {
    const token = await this.tokenOf(namespace);
    return { url: this.#hub.url, port: this.#hub.port, token: () => token, web: () => this.web(token) };
  }

  #write(settings) {
    writeFileSync(path.join(this.#deployment.data, 'deployment.json'), JSON.stringify({ production: settings }));
  }

  /** Sets the variables of the deployment in deployment.json. @param {Record<string, string>} vars */
  setVars(vars) {
    this.#write({ ...readDeployments(this.#deployment.data).production, vars });
  }

  /** Uploads the Worker again, with the variables of deployment.json. */
  async deploy() {
    const vars = { ...readWranglerToml().vars, ...readDeployments(this.#deployment.data).production.vars };
    const { bindings, ...metadata } = this.worker.metadata;
    const variables = Object.entries(vars).map(([name, text]) => ({ type: 'plain_text', name, text }));
    await this.platform.upload(NAME, { ...metadata, bindings: [...bindings.filter(({ type }) => type !== 'plain_text'), ...variables] });
  }

  /** Copies the hub's database into the database of the platform. */
  copyDatabase() {
    const folder = temporaryFolder(this.#t);
    this.#hub.copyDatabase(folder);
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => /[0-9a-f]{64}\.sqlite$/.test(name));
    assert.equal(files.length, 1);
    const [database] = this.platform.databases.values();
    database.sqlite = new DatabaseSync(path.join(folder, files[0]));
    recordMigrations(database.sqlite, MIGRATIONS);
  }

  /** Opens a terminal of the operator. @param {{after: (step: () => unknown) => void}} t */
  openTerminal(t) {
    const env = {
      ...environmentOf(this.#deployment),
      HOME: this.#home,
      SESSION_GATEWAY_HOME: path.join(this.#home, 'agent'),
      PATH: `${this.#home}:${process.env.PATH}`,
      TEST_NODE: process.execPath,
      TEST_CLI: path.join(PACKAGE, 'scripts', 'product', 'cli.mjs'),
      TZ: 'UTC',
      NO_COLOR: '1',
    };
    return new Terminal(t, { cwd: this.#home, env });
  }

  /** Replaces the page's example values and placeholders by the values of this test. @param {string} text */
  async #fillPlaceholders(text) {
    let filled = text
      .replaceAll('https://hub.example.com', this.#hub.url)
      .replaceAll('2026-01-31', new Date().toISOString().slice(0, 10))
      .replaceAll('8788', String(this.#port))
      .replaceAll(/<the (?:new )?secret>/g, () => this.secret);
    for (const [placeholder, namespace] of filled.matchAll(/<the token of ([\w-]+)>/g))
      filled = filled.replaceAll(placeholder, await this.tokenOf(namespace));
    const values = { ...this.placeholders, 'the hash': hashOfNamespace('team-a') };
    filled = filled.replaceAll(/<(the [\w ]+)>/g, (placeholder, name) => values[name] ?? placeholder);
    assert.doesNotMatch(filled, /<the /);
    return filled;
  }

  /**
   * Runs the commands of a runbook in their order, and compares their output with the page.
   * @param {{after: (step: () => unknown) => void}} t
   * @param {string} heading
   * @param {Record<string, Step>} steps by command
   */
  async follow(t, heading, steps) {
    const terminal = this.openTerminal(t);
    const remainingCommands = new Set(Object.keys(steps));
    for (const { commands, expectedLines } of readBlocks(heading)) {
      let output = '';
      for (const command of commands) {
        const step = steps[command];
        assert.ok(step, `"${heading}" has a command that the test does not run: ${command}`);
        remainingCommands.delete(command);
        await step.before?.();
        const printed = await this.#type(t, terminal, await this.#fillPlaceholders(command), step);
        output += printed;
        await step.after?.(printed);
      }
      for (const line of expectedLines) assertShows(output, await this.#fillPlaceholders(line), heading);
    }
    assert.deepEqual([...remainingCommands], [], `commands that "${heading}" does not have`);
  }

  /** @param {{after: (step: () => unknown) => void}} t @param {Terminal} terminal @param {string} command @param {Step} step */
  async #type(t, terminal, command, { input, runsUntil, endsBackground }) {
    if (endsBackground) await terminal.run('kill $pid; wait', { timeoutMs: COMMAND_TIMEOUT_MS });
    const options = { input: input?.(), timeoutMs: COMMAND_TIMEOUT_MS };
    if (runsUntil === undefined) return outputOf(command, await terminal.run(command, options));
    const { output: pid } = await terminal.run(`${command} >log 2>&1 &\npid=$!\necho $pid`);
    t.after(() => isRunning(Number(pid)) && process.kill(Number(pid)));
    const wait = `until grep -q '${runsUntil}' log || ! kill -0 $pid; do sleep 0.2; done\ncat log\nkill -0 $pid`;
    return outputOf(command, await terminal.run(wait, options));
  }
}

/** Returns the output of a command that succeeded. @param {string} command @param {{code: number, output: string}} result */
function outputOf(command, { code, output }) {
  assert.equal(code, 0, `${command}\n${output}`);
  return output;
}

/** Returns the variables and secrets of a Worker on the platform. */
function variablesOf({ metadata, secrets }) {
  const texts = (metadata.bindings ?? []).filter(({ type }) => type === 'plain_text').map(({ name, text }) => [name, text]);
  return { ...Object.fromEntries(texts), ...Object.fromEntries(secrets) };
}
