// `npm run audit`: checks licences, sources and known vulnerabilities of the crates (cargo-deny, deny.toml), and known
// vulnerabilities of the npm packages. If a vulnerability database cannot be reached, its check is skipped. This command is not a part
// of `npm test`, because it needs the network.

import { spawnSync } from 'node:child_process';
import { parseCommandLine } from '../lib/command-line.mjs';
import { main, UserError } from '../lib/errors.mjs';
import { parseJson } from '../lib/json.mjs';
import { ROOT } from '../lib/paths.mjs';

const USAGE = `Usage: npm run audit

Checks licences, sources and known vulnerabilities of the crates, and known vulnerabilities of the npm packages. Needs
cargo-deny: cargo install --locked cargo-deny

  --help  this text`;

await main(() => {
  parseCommandLine(process.argv.slice(2), USAGE);
  const passed = [auditCrates(), auditPackages()];
  return passed.every(Boolean) ? 0 : 1;
});

/** @returns {boolean} whether the crates passed */
function auditCrates() {
  if (runSync('cargo', ['deny', '--version']).status !== 0) {
    throw new UserError('cargo-deny is not installed.', 'Install it with: cargo install --locked cargo-deny');
  }
  const checks = ['bans', 'licenses', 'sources'];
  if (runSync('cargo', ['deny', 'fetch', 'db']).status === 0) checks.push('advisories');
  else console.log('Skipped: known vulnerabilities of the crates, because the RustSec database cannot be reached.');
  return runSync('cargo', ['deny', 'check', ...checks], { stdio: 'inherit' }).status === 0;
}

/** @returns {boolean} whether the npm packages passed, or could not be checked */
function auditPackages() {
  const { stdout } = runSync('npm', ['audit', '--json']);
  const { metadata } = parseJson(String(stdout)) ?? {};
  if (!metadata) {
    console.log('Skipped: known vulnerabilities of the npm packages, because the npm registry cannot be reached.');
    return true;
  }
  const { total } = metadata.vulnerabilities;
  if (total === 0) console.log('No npm package has a known vulnerability.');
  else console.log(`${total} npm packages have known vulnerabilities. List them with: npm audit`);
  return total === 0;
}

/**
 * @param {string} program
 * @param {string[]} args
 * @param {import('node:child_process').SpawnSyncOptions} [options]
 */
function runSync(program, args, options = {}) {
  const { error, ...result } = spawnSync(program, args, { cwd: ROOT, encoding: 'utf8', ...options });
  if (error) throw new UserError(`Cannot start ${program}: ${error.message}`);
  return result;
}
