// The files of the two npm packages, relative to the repository. A folder stands for all its files.

import path from 'node:path';

/** The folder that `npm run package` writes, relative to the repository. */
export const PACKAGES_FOLDER = 'dist';

/** The lock file in a package, which npm obeys. */
export const SHRINKWRAP = 'npm-shrinkwrap.json';

/** The files of the hub's package by folder: the builds, the files that the commands read or import, and the documentation. */
const HUB_NAMES = {
  '.': `
    CHANGELOG.md LICENSE README.md SECURITY.md build/index.js build/index_bg.wasm migrations src/model/presets web/dist wrangler.toml`,
  'cli/src': `
    agents.mjs failure-log.mjs gemini-records.mjs opencode-server.mjs translate/model-retries.mjs
    translate/opencode-events.mjs translate/values.mjs`,
  docs: `
    ACCOUNTS.md AGENTS.md CAPACITY.md CLIENTS.md COMMANDS.md CONSOLE.md COST.md DEPLOY.md MAINTENANCE.md MONITORING.md OPERATIONS.md
    PROTOCOL-CLI.md PROTOCOL-DEVICES.md PROTOCOL-EVENTS.md PROTOCOL-PUSH.md PROTOCOL-WEB.md PROTOCOL.md SETTINGS.md TUTORIAL.md
    openapi.yaml`,
  'packages/cli-kit/src': `
    ask-secret.mjs backoff.mjs dev-vars.mjs device-store.mjs errors.mjs find-program.mjs hub-address.mjs hub-client.mjs hub-socket.mjs
    installation.mjs lock.mjs log.mjs npm-process.mjs outage.mjs pairing.mjs qr-code.mjs sign-in.mjs system-processes.mjs token.mjs`,
  scripts: 'build/prepare.mjs lib product',
};
export const HUB_FILES = Object.entries(HUB_NAMES).flatMap(([folder, names]) =>
  names.match(/\S+/g).map((name) => path.posix.join(folder, name)),
);

/** The npm packages that the hub's files import or run. */
export const HUB_DEPENDENCIES = ['smol-toml', 'socket.io-client', 'uqr', 'wrangler'];

/** The files of the CLI's package, relative to cli/. */
export const AGENT_FILES = ['README.md', 'index.mjs', 'src'];

/** The folder of the kit in the CLI's package, relative to the package and to the repository: npm has no package of the kit. */
export const KIT_FOLDER = 'packages/cli-kit/src';
