/** The npm packages of the hub and of the CLI, installed on a computer that has Node and git, but no Rust and no C compiler. */

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, realpathSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { findProgram } from '../../../packages/cli-kit/src/find-program.mjs';
import { Web } from '../../../scripts/product/clients/web.mjs';
import { start } from './children.mjs';
import { temporaryFolder } from './git.mjs';

/** The programs on the PATH. npx starts its programs with `sh`. */
const PROGRAMS = ['git', 'npm', 'npx', 'sh'];

/** The variables that npm may need to reach its registry. */
const NETWORK_VARIABLES = /_proxy$|^NODE_EXTRA_CA_CERTS$|^SSL_CERT_/i;

/** A home directory, and a PATH without a toolchain. */
export class Computer {
  #t;
  #variables = Object.fromEntries(Object.entries(process.env).filter(([name]) => NETWORK_VARIABLES.test(name)));

  /** @param {{after: (step: () => unknown) => void}} t */
  constructor(t) {
    this.#t = t;
    const base = temporaryFolder(t);
    this.home = path.join(base, 'home');
    this.bin = path.join(base, 'bin');
    /** The folder in which the packages are installed. */
    this.project = path.join(base, 'project');
    for (const folder of [this.home, this.bin, this.project]) mkdirSync(folder);
    symlinkSync(process.execPath, path.join(this.bin, 'node'));
    for (const name of PROGRAMS) symlinkSync(realpathSync(findProgram(name, process.env)), path.join(this.bin, name));
    // The registry of this user, and the packages that an earlier run has downloaded.
    for (const name of ['cache', 'userconfig']) {
      this.#variables[`npm_config_${name}`] = execFileSync('npm', ['config', 'get', name], { encoding: 'utf8' }).trim();
    }
    Object.assign(this.#variables, { PATH: this.bin, HOME: this.home, NO_COLOR: '1' });
  }

  /** The data folder of the hub that is started without `--data`. */
  get data() {
    return path.join(this.home, '.session-gateway-hub');
  }

  /**
   * Returns the arguments of `env` that start a program with only the variables of this computer and `env`.
   * @param {Record<string, string>} env @param {string} program @param {string[]} args
   */
  #envArguments(env, program, args) {
    const assignments = Object.entries({ ...this.#variables, ...env }).map(([name, value]) => `${name}=${value}`);
    return ['-i', ...assignments, path.join(this.bin, program), ...args];
  }

  /** Installs tarballs into the empty folder. @param {string[]} files */
  install(...files) {
    return this.run('npm', 'install', '--no-audit', '--no-fund', ...files);
  }

  /** Runs a program in the folder with the packages. @param {string} program @param {string[]} args */
  run(program, ...args) {
    const { status, stdout, stderr } = spawnSync('/usr/bin/env', this.#envArguments({}, program, args), {
      cwd: this.project,
      encoding: 'utf8',
    });
    return { status, stdout, stderr };
  }

  /** Starts a command of a package with npx. @param {string[]} command @param {Record<string, string>} [env] */
  npx(command, env = {}) {
    return start(this.#t, command[0], '/usr/bin/env', this.#envArguments(env, 'npx', command), { cwd: this.project });
  }

  /**
   * Starts the hub and waits until it is announced.
   * @param {{port: number, data?: string}} options
   */
  async startHub({ port, data }) {
    const child = this.npx(['session-gateway-hub', '--port', String(port), ...(data ? ['--data', data] : [])]);
    await child.lines.first((line) => line.includes('The hub is running.'), 'the hub');
    return { ...child, web: this.web({ port, data }) };
  }

  /** Returns a web client of the namespace `default`. @param {{port: number, data?: string}} options */
  web({ port, data = this.data }) {
    const [, token] = /^CLI_API_TOKEN=(.+)$/m.exec(readFileSync(path.join(data, '.dev.vars'), 'utf8'));
    return new Web({ url: `http://127.0.0.1:${port}`, token });
  }

  /** Returns the process ids of the hub of a data folder: the hub's own process, wrangler and a guard. */
  processes(data = this.data) {
    const { processes } = JSON.parse(readFileSync(path.join(data, '.wrangler', 'dev.lock'), 'utf8'));
    return processes.map(({ pid }) => pid);
  }
}
