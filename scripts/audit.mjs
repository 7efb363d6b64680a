// `npm run audit`: licences, sources and known vulnerabilities of the crates (cargo-deny, deny.toml) and of the npm packages.
// Not a part of `npm test`: vulnerabilities need the network. A database that cannot be reached is reported, and is no failure.

import { spawnSync } from 'node:child_process';
import { parseCommandLine } from './lib/command-line.mjs';
import { main, UserError } from './lib/errors.mjs';
import { ROOT } from './lib/paths.mjs';

const USAGE = `Usage: npm run audit

Checks licences, sources and known vulnerabilities of the crates and npm packages. Needs cargo-deny:
cargo install --locked cargo-deny`;

await main(() => {
  if (parseCommandLine(process.argv.slice(2), USAGE).help) {
    console.log(USAGE);
    return 0;
  }
  const passed = [auditCrates(), auditPackages()];
  return passed.every(Boolean) ? 0 : 1;
});

/** @returns {boolean} whether the crates pass */
function auditCrates() {
  if (call('cargo', ['deny', '--version']).status !== 0) {
    throw new UserError('cargo-deny is not installed.', 'Install it with: cargo install --locked cargo-deny');
  }
  const checks = ['bans', 'licenses', 'sources'];
  if (call('cargo', ['deny', 'fetch', 'db']).status === 0) checks.push('advisories');
  else console.log('The advisories of RustSec cannot be reached: the crates are not checked for known vulnerabilities.');
  return call('cargo', ['deny', 'check', ...checks], { stdio: 'inherit' }).status === 0;
}

/** @returns {boolean} whether no npm package has a known vulnerability, as far as that can be known */
function auditPackages() {
  const { stdout } = call('npm', ['audit', '--json']);
  const { metadata } = parse(stdout);
  if (!metadata) {
    console.log('The advisories of npm cannot be reached: the packages are not checked for known vulnerabilities.');
    return true;
  }
  const { total } = metadata.vulnerabilities;
  console.log(total === 0 ? 'No npm package has a known vulnerability.' : `${total} npm packages have known vulnerabilities: see npm audit.`);
  return total === 0;
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

/**
 * @param {string} program
 * @param {string[]} args
 * @param {import('node:child_process').SpawnSyncOptions} [options]
 */
function call(program, args, options = {}) {
  const { error, ...done } = spawnSync(program, args, { cwd: ROOT, encoding: 'utf8', ...options });
  if (error) throw new UserError(`${program} could not be started: ${error.message}`);
  return done;
}
