// The content of the branch `release`: the built hub and a configuration, which the deploy button deploys without a compiler.

import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { inProject } from '../../lib/paths.mjs';
import { readWranglerToml } from '../../lib/worker-settings.mjs';

const FILES = ['.dev.vars.example', 'LICENSE', 'build/index.js', 'build/index_bg.wasm', 'migrations', 'web/dist'];

const readJson = (name) => JSON.parse(readFileSync(inProject(name), 'utf8'));

/**
 * Writes the tree into a folder, which is emptied.
 * @param {string} folder
 * @param {string | undefined} repository address of the repository, for the button
 */
export function writeReleaseTree(folder, repository) {
  rmSync(folder, { recursive: true, force: true });
  for (const file of FILES) cpSync(inProject(file), path.join(folder, file), { recursive: true });
  mkdirSync(folder, { recursive: true });
  const write = (name, text) => writeFileSync(path.join(folder, name), text);
  write('README.md', readme(repository));
  write('package.json', `${JSON.stringify(packageJson(), null, 2)}\n`);
  write('wrangler.json', `${JSON.stringify(wranglerConfig(), null, 2)}\n`);
}

function packageJson() {
  const { name, version, description, license, devDependencies, cloudflare } = readJson('package.json');
  return {
    name,
    version,
    description,
    license,
    private: true,
    // The migrations first: a new version does not work with the old tables.
    scripts: { deploy: 'wrangler d1 migrations apply DB --remote && wrangler deploy' },
    dependencies: { wrangler: devDependencies.wrangler },
    cloudflare,
  };
}

function wranglerConfig() {
  const { build: _, vars: __, d1_databases, ...settings } = readWranglerToml();
  const [{ preview_database_id: ___, ...database }] = /** @type {Record<string, any>[]} */ (d1_databases);
  // The deploy button sets the id of the database. It would ask for each variable, so `vars` is removed. `secrets.required`
  // would make wrangler refuse a Worker that does not exist yet.
  return { ...settings, d1_databases: [database], keep_vars: true };
}

/** @param {string | undefined} repository */
function readme(repository) {
  const button = repository
    ? `[![Deploy to Cloudflare](https://deploy.workers.cloudflare.com/button)](https://deploy.workers.cloudflare.com/?url=${repository}/tree/release)\n\n`
    : '';
  return `# Session gateway hub, built

${button}This branch has the built hub and its web console, and is written by each release. The deploy button copies it to your account,
creates the database, and asks for \`CLI_API_TOKEN\`: enter a long random text, such as the output of \`openssl rand -hex 24\`, and
store it in a password manager. It is the access token of the hub.

The sources, the documentation and the command \`npx session-gateway-hub deploy\`, which does the same, are on the main branch. Change
variables in the settings of the Worker: a deployment keeps them.
`;
}
