// The files of the two npm packages, relative to the repository. A folder stands for all its files.

/** The folder that `npm run package` writes, relative to the repository. */
export const PACKAGES_FOLDER = 'dist';

/** The files of the hub's package: the builds, the files that the commands read or import, and the documentation. */
export const HUB_FILES = [
  'CHANGELOG.md',
  'LICENSE',
  'README.md',
  'SECURITY.md',
  'build/index.js',
  'build/index_bg.wasm',
  'cli/src/agents.mjs',
  'cli/src/gemini-records.mjs',
  'docs/AGENTS.md',
  'docs/CAPACITY.md',
  'docs/CLIENTS.md',
  'docs/COMMANDS.md',
  'docs/CONSOLE.md',
  'docs/DEPLOY.md',
  'docs/OPERATIONS.md',
  'docs/PROTOCOL-CLI.md',
  'docs/PROTOCOL-EVENTS.md',
  'docs/PROTOCOL-PUSH.md',
  'docs/PROTOCOL-WEB.md',
  'docs/PROTOCOL.md',
  'docs/TUTORIAL.md',
  'docs/openapi.yaml',
  'migrations',
  'packages/cli-kit/src/dev-vars.mjs',
  'packages/cli-kit/src/errors.mjs',
  'packages/cli-kit/src/find-program.mjs',
  'packages/cli-kit/src/lock.mjs',
  'packages/cli-kit/src/npm-process.mjs',
  'packages/cli-kit/src/qr-code.mjs',
  'packages/cli-kit/src/system-processes.mjs',
  'scripts/cli.mjs',
  'scripts/deploy.mjs',
  'scripts/doctor.mjs',
  'scripts/namespace.mjs',
  'scripts/smoke.mjs',
  'scripts/start.mjs',
  'scripts/token.mjs',
  'scripts/wrangler.mjs',
  'scripts/lib/await.mjs',
  'scripts/lib/clients',
  'scripts/lib/close-matches.mjs',
  'scripts/lib/command-line.mjs',
  'scripts/lib/deploy',
  'scripts/lib/dev-vars.mjs',
  'scripts/lib/environments.mjs',
  'scripts/lib/errors.mjs',
  'scripts/lib/group.mjs',
  'scripts/lib/hub',
  'scripts/lib/invocation.mjs',
  'scripts/lib/lock.mjs',
  'scripts/lib/namespace',
  'scripts/lib/node.mjs',
  'scripts/lib/npm.mjs',
  'scripts/lib/package/command.mjs',
  'scripts/lib/package/usage.mjs',
  'scripts/lib/parallel.mjs',
  'scripts/lib/paths.mjs',
  'scripts/lib/prepare.mjs',
  'scripts/lib/progress.mjs',
  'scripts/lib/ready.mjs',
  'scripts/lib/run.mjs',
  'scripts/lib/sign-in.mjs',
  'scripts/lib/signals.mjs',
  'scripts/lib/smoke',
  'scripts/lib/statistics.mjs',
  'scripts/lib/versions.mjs',
  'scripts/lib/wrangler.mjs',
  'src/model/presets',
  'web/dist',
  'wrangler.toml',
];

/** The npm packages that the hub's files import or run. */
export const HUB_DEPENDENCIES = ['smol-toml', 'socket.io-client', 'uqr', 'wrangler'];

/** The files of the CLI's package, relative to cli/. The package also contains the kit, because npm has no package of the kit. */
export const AGENT_FILES = ['README.md', 'index.mjs', 'src'];

/** The files of the kit in the CLI's package, relative to packages/cli-kit/. */
export const KIT_FILES = ['package.json', 'src'];
