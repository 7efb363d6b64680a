// The platform's functions that a deployment needs. Each method runs one command of wrangler.

import { existsSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { CommandFailed, UserError } from '../../lib/errors.mjs';
import { DATA_DIR } from '../../lib/paths.mjs';
import { run, runOnTerminal } from '../../lib/run.mjs';
import { WRANGLER_ENV, wranglerCommand } from '../hub/wrangler.mjs';

/** @typedef {{id: string, name: string}} Account */

/** The environment in which wrangler does not ask, but uses the default answer of each question. */
const WITHOUT_PROMPTS = { ...WRANGLER_ENV, CI: '1', WRANGLER_HIDE_BANNER: 'true' };

/** The regions in which a database can be. Durable Objects have more regions. */
const DATABASE_LOCATIONS = ['weur', 'eeur', 'apac', 'oc', 'wnam', 'enam'];

/** The error code of the platform for a Worker that does not exist. */
const NO_WORKER = /\[code: 10007\]/;

export class Platform {
  #accountId;

  /** Sets the account for all further commands. @param {string} accountId */
  useAccount(accountId) {
    this.#accountId = accountId;
  }

  /**
   * Lists the accounts that the user is signed in to.
   * @returns {Promise<Account[] | undefined>} undefined if the user is not signed in
   */
  async listAccounts() {
    try {
      const { loggedIn, accounts } = parseJson(await this.#wrangler(['whoami', '--json']));
      return loggedIn ? (accounts ?? []) : undefined;
    } catch (error) {
      if (error instanceof CommandFailed && /"loggedIn":\s*false/.test(error.output)) return undefined;
      throw error;
    }
  }

  /** Signs in on this terminal, with a browser. */
  async signIn() {
    // Over SSH, the user cannot use a browser of this computer.
    const device = process.env.SSH_CONNECTION ? ['--device'] : [];
    const code = await runOnTerminal(...wranglerCommand(['login', ...device]), { env: WRANGLER_ENV });
    if (code !== 0) throw new UserError('Signing in to Cloudflare failed.');
  }

  /** @returns {Promise<{uuid: string, name: string}[]>} */
  async listDatabases() {
    return parseJson(await this.#wrangler(['d1', 'list', '--json']));
  }

  /**
   * Creates a database at the place of the objects.
   * @param {string} name
   * @param {Record<string, unknown>} vars of the deployment
   */
  async createDatabase(name, { HUB_LOCATION: location, HUB_JURISDICTION: jurisdiction }) {
    const place = jurisdiction
      ? [`--jurisdiction=${jurisdiction}`]
      : DATABASE_LOCATIONS.includes(String(location))
        ? [`--location=${location}`]
        : [];
    await this.#wrangler(['d1', 'create', name, ...place, '--update-config=false']);
  }

  /**
   * Applies the missing migrations to each database.
   * @param {string} config path of wrangler's configuration
   * @returns {Promise<number>} the number of migrations that were applied
   */
  async migrate(config) {
    let count = 0;
    for (const binding of databaseBindings(config)) {
      const output = await this.#wrangler(['d1', 'migrations', 'apply', binding, '--remote', '--config', config]);
      count += migrationNames(output).size;
    }
    return count;
  }

  /**
   * Lists the migrations that a database does not have yet.
   * @param {string} config
   * @returns {Promise<string[]>} the names of their files
   */
  async listMissingMigrations(config) {
    const missing = new Set();
    for (const binding of databaseBindings(config)) {
      const output = await this.#wrangler(['d1', 'migrations', 'list', binding, '--remote', '--config', config]);
      for (const name of migrationNames(output)) missing.add(name);
    }
    return [...missing].sort();
  }

  /**
   * Returns the id of the version of the Worker that gets the requests.
   * @param {string} config
   */
  async activeVersion(config) {
    const { versions } = parseJson(await this.#wrangler(['deployments', 'status', '--json', '--config', config]));
    if (versions.length !== 1) throw new UserError('Several versions of the Worker get requests.', 'End the gradual deployment first.');
    return versions[0].version_id;
  }

  /**
   * Makes an earlier version of the Worker get all requests.
   * @param {string} config
   * @param {string} versionId
   */
  async rollBack(config, versionId) {
    await this.#wrangler(['rollback', versionId, '--message', 'The upgrade failed its test.', '--yes', '--config', config]);
  }

  /**
   * Lists the names of the Worker's secrets.
   * @param {string} config
   * @returns {Promise<string[]>} empty if the Worker does not exist
   */
  async listSecrets(config) {
    try {
      const secrets = parseJson(await this.#wrangler(['secret', 'list', '--format=json', '--config', config]));
      return secrets.map(({ name }) => name);
    } catch (error) {
      if (error instanceof CommandFailed && (NO_WORKER.test(error.output) || /Worker ".*" not found/.test(error.output))) return [];
      throw error;
    }
  }

  /**
   * Deploys the Worker.
   * @param {string} config
   * @param {{secretsFile?: string, dryRun?: boolean, onLine?: (line: string) => void}} [options] `secretsFile`: JSON with secrets to set
   * @returns {Promise<{targets: string[], versionId: string | null}>} `targets`: the addresses; empty after a dry run
   */
  async deploy(config, { secretsFile, dryRun = false, onLine } = {}) {
    const report = path.join(path.dirname(config), 'deploy-report.ndjson');
    rmSync(report, { force: true });
    const secrets = secretsFile ? ['--secrets-file', secretsFile] : [];
    await this.#wrangler(['deploy', '--config', config, ...secrets, ...(dryRun ? ['--dry-run'] : [])], {
      env: { WRANGLER_OUTPUT_FILE_PATH: report },
      onLine,
    });
    const lines = existsSync(report) ? readFileSync(report, 'utf8').trim().split('\n') : [];
    const deployed = lines.map((line) => JSON.parse(line)).find(({ type }) => type === 'deploy');
    return { targets: deployed?.targets ?? [], versionId: deployed?.version_id ?? null };
  }

  /**
   * @param {string[]} args
   * @param {{env?: Record<string, string>, onLine?: (line: string) => void}} [options]
   */
  async #wrangler(args, { env = {}, onLine } = {}) {
    const account = this.#accountId ? { CLOUDFLARE_ACCOUNT_ID: this.#accountId } : {};
    try {
      return await run(...wranglerCommand(args), {
        cwd: DATA_DIR,
        // The generated configuration has no environments.
        env: { ...WITHOUT_PROMPTS, CLOUDFLARE_ENV: undefined, ...account, ...env },
        onLine: (line) => onLine?.(line),
      });
    } catch (error) {
      // The message names only the words of the command, without the paths of Node, of wrangler and of its configuration.
      const words = args.slice(0, args.findIndex((arg) => arg.startsWith('-')) >>> 0);
      if (error instanceof CommandFailed) error.message = `\`wrangler ${words.join(' ')}\` failed.`;
      throw error;
    }
  }
}

/** Returns the names of the migrations in wrangler's output. @param {string} output */
const migrationNames = (output) => new Set(output.match(/\b\d{4}_\w+\.sql\b/g));

/** Returns the bindings of the databases of a deployment. @param {string} config path of wrangler's configuration @returns {string[]} */
const databaseBindings = (config) => JSON.parse(readFileSync(config, 'utf8')).d1_databases.map(({ binding }) => binding);

/** Parses the JSON in wrangler's output. Warnings may precede the JSON. @param {string} output */
function parseJson(output) {
  const start = output.search(/^[[{]/m);
  try {
    return JSON.parse(output.slice(start));
  } catch {
    throw new UserError(`wrangler's answer is not JSON:\n${output}`);
  }
}
