/** Installs and removes the user service of a directory. */

import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

const COMMAND_TIMEOUT_MS = 60_000;

const TOKEN_VARIABLE = 'CLI_API_TOKEN';

/**
 * Installs and starts a service. Replaces and restarts a service that is already installed.
 * @param {import('./service.mjs').Service} service
 * @param {{token: string | null, env: Record<string, string | undefined>}} options `token`: null for a computer that is paired
 * @returns {Promise<string>} what was done, for the user
 * @throws {Error} when the service manager refuses the service
 */
export async function installService(service, { token, env }) {
  const { file, environmentFile, commands } = service;
  if (environmentFile) writePrivate(environmentFile, withToken(read(environmentFile), token));
  // launchd refuses to load a definition that is already loaded.
  else if (existsSync(file)) await runAllowingFailure(commands.stop, env);
  writePrivate(file, service.define(token));
  for (const command of commands.start) await runCommand(command, env);
  const lines = [`Installed and started ${service.name} (${file}).`];
  if (environmentFile)
    lines.push(
      `It does not have the variables of this terminal. Write the API keys of your agents into ${environmentFile}, and install it again.`,
    );
  if (commands.persist && (await runAllowingFailure([commands.persist], env))) {
    lines.push(`It ends when you log out. To keep it running, run: ${commands.persist.join(' ')}`);
  }
  return `${lines.join('\n')}\n`;
}

/**
 * Stops and removes a service, and its token.
 * @param {import('./service.mjs').Service} service
 * @param {{env: Record<string, string | undefined>}} options
 * @returns {Promise<string>} what was done, for the user
 * @throws {Error} when the service is not installed, or the service manager cannot stop it
 */
export async function removeService({ name, file, environmentFile, commands }, { env }) {
  if (!existsSync(file)) throw new Error(`There is no service for this directory: ${file} does not exist.`);
  for (const command of commands.stop) await runCommand(command, env);
  rmSync(file);
  const remainingText = environmentFile ? withToken(read(environmentFile)) : '';
  if (environmentFile && remainingText === '') rmSync(environmentFile, { force: true });
  if (remainingText !== '') writePrivate(environmentFile, remainingText);
  return `Stopped and removed ${name}.${remainingText === '' ? '' : ` ${environmentFile} keeps your other variables.`}\n`;
}

/** Replaces the token in the text of an environment file (systemd.exec(5)); without a token, removes it. */
function withToken(text, token = null) {
  const others = text.split('\n').filter((line) => line.trim() !== '' && !line.trimStart().startsWith(`${TOKEN_VARIABLE}=`));
  const own = token === null ? [] : [`${TOKEN_VARIABLE}="${token.replaceAll(/["\\`$]/g, '\\$&')}"`];
  return [...own, ...others].map((line) => `${line}\n`).join('');
}

const read = (file) => (existsSync(file) ? readFileSync(file, 'utf8') : '');

/** Writes a file that only the user can read, and that is never half written. */
function writePrivate(file, text) {
  mkdirSync(path.dirname(file), { recursive: true });
  const temporary = `${file}.${process.pid}`;
  writeFileSync(temporary, text, { mode: 0o600 });
  renameSync(temporary, file);
}

/**
 * @param {string[]} command
 * @param {Record<string, string | undefined>} env
 */
async function runCommand([program, ...args], env) {
  try {
    await run(program, args, { env, timeout: COMMAND_TIMEOUT_MS });
  } catch (error) {
    const reason = error.code === 'ENOENT' ? `there is no program ${program} on the PATH` : (error.stderr ?? '').trim() || error.message;
    throw new Error(`${[program, ...args].join(' ')} failed: ${reason}`);
  }
}

/** Runs commands whose failure is not fatal. @returns {Promise<boolean>} whether one failed */
async function runAllowingFailure(commands, env) {
  let hasFailed = false;
  for (const command of commands) await runCommand(command, env).catch(() => (hasFailed = true));
  return hasFailed;
}
